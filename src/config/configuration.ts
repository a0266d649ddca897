/** The checked configuration, which the rest of the gateway uses instead of gateway.yaml. Frozen; a reload makes a new one. */
import type { AnyPlugin, FactName, Model, NanoUsd, Plan, Price, RouteView } from '#contract'
import type { CatalogModel } from '../catalog/price-catalog.ts'
import type { AlertsConfig } from '../common/alerts-config.ts'
import type { TelemetryConfig } from '../common/telemetry-config.ts'
import type { DialectName, ProfileName } from '../providers/dialects/dialect-names.ts'

export interface Address {
  readonly host: string
  readonly port: number
}

export interface Timeouts {
  readonly connectMs: number
  /** Until the response head; for a stream, until its first event. */
  readonly firstByteMs: number
  /** Between two chunks of an answer. */
  readonly idleMs: number
  readonly totalMs: number
}

export interface Limits {
  /** Exchanges in progress; beyond: 503. */
  readonly maxInflight: number
  readonly bodyBytes: number
  /** A whole answer of a provider, or one event of its stream. */
  readonly answerBytes: number
  /** Bodies of all exchanges in progress; beyond: 503. */
  readonly bodyBytesInflight: number
  /** The largest response that is kept, and the sum of one account's kept responses. */
  readonly keptResponseBytes: number
  readonly keptAccountBytes: number
  /** The longest blocking of the event loop; beyond: 503. */
  readonly eventLoopMs: number
  readonly headersMs: number
  readonly requestMs: number
  /** A client that reads nothing for this long is disconnected. */
  readonly stallMs: number
}

/** A Google service account, whose key signs the requests for access tokens. */
export interface ServiceAccount {
  readonly clientEmail: string
  /** PEM. */
  readonly privateKey: string
  readonly tokenUri: string
}

/** The provider's API key, a service account, or a pair of AWS keys with the region for which they sign. */
export type Credential =
  | string
  | ServiceAccount
  | {
      readonly accessKeyId: string
      readonly secretAccessKey: string
      readonly sessionToken?: string | undefined
      readonly region: string
    }

/** The Azure API that is called, and the kind of credential. */
export interface AzurePlace {
  /** `v1`: OpenAI's own; `foundry`: for models of all vendors; `classic`: has the deployment in its path. */
  readonly api: 'v1' | 'foundry' | 'classic'
  /** Null: the API needs none. */
  readonly apiVersion: string | null
  /** `api-key`: keys of the resource; `bearer`: access tokens of Entra. */
  readonly auth: 'api-key' | 'bearer'
}

/** An upstream account: its address, its dialect and its credentials. */
export interface Provider {
  readonly name: string
  readonly dialect: DialectName | 'demo'
  /** Without a trailing slash; empty for the embedded demo. */
  readonly baseUrl: string
  /** Resolved, used in turn, never logged. Empty: requests carry no credential. */
  readonly credentials: readonly Credential[]
  readonly headers: Readonly<Record<string, string>>
  /** Present exactly with the dialect azure. */
  readonly azure?: AzurePlace | undefined
  /** With the dialect openai only. Undefined: the host decides. */
  readonly profile?: ProfileName | undefined
  readonly timeouts: Timeouts
  /** The maximum number of sockets. */
  readonly connections: number
  /** Whether an answer that ends normally without a finish reason gets one. */
  readonly fillsFinish: boolean
  /** The pause between two tokens of the embedded demo, in milliseconds. */
  readonly paceMs: number
}

/** The position of a value in a file, 1-based. */
export interface Position {
  readonly file: string
  readonly line: number
  readonly column: number
}

/** One step of a policy: a plugin with its checked, parsed settings. */
export interface StepConfig {
  readonly id: string
  readonly plugin: AnyPlugin
  readonly builtIn: boolean
  /** A Koa middleware from npm: its settings are unchecked, and it has no access to the exchange. */
  readonly foreign: boolean
  readonly settings: unknown
  /** A compiled CEL condition, or null. `whenFacts()` builds its argument. */
  readonly when: CompiledWhen | null
  readonly mode: 'enforce' | 'shadow' | 'off'
  readonly onError: 'refuse' | 'skip'
  readonly position: Position
}

export interface CompiledWhen {
  readonly source: string
  /** Throws if the condition throws. */
  evaluate(facts: Record<string, unknown>): boolean
}

export interface PolicyConfig {
  readonly name: string
  /** Of a derived route's policy: the policy whose identifying steps it uses. Undefined: the policy has a file. */
  readonly from?: string
  /** Whether spans contain the text of prompts and answers. */
  readonly tracesContent: boolean
  readonly steps: readonly StepConfig[]
}

/** The destination of a raw route. */
export interface RawTarget {
  readonly provider: Provider
  /** Appended to the provider's base URL. */
  readonly path: string
  /** The provider's models that a body may name; null: any, or none at all. */
  readonly models: readonly string[] | null
}

