/** `alerts` of gateway.yaml: which alerts there are, and where they are sent. */
import type { NanoUsd } from '#contract'

/** The kinds of alerts. */
export const ALERT_KINDS = [
  'budget',
  'low_balance',
  'provider_down',
  'credential_refused',
  'breaker_open',
  'reload_invalid',
] as const

/** One of `ALERT_KINDS`. */
export type AlertKind = (typeof ALERT_KINDS)[number]

/** A receiver of alerts. */
export interface Webhook {
  readonly name: string
  /** It may be a secret, and is never logged. */
  readonly url: string
  /** The part of the URL that is shown. */
  readonly host: string
  /** The key of signatures in base64, perhaps behind `whsec_`; null: requests are not signed. */
  readonly secret: string | null
  readonly format: 'json' | 'slack'
  readonly events: readonly AlertKind[]
}

export interface AlertsConfig {
  /** Credit below which an account has an alert; null: none has. */
  readonly lowBalance: NanoUsd | null
  /** How long alerts are listed. */
  readonly keepMs: number
  readonly webhooks: readonly Webhook[]
}
