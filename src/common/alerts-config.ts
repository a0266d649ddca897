/** `alerts` of gateway.yaml: the kinds of alerts and their receivers. */
import type { NanoUsd } from '#contract'

export const ALERT_KINDS = [
  'budget',
  'low_balance',
  'provider_down',
  'credential_refused',
  'breaker_open',
  'reload_invalid',
] as const

export type AlertKind = (typeof ALERT_KINDS)[number]

export interface Webhook {
  readonly name: string
  /** It may be a secret and is never logged. */
  readonly url: string
  /** The part of the URL that is shown. */
  readonly host: string
  /** The key of signatures in base64, perhaps with the prefix `whsec_`; null: requests are not signed. */
  readonly secret: string | null
  readonly format: 'json' | 'slack'
  readonly events: readonly AlertKind[]
}

export interface AlertsConfig {
  /** Credit below which an account gets an alert; null: no account does. */
  readonly lowBalance: NanoUsd | null
  /** How long alerts are listed. */
  readonly keepMs: number
  readonly webhooks: readonly Webhook[]
}
