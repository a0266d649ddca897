/** Alerts, as the account API answers them. */
import { maybe, type Properties } from './schema.ts'
import { count, list, oneOf, ref, says, text, time, view } from './schema-parts.ts'

export const ALERT_VIEWS = {
  AlertView: view('An alert, and how it reaches the webhooks.', {
    id: text,
    webhook_id: says(text, 'The id of the alert in webhooks: `id` of the body, and the header webhook-id.'),
    kind: says(text, 'budget, low_balance, provider_down, credential_refused, breaker_open or reload_invalid.'),
    at: time,
    account_id: maybe(text),
    account: maybe(text),
    text: says(text, 'The alert in one sentence.'),
    deliveries: list(ref('DeliveryView')),
  }),
  DeliveryView: view('An alert on its way to one webhook.', {
    receiver: text,
    attempts: count,
    state: oneOf('waiting', 'delivered', 'given_up'),
    at: says(time, 'When it is sent next, was delivered or was given up.'),
    failure: says(maybe(text), 'Of the last attempt.'),
  }),
} satisfies Properties
