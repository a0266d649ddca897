/** The models of the catalog, their targets, and access to them. */
import type { Key } from './account.ts'
import type { Plan } from './plans.ts'
import type { Price } from './units.ts'

/** Modalities as model catalogues name them. `file` is a document. */
export const MODALITIES = ['text', 'image', 'audio', 'video', 'file'] as const
/** A medium that a model reads or writes. */
export type Modality = (typeof MODALITIES)[number]

/** The media that a target's model can read; left out: everything that the dialect supports. */
export interface Reader {
  readonly inputModalities?: readonly Modality[]
}

/** A provider and its own name for a model. */
export interface Target extends Reader {
  /** `provider/model`, for receipts, logs and metrics. */
  readonly id: string
  readonly provider: string
  readonly model: string
  readonly weight: number
  /** The operator's price, for the metrics. Null: unknown. */
  readonly cost: Price | null
  /** The parameter that takes the output cap. Left out: that of the dialect or profile. */
  readonly capField?: 'max_tokens' | 'max_completion_tokens'
  /** Reasoning tokens that this target may bill beyond the cap, per choice. */
  readonly reasoningOutsideCap: number
  /** Targets with a lower number are tried first. */
  readonly priority: number
  /** Maximum number of attempts in progress; a target at its maximum is skipped. Infinity: no limit. */
  readonly maxInflight: number
}

/** A model of the catalog, which clients name in `model`. */
export interface Model {
  readonly id: string
  readonly targets: readonly Target[]
  /** Null: free. */
  readonly price: Price | null
  /** Tokens of prompt and output together. */
  readonly context: number
  readonly maxOutput: number
  /** Maximum number of choices of one request (`n`) that its targets support; left out: `MAX_CHOICES`. */
  readonly maxChoices?: number
  readonly defaultOutput: number
  /** A reasoning model: it accepts `reasoning_effort`, and bills hidden tokens that cannot be counted from its answer. */
  readonly reasoning: boolean
  /** Tokens that tools add to the prompt beyond their bytes. */
  readonly inputOverhead: number
  /** Price-changing features that are allowed on charged routes. */
  readonly allow: readonly PriceFeature[]
  /** The forms of web search that its targets support; left out: none. */
  readonly searches?: readonly SearchForm[]
  readonly public: boolean
  readonly enabled: boolean
  /** Seconds since the epoch, as on the wire. */
  readonly created: number
  readonly ownedBy: string
  readonly description: string | null
  /** The end of the model; left out: unknown. */
  readonly deprecation?: ModelEnd
  /** The id with a `*` in gateway.yaml that the model's id matches; left out: gateway.yaml has the id itself. */
  readonly wildcard?: string
  /** Whether its price list covers dated names, such as `claude-opus-5-20260101`. */
  readonly dated?: true
}

/** The end of a model, and its successor. */
export interface ModelEnd {
  /** The day on which its provider turns it off, as YYYY-MM-DD; null: unknown. */
  readonly date: string | null
  readonly successor: string | null
}

/**
 * Whether a caller may use a model. A list of the plan or the key allows its models; with both lists, a model must be in both. Without a
 * list, public models are allowed. All checks and lists use this function, so that a refused model is never shown.
 */
export function mayUse(model: Model, key: Key | undefined, plan?: Plan | undefined): boolean {
  if (!model.enabled) return false
  const ofPlan = plan?.models ?? null
  const ofKey = key?.models ?? null
  if (ofPlan !== null) return names(ofPlan, model) && (ofKey === null || isInModels(ofKey, model.id))
  return ofKey === null ? model.public : names(ofKey, model)
}

/** A pattern matches public models only: others must be named. */
function names(models: readonly string[], { id, public: isPublic }: Model): boolean {
  return isPublic ? isInModels(models, id) : models.includes(id)
}

/** Whether a caller may use a model of raw routes only. */
export function mayUseRaw(id: string, key: Key | undefined, plan: Plan | undefined): boolean {
  const ofPlan = plan?.models ?? null
  const ofKey = key?.models ?? null
  return (ofPlan === null || isInModels(ofPlan, id)) && (ofKey === null || isInModels(ofKey, id))
}

/** Whether a list of ids includes this one. An entry with a `*`, such as `openai/*`, includes each id that matches. */
export function isInModels(models: readonly string[], id: string): boolean {
  return models.includes(id) || models.some(entry => fitsPattern(entry, id))
}

/** Whether an id matches a pattern with one `*`, which matches any text, even none. */
export function fitsPattern(pattern: string, id: string): boolean {
  const star = pattern.indexOf('*')
  if (star < 0) return false
  const after = pattern.slice(star + 1)
  return id.length >= pattern.length - 1 && id.startsWith(pattern.slice(0, star)) && id.endsWith(after)
}

/** Request fields that change the provider's bill; refused on charged routes unless the model allows them. */
export type PriceFeature = 'service_tier' | 'web_search' | 'audio' | 'prediction'

/** Anthropic's tool of the Messages API, or OpenAI's `web_search_options` of chat completions. */
export type SearchForm = 'anthropic' | 'openai'

/** Whether a model searches the web for requests in this form: it must list `web_search` under `allow`. */
export function takesSearch(
  { allow = [], searches = [] }: Partial<Pick<Model, 'allow' | 'searches'>>,
  form: SearchForm,
): boolean {
  return allow.includes('web_search') && searches.includes(form)
}
