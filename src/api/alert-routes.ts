/** Alerts: all for operators, and those of their account for people. */
import { ALERT_KINDS } from '../common/alerts-config.ts'
import { line } from './inputs.ts'
import { ownAccount, PAGE } from './report-routes.ts'
import { type ApiRoute, route } from './route.ts'
import { shape } from './schema.ts'
import { showAlert } from './show.ts'
import type { AlertView, PageView } from './views.ts'

/** `GET /api/alerts` and the operators' routes about alerts. */
export const ALERT_ROUTES: readonly ApiRoute[] = [
  route({
    method: 'GET',
    path: '/api/alerts',
    summary: "The account's alerts about its budgets and its credit, the newest first.",
    audience: 'person',
    query: shape({ ...PAGE }),
    answers: 'AlertPage',
    async handle(call) {
      const { items, next } = await call.parts.store.alerts.list({ ...call.query, accountId: ownAccount(call) })
      // Only operators see webhooks.
      const body: PageView<AlertView> = { items: items.map(alert => ({ ...showAlert(alert), deliveries: [] })), next }
      return { body }
    },
  }),
  route({
    method: 'GET',
    path: '/api/operator/alerts',
    summary: 'Alerts with their deliveries to webhooks, the newest first.',
    audience: 'operator',
    query: shape({
      'kind?': { type: 'string', enum: ALERT_KINDS, description: 'Only alerts of this kind.' },
      ...PAGE,
    }),
    answers: 'AlertPage',
    async handle({ parts: { store }, query }) {
      const { items, next } = await store.alerts.list(query)
      const body: PageView<AlertView> = { items: items.map(showAlert), next }
      return { body }
    },
  }),
  route({
    method: 'POST',
    path: '/api/operator/alerts/resend',
    summary: 'Sends an alert to each of its webhooks again.',
    audience: 'operator',
    body: shape({ id: line('The id of the alert.', 1000) }),
    answers: null,
    status: 204,
    errors: ['not_found'],
    async handle({ parts: { store, clock }, body }) {
      await store.alerts.resend(body.id, clock.now())
      return { status: 204 }
    },
  }),
]