export interface RouteConfig extends RouteView {
  /** Not in the file: it comes with another route, or exists by default. */
  readonly derived: boolean
  readonly methods: readonly string[]
  readonly steps: PolicyConfig
  readonly raw: RawTarget | null
  readonly public: boolean
  readonly unmetered: boolean
  /** For `responses`: how long answers are kept; null: they are not kept. */
  readonly keepResponsesMs: number | null
}

/** The sources of a model's values: `gateway.yaml`, a price list, the `family` of its name, or a `default`. */
export interface ModelOrigin {
  /** The row of the price catalog; null: gateway.yaml has the price. */
  readonly price: CatalogModel | null
  readonly context: string
  readonly maxOutput: string
  readonly reasoning: string
  /** The row of each target; null: not needed, or no list has it. */
  readonly targets: readonly (CatalogModel | null)[]
}

/** `catalog` of gateway.yaml. */
export interface NamedList {
  /** An absolute path. */
  readonly file: string
  /** `VENDOR/MODEL` entries whose price may be 0, or far from the built-in one. */
  readonly accept: readonly string[]
}

export interface Configuration {
  readonly file: string
  readonly listen: Address
  /** The number of threads that serve requests. */
  readonly threads: number | 'auto'
  /** The address of the dashboard; null: not configured. */
  readonly dashboard: Address | null
  /** The dashboard's origin in browsers; null: its own address, which is loopback. */
  readonly dashboardUrl: string | null
  /** The URL of the gateway for clients, up to /v1; null: the address of `listen`. */
  readonly publicUrl: string | null
  readonly registration: {
    readonly mode: 'open' | 'invitation' | 'closed'
    /** The initial credit of an account that a person created on the dashboard. */
    readonly credit: NanoUsd
    readonly plan: string
  }
  readonly admin: Address | null
  /** Access to /metrics on `admin`: with an operator's token, or for everyone who reaches the address. */
  readonly metrics: 'token' | 'open'
  /** The collector that receives traces and metrics; null: none. */
  readonly telemetry: TelemetryConfig | null
  readonly alerts: AlertsConfig
  /** `memory`, `sqlite:` with an absolute path, or `postgres://USER@HOST/DATABASE`, which may contain a password. */
  readonly store: string
  /** The address of the state server that replicas share; null: state is in this process. It may contain a password. */
  readonly state: string | null
  /** The HMAC secret from the configuration; null: `.tollgate/secret` beside the store. */
  readonly secret: string | null
  readonly trustProxy: number
  /** The host names that are served, in lower case without port; null: all. */
  readonly hosts: readonly string[] | null
  /** The origins whose pages may call the gateway from a browser, or `*`; null: none. */
  readonly corsOrigins: readonly string[] | null
  readonly limits: Limits
  /** By name; null: gateway.yaml has no `plans`, and any name is a plan. */
  readonly plans: ReadonlyMap<string, Plan> | null
  /** Without `plans`: plans whose accounts get four times the weight of others while the event loop is busy. */
  readonly preferredPlans: readonly string[]
  readonly drainMs: number
  readonly heartbeat: { readonly firstMs: number; readonly everyMs: number }
  readonly providers: ReadonlyMap<string, Provider>
  readonly models: ReadonlyMap<string, Model>
  /** By model id. */
  readonly origins: ReadonlyMap<string, ModelOrigin>
  /** The operator's price list; null: none. */
  readonly priceList: NamedList | null
  /** Alias to model id. */
  readonly aliases: ReadonlyMap<string, string>
  readonly routes: readonly RouteConfig[]
  /** Every resolved secret value, for exact redaction in the log. */
  readonly secrets: readonly string[]
  /** Absolute paths of all files that were read or tried: policies, plugin files with their imports, secrets. */
  readonly files: readonly string[]
}

/** The plugin that a `use` resolves to. */
export interface ResolvedPlugin {
  readonly plugin: AnyPlugin
  readonly origin: 'built-in' | 'file' | 'npm'
  readonly foreign: boolean
  /** The absolute path of a plugin in its own file; null otherwise. */
  readonly file: string | null
}

/** The source of plugins for the loader; the pipeline's registry is one. */
export interface PluginRegistry {
  /** The names of the built-in plugins. */
  readonly names: readonly string[]
  find(name: string): AnyPlugin | undefined
  /** The names of the built-in plugins that give a fact. */
  givers(fact: FactName): readonly string[]
  /**
   * Loads the plugin of a `use`. `policyFile` is the file with the `use`; `configFile` is its gateway.yaml, beside which npm
   * packages are searched. Rejects with an Error whose message is for the author of the file.
   */
  load(use: string, place: { readonly policyFile: string; readonly configFile: string }): Promise<ResolvedPlugin>
  /** The local imports of a plugin's file, and whether each file's text differs from the running one. */
  imports(file: string): readonly { readonly file: string; readonly changed: boolean }[]
}

export type { AnyPlugin, Model, NanoUsd, Price }
