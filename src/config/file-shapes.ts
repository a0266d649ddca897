/** The shapes of gateway.yaml and policies after the schemas have accepted them: units parsed, defaults filled in. */
import type { Budget, Modality, NanoUsd, PlanLimit, PriceFeature, RouteKind, Tier, Unit } from '#contract'
import type { AlertKind } from '../common/alerts-config.ts'
import type { DialectName, ProfileName } from '../providers/dialects/dialect-names.ts'

/** The keys of a price, one for each unit in `UNITS`. */
export type PriceKey = Exclude<Unit, 'search'> | 'web_search' | 'minute'

/** Dollars by key, with other prices for long prompts. */
export type PriceParts = { readonly [key in PriceKey]?: NanoUsd } & { readonly above?: readonly PriceStep[] }

/** The prices of requests whose prompt has more than `tokens` tokens. */
export type PriceStep = { readonly [key in PriceKey]?: NanoUsd } & { readonly tokens: number }

export type PriceShape = PriceParts & {
  readonly per?: '1M tokens' | '1K tokens'
  readonly tier?: { readonly [tier in Tier]?: PriceParts }
}

export interface ProviderShape {
  readonly dialect: DialectName | 'demo'
  readonly profile?: ProfileName
  readonly base_url?: string
  readonly api_key?: string
  readonly api_keys?: readonly string[]
  readonly aws?: {
    readonly access_key_id: string
    readonly secret_access_key: string
    readonly session_token?: string
    readonly region: string
  }
  readonly api_version?: string
  readonly auth?: 'api-key' | 'bearer'
  /** The text of a service account's JSON file. */
  readonly service_account?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly allow_insecure: boolean
  readonly timeouts: {
    readonly connect: number
    readonly first_byte: number
    readonly idle: number
    readonly total: number
  }
  readonly connections: number
  readonly missing_finish: 'error' | 'stop'
  readonly pace?: number
}

export interface TargetShape {
  readonly provider: string
  readonly model: string
  readonly weight: number
  readonly base_model?: string
  readonly cost?: PriceShape | 'free' | 'auto'
  readonly cap_field?: 'max_tokens' | 'max_completion_tokens'
  readonly reasoning_outside_cap: number
  readonly priority: number
  readonly max_inflight?: number
  readonly input_modalities?: readonly Modality[]
}

export interface ModelShape {
  readonly targets: readonly TargetShape[]
  readonly price: PriceShape | 'free' | 'auto'
  readonly context?: number | 'auto'
  readonly max_output?: number | 'auto'
  readonly default_output?: number
  readonly reasoning?: boolean | 'auto'
  readonly deprecation?: { readonly date?: string; readonly successor?: string }
  readonly input_overhead: number
  readonly allow: readonly PriceFeature[]
  readonly public: boolean
  readonly enabled: boolean
  readonly aliases: readonly string[]
  readonly owned_by: string
  readonly description?: string
  readonly created: string
}

export interface RouteShape {
  readonly path: string
  readonly policy: string
  readonly kind?: RouteKind
  readonly public: boolean
  readonly unmetered: boolean
  readonly keep_responses?: number
  readonly methods?: readonly string[]
  readonly provider?: string
  readonly upstream_path?: string
  /** The provider's names. */
  readonly models?: readonly string[]
  readonly price?: PriceShape | 'free'
  readonly hold?: NanoUsd
}

export interface PlanShape {
  readonly models?: readonly string[]
  readonly limits: readonly PlanLimit[]
  readonly budgets: readonly Budget[]
  readonly weight?: number
}

export interface WebhookShape {
  readonly name: string
  readonly url: string
  readonly secret?: string
  readonly format: 'json' | 'slack'
  readonly events: readonly AlertKind[]
  readonly allow_insecure: boolean
}

export interface GatewayShape {
  readonly version: 1
  readonly catalog?: string | { readonly file: string; readonly accept: readonly string[] }
  readonly listen: string
  readonly threads: number | 'auto'
  readonly dashboard?: string
  readonly dashboard_url?: string
  readonly public_url?: string
  readonly registration?: {
    readonly mode?: 'open' | 'invitation' | 'closed'
    readonly credit?: NanoUsd
    readonly plan?: string
  }
  readonly admin?: string
  readonly metrics?: 'token' | 'open'
  readonly telemetry?: {
    readonly endpoint: string
    readonly protocol: 'protobuf' | 'json'
    readonly ratio: number
    readonly headers?: Readonly<Record<string, string>>
    readonly allow_insecure: boolean
    readonly metrics: boolean
    readonly attributes?: Readonly<Record<string, string>>
  }
  readonly alerts: {
    readonly low_balance?: NanoUsd
    readonly keep: number
    readonly webhooks: readonly WebhookShape[]
  }
  readonly store: string
  readonly state?: string
  readonly secret?: string
  readonly trust_proxy: number
  readonly hosts?: readonly string[]
  readonly cors?: { readonly origins: readonly string[] }
  readonly overload?: { readonly prefer?: readonly string[] }
  readonly plans?: Readonly<Record<string, PlanShape>>
  readonly limits: {
    readonly max_inflight: number
    readonly body: number
    readonly answer: number
    readonly bodies_in_flight: number
    readonly kept_response: number
    readonly kept_responses: number
    readonly event_loop: number
    readonly headers: number
    readonly request: number
    readonly stall: number
  }
  readonly drain: number
  readonly heartbeat: { readonly first: number; readonly every: number }
  readonly providers: Readonly<Record<string, ProviderShape>>
  readonly models: Readonly<Record<string, ModelShape>>
  readonly routes: readonly RouteShape[]
}

/** A file in policies/. */
export interface PolicyShape {
  readonly telemetry: { readonly content: boolean }
  readonly steps: readonly StepShape[]
}

export interface StepShape {
  readonly id?: string
  readonly use: string
  readonly with?: Readonly<Record<string, unknown>>
  readonly when?: string
  readonly mode: 'enforce' | 'shadow' | 'off'
  readonly onError: 'refuse' | 'skip'
}
