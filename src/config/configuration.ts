/** A checked configuration: what the rest of the gateway sees of gateway.yaml. Frozen; a reload makes a new one. */
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
  /** To the response head, and of a stream to its first event. */
  readonly firstByteMs: number
  /** Between two pieces of an answer. */
  readonly idleMs: number
  readonly totalMs: number
}

export interface Limits {
  /** Exchanges under way; beyond: 503. */
  readonly maxInflight: number
  readonly bodyBytes: number
  /** A whole answer of a provider, or one event of its stream. */
  readonly answerBytes: number
  /** Bodies of all exchanges under way; beyond: 503. */
  readonly bodyBytesInflight: number
  /** The largest response that is kept, and all that is kept for one account. */
  readonly keptResponseBytes: number
  readonly keptAccountBytes: number
  /** The event loop may be busy for so long at a stretch; beyond: 503. */
  readonly eventLoopMs: number
  readonly headersMs: number
  readonly requestMs: number
  /** A client that takes nothing for so long is cut. */
  readonly stallMs: number
}

/** A Google service account, whose key signs for access tokens. */
export interface ServiceAccount {
  readonly clientEmail: string
  /** PEM. */
  readonly privateKey: string
  readonly tokenUri: string
}

/** A key as the provider gave it, a service account, or a pair of AWS keys with the region for which they sign. */
export type Credential =
  | string
  | ServiceAccount
  | {
      readonly accessKeyId: string
      readonly secretAccessKey: string
      readonly sessionToken?: string | undefined
      readonly region: string
    }

/** Which of Azure's APIs is asked, and as whom. */
export interface AzurePlace {
  /** `v1`: OpenAI's own; `foundry`: for models of all makers; `classic`: has the deployment in its path. */
  readonly api: 'v1' | 'foundry' | 'classic'
  /** Null where none is needed. */
  readonly apiVersion: string | null
  /** Whether the credentials are keys of the resource or access tokens of Entra. */
  readonly auth: 'api-key' | 'bearer'
}

/** An upstream account: where it is, what it speaks, who we are there. */
export interface Provider {
  readonly name: string
  readonly dialect: DialectName | 'demo'
  /** Without a trailing slash; empty for the embedded demo. */
  readonly baseUrl: string
  /** Resolved; never logged. They take turns. None: nothing is sent that says who we are. */
  readonly credentials: readonly Credential[]
  readonly headers: Readonly<Record<string, string>>
  /** Of the dialect azure only, and there always. */
  readonly azure?: AzurePlace | undefined
  /** Of the dialect openai only. Undefined: the host says it. */
  readonly profile?: ProfileName | undefined
  readonly timeouts: Timeouts
  /** Sockets at most. */
  readonly connections: number
  /** Whether an answer that ends in good order without a finish reason is given one. */
  readonly fillsFinish: boolean
  /** What the embedded demo does: the pause between two tokens, in milliseconds. */
  readonly paceMs: number
}

/** Where a value stands in a file, 1-based. */
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
  /** A Koa middleware from npm: its settings are unchecked, and it knows nothing of the exchange. */
  readonly foreign: boolean
  readonly settings: unknown
  /** A compiled CEL condition, or null. Its argument is built by `whenFacts()`. */
  readonly when: CompiledWhen | null
  readonly mode: 'enforce' | 'shadow' | 'off'
  readonly onError: 'refuse' | 'skip'
  readonly position: Position
}

export interface CompiledWhen {
  readonly source: string
  /** Throws when the condition throws. */
  evaluate(facts: Record<string, unknown>): boolean
}

export interface PolicyConfig {
  readonly name: string
  /** Of a derived route's policy: the policy whose identifying steps it has. Left out: it has a file. */
  readonly from?: string
  /** Whether the spans of its exchanges have the words of prompts and answers. */
  readonly tracesContent: boolean
  readonly steps: readonly StepConfig[]
}

/** Raw routes only: where the bytes go. */
export interface RawTarget {
  readonly provider: Provider
  /** Path at the provider, appended to its base URL. */
  readonly path: string
  /** The provider's models that a body may name; null: it may name any, or none. */
  readonly models: readonly string[] | null
}

export interface RouteConfig extends RouteView {
  /** The file does not name it: it comes with another one, or is there by default. */
  readonly derived: boolean
  readonly methods: readonly string[]
  readonly steps: PolicyConfig
  readonly raw: RawTarget | null
  readonly public: boolean
  readonly unmetered: boolean
  /** For `responses`: how long answers are kept; null: not at all. */
  readonly keepResponsesMs: number | null
}

