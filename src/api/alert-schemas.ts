/** The views of alerts. */
import { maybe, type Properties } from './schema.ts'
import { count, list, oneOf, ref, says, text, time, view } from './schema-parts.ts'

export const ALERT_VIEWS = {
  AlertView: view('An alert with its deliveries to webhooks.', {
    id: text,
    webhook_id: says(text, 'The id of the alert in webhooks: `id` of the body, and the header webhook-id.'),
    kind: says(text, 'budget, low_balance, provider_down, credential_refused, breaker_open or reload_invalid.'),
    at: time,
    account_id: maybe(text),
    account: maybe(text),
    text: says(text, 'The alert in one sentence.'),
    deliveries: list(ref('DeliveryView')),
  }),
  DeliveryView: view('The delivery of an alert to one webhook.', {
    receiver: text,
    attempts: count,
    state: oneOf('waiting', 'delivered', 'given_up'),
    at: says(time, 'The time of the next attempt, of the delivery, or of the last attempt if it was abandoned.'),
    failure: says(maybe(text), 'The failure of the last attempt.'),
  }),
} satisfies Properties
