/** The request of an alert to a webhook, signed by Standard Webhooks 1.0. */
import { createHash, createHmac } from 'node:crypto'
import type { Webhook } from '../common/alerts-config.ts'
import type { Alert } from '../store/alerts/alert-rows.ts'
import { alertData, alertText } from './alert-text.ts'

export interface WebhookRequest {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** @param nowMs of the attempt: receivers reject signatures that are some minutes old */
export function webhookRequest(
  webhook: Pick<Webhook, 'format' | 'secret'>,
  alert: Alert,
  nowMs: number,
): WebhookRequest {
  const id = webhookId(alert.id)
  const body = JSON.stringify(webhook.format === 'slack' ? slackBody(alert) : jsonBody(id, alert))
  const timestamp = String(Math.floor(nowMs / 1000))
  const headers = { 'content-type': 'application/json', 'webhook-id': id, 'webhook-timestamp': timestamp }
  if (webhook.secret === null) return { headers, body }
  return { headers: { ...headers, 'webhook-signature': signature(webhook.secret, `${id}.${timestamp}.${body}`) }, body }
}

/** An id that is the same for each attempt and each receiver. The alert's own id has spaces and names. */
export function webhookId(alert: string): string {
  return `alert_${createHash('sha256').update(alert).digest('base64url').slice(0, 24)}`
}

/** @param text id, time in seconds and body, joined by dots */
export function signature(secret: string, text: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return `v1,${createHmac('sha256', key).update(text).digest('base64')}`
}

function jsonBody(id: string, alert: Alert): object {
  const { kind, at, account, accountName } = alert
  return {
    id,
    type: kind,
    at: new Date(at).toISOString(),
    account: account === null ? null : { id: account, name: accountName },
    data: alertData(alert),
    text: alertText(alert),
  }
}

/** Escapes Slack's markup, such as `<!channel>` and links, which names of accounts could contain. */
function slackBody(alert: Alert): object {
  const text = alertText(alert).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  return { text }
}