/** Where the values of a model come from: `gateway.yaml`, a price list, the `family` of its name, or a `default`. */
export interface ModelOrigin {
  /** The row of the price catalog; null: gateway.yaml has the price. */
  readonly price: CatalogModel | null
  readonly context: string
  readonly maxOutput: string
  readonly reasoning: string
  /** The row of each target; null: none was looked for, or no list has it. */
  readonly targets: readonly (CatalogModel | null)[]
}

/** `catalog` of gateway.yaml. */
export interface NamedList {
  /** An absolute path. */
  readonly file: string
  /** `VENDOR/MODEL` whose price may be 0, or far from the built-in one. */
  readonly accept: readonly string[]
}

export interface Configuration {
  readonly file: string
  readonly listen: Address
  /** How many threads serve requests. */
  readonly threads: number | 'auto'
  /** Where people come in; null: there is no dashboard. */
  readonly dashboard: Address | null
  /** The dashboard's origin as browsers see it; null: its own address, which is loopback. */
  readonly dashboardUrl: string | null
  /** Where clients reach the gateway from outside, up to /v1; null: the address of `listen`. */
  readonly publicUrl: string | null
  readonly registration: {
    readonly mode: 'open' | 'invitation' | 'closed'
    /** What an account begins with that somebody made on the dashboard. */
    readonly credit: NanoUsd
    readonly plan: string
  }
  readonly admin: Address | null
  /** Who may read /metrics there: whoever sends an operator's token, or whoever reaches it. */
  readonly metrics: 'token' | 'open'
  /** The collector that traces and metrics go to; null: none. */
  readonly telemetry: TelemetryConfig | null
  readonly alerts: AlertsConfig
  /** `memory`, `sqlite:` with an absolute path, or `postgres://USER@HOST/DATABASE`, which may have a password in it. */
  readonly store: string
  /** The address of the server with the state that replicas share; null: it is in this process. It may hold a password. */
  readonly state: string | null
  /** The HMAC secret from the configuration; null: `.tollgate/secret` beside the store. */
  readonly secret: string | null
  readonly trustProxy: number
  /** Host names served, lower-case without port; null: all. */
  readonly hosts: readonly string[] | null
  /** The origins whose pages may call from a browser, or `*`; null: none. */
  readonly corsOrigins: readonly string[] | null
  readonly limits: Limits
  /** By name; null: gateway.yaml has no `plans`, and any name is a plan. */
  readonly plans: ReadonlyMap<string, Plan> | null
  /** Without `plans`: those whose accounts have four times the weight of others while the event loop is busy. */
  readonly preferredPlans: readonly string[]
  readonly drainMs: number
  readonly heartbeat: { readonly firstMs: number; readonly everyMs: number }
  readonly providers: ReadonlyMap<string, Provider>
  readonly models: ReadonlyMap<string, Model>
  /** By the id of a model. */
  readonly origins: ReadonlyMap<string, ModelOrigin>
  /** The operator's price list; null: the configuration names none. */
  readonly priceList: NamedList | null
  /** Alias to model id. */
  readonly aliases: ReadonlyMap<string, string>
  readonly routes: readonly RouteConfig[]
  /** Every secret value that was resolved: for exact redaction in the log. */
  readonly secrets: readonly string[]
  /** Absolute paths of everything that was read or looked for: policies, plugin files and what they import, secrets. */
  readonly files: readonly string[]
}

/** What `use` led to. */
export interface FoundPlugin {
  readonly plugin: AnyPlugin
  readonly origin: 'built-in' | 'file' | 'npm'
  readonly foreign: boolean
  /** Absolute path of a plugin that is a file of its own; null otherwise. */
  readonly file: string | null
}

/** Where the loader gets plugins from; the pipeline's registry is one. */
export interface PluginRegistry {
  /** Names of the built-in plugins. */
  readonly names: readonly string[]
  /** A built-in plugin. */
  find(name: string): AnyPlugin | undefined
  /** Names of the built-in plugins that give a fact. */
  givers(fact: FactName): readonly string[]
  /**
   * The plugin for a `use`. `saidIn` is the file that says it, `configFile` the gateway.yaml it belongs to (npm packages
   * are looked for beside that one). Rejects with an Error whose message is a sentence for the one who wrote it.
   */
  load(use: string, place: { readonly saidIn: string; readonly configFile: string }): Promise<FoundPlugin>
  /** What a plugin's file imports from beside it, and whether that is another text now than the one that runs. */
  imports(file: string): readonly { readonly file: string; readonly changed: boolean }[]
}

export type { AnyPlugin, Model, NanoUsd, Price }
