/** `alerts`: when an account's credit is low, and the webhooks that alerts are sent to. */
import { unit } from '#contract'
import { ALERT_KINDS, type AlertsConfig, type Webhook } from '../common/alerts-config.ts'
import type { GatewayShape, WebhookShape } from './file-shapes.ts'
import { BY_REFERENCE, WRITTEN_IN_CLEAR } from './gateway-section.ts'
import { isLoopback } from './listen-address.ts'
import { flag, map, measured, NAME, text } from './schema-parts.ts'
import type { Source } from './yaml/source.ts'

const WEBHOOK = map(
  'A receiver of alerts.',
  {
    name: text('Its name, for pages, metrics and `tollgate alerts test`. A new name gets no earlier alerts.', NAME),
    url: text(
      'Where alerts are sent by POST: https, or http on this machine. Write it as ${NAME} if the URL is a secret.',
    ),
    secret: text(
      'The key that signs requests (Standard Webhooks): 24 to 64 bytes in base64, with or without the prefix whsec_, as ${NAME} or ${file:PATH}. Default: requests are not signed.',
    ),
    format: {
      enum: ['json', 'slack'],
      default: 'json',
      description: 'json: the alert with its data; slack: one sentence, in the format of Slack and Mattermost.',
    },
    events: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      description: 'The kinds of alerts that it receives.',
      items: { enum: ALERT_KINDS },
      default: [...ALERT_KINDS],
    },
    allow_insecure: flag('Allows http:// to another machine, unencrypted.', false),
  },
  { required: ['name', 'url'] },
)

export const ALERTS_SCHEMA = map(
  'Alerts about budgets, credit and failures. The dashboard lists them; webhooks receive them.',
  {
    low_balance: {
      ...unit('money'),
      description:
        'An account gets an alert when its credit falls below this amount. Holds of requests in progress do not count. Default: no such alert.',
    },
    keep: measured('duration', '7d', '730d')('How long alerts are listed.', '90d'),
    webhooks: {
      type: 'array',
      maxItems: 20,
      description: 'Where alerts are sent: at least once each, with retries for three days.',
      items: WEBHOOK,
      default: [],
    },
  },
  { default: {} },
)

const SECRET_BYTES = { least: 24, most: 64 }

/** Null if a problem of it was reported. */
export function buildAlerts(source: Source, shape: GatewayShape['alerts']): AlertsConfig | null {
  const sound = source.remains('/alerts', shape)
  const names = new Set<string>()
  for (const [index, webhook] of (Array.isArray(sound?.webhooks) ? sound.webhooks : []).entries()) {
    const at = `/alerts/webhooks/${index}`
    const remains = source.remains(at, webhook)
    if (remains === null) continue
    if (remains.name !== undefined && names.has(remains.name)) {
      source.report(`${at}/name`, `the webhook "${remains.name}" is listed twice`, { rule: 'duplicate-entry' })
    } else if (remains.name !== undefined) names.add(remains.name)
    if (remains.url !== undefined) checkUrl(source, `${at}/url`, remains.url, remains)
    if (remains.secret !== undefined) checkSecret(source, `${at}/secret`, remains.secret, remains)
  }
  if (!source.sound('/alerts')) return null
  return {
    lowBalance: shape.low_balance ?? null,
    keepMs: shape.keep,
    webhooks: shape.webhooks.map(toWebhook),
  }
}

function toWebhook({ name, url, secret, format, events }: WebhookShape): Webhook {
  return { name, url, host: new URL(url).host, secret: secret ?? null, format, events }
}

/** The URL may be a secret, so no message shows it. */
function checkUrl(
  source: Source,
  at: string,
  text: string,
  { allow_insecure: isInsecureAllowed = true }: Partial<WebhookShape>,
): void {
  const url = URL.parse(text)
  const report = (message: string, suggestion: string, rule: 'wrong-value' | 'written-secret' = 'wrong-value') =>
    source.report(at, message, { rule, suggestion, concealed: true })
  if (url === null || !/^https?:$/.test(url.protocol)) {
    report('url must begin with http:// or https://', 'write it as https://HOST/PATH')
  } else if (url.username !== '' || url.password !== '') {
    report('url contains credentials', 'let the receiver check the signature: write secret', 'written-secret')
  } else if (url.hash !== '') report('url has a fragment', 'remove the part from # on')
  else if (url.hostname === 'hooks.slack.com' && !source.substituted(at)) {
    report(`a Slack URL is a secret, and ${WRITTEN_IN_CLEAR}`, BY_REFERENCE, 'written-secret')
  } else if (url.protocol === 'http:' && !isLoopback(url.hostname) && !isInsecureAllowed) {
    report('url would send alerts unencrypted', 'use https, or write allow_insecure: true if you trust that network')
  }
}

function checkSecret(source: Source, at: string, secret: string, { format }: Partial<WebhookShape>): void {
  if (format === 'slack') {
    const suggestion = 'remove this line, or write format: json'
    source.report(at, 'Slack does not check signatures', {
      rule: 'useless-key',
      key: true,
      suggestion,
      concealed: true,
    })
  } else if (!source.substituted(at)) {
    const message = `the secret ${WRITTEN_IN_CLEAR}`
    source.report(at, message, { rule: 'written-secret', suggestion: BY_REFERENCE, concealed: true })
  } else {
    const encoded = secret.replace(/^whsec_/, '')
    const bytes = Buffer.from(encoded, 'base64').length
    if (/^[A-Za-z0-9+/]+={0,2}$/.test(encoded) && bytes >= SECRET_BYTES.least && bytes <= SECRET_BYTES.most) return
    const message = `the secret must be ${SECRET_BYTES.least} to ${SECRET_BYTES.most} bytes in base64`
    source.report(at, message, { suggestion: 'make one with: openssl rand -base64 32', concealed: true })
  }
}
