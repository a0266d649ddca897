/** The models of the catalog, their targets, and who may use them. */
import type { Key } from './account.ts'
import type { Plan } from './plans.ts'
import type { Price } from './units.ts'

/** In the words of catalogues of models. `file` is a document. */
export const MODALITIES = ['text', 'image', 'audio', 'video', 'file'] as const
/** One of them. */
export type Modality = (typeof MODALITIES)[number]

/** Of a target: the media that its model reads; left out: everything that the dialect carries. */
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
  /** The operator's price, for the metrics. Null: not known. */
  readonly cost: Price | null
  /** The name under which this target takes the output cap. Left out: the one that its dialect or profile takes. */
  readonly capField?: 'max_tokens' | 'max_completion_tokens'
  /** Reasoning tokens that this target may bill beyond the cap, per choice. */
  readonly reasoningOutsideCap: number
  /** Targets of a lower number are tried before those of a higher one. */
  readonly priority: number
  /** Attempts in progress at most; a target that has as many is passed over. Infinity: no limit. */
  readonly maxInflight: number
}

/** A model of the catalog: what clients name in `model`. */
export interface Model {
  readonly id: string
  readonly targets: readonly Target[]
  /** Null: free. */
  readonly price: Price | null
  /** Tokens of prompt and output together. */
  readonly context: number
  readonly maxOutput: number
  /** Answers that one request may ask for (`n`), by what its targets give; left out: `MAX_CHOICES`. */
  readonly maxChoices?: number
  readonly defaultOutput: number
  /** A thinking model: takes `reasoning_effort`, and hides tokens that cannot be counted from outside. */
  readonly reasoning: boolean
  /** Tokens that tools add to the prompt beyond their bytes. */
  readonly inputOverhead: number
  /** Price-changing features that may be used on charged routes. */
  readonly allow: readonly PriceFeature[]
  /** In whose form its targets take a search of the web; left out: in none. */
  readonly searches?: readonly SearchForm[]
  readonly public: boolean
  readonly enabled: boolean
  /** Seconds since the epoch, as on the wire. */
  readonly created: number
  readonly ownedBy: string
  readonly description: string | null
  /** The end of the model; left out: none is known. */
  readonly deprecation?: ModelEnd
  /** The id with a `*` in gateway.yaml that the model comes from; left out: its own id is there. */
  readonly wildcard?: string
  /** Whether its price list has the price for each name with a day behind it, such as `claude-opus-5-20260101`. */
  readonly dated?: true
}

/** When a model ends, and the model that takes its place. */
export interface ModelEnd {
  /** The day on which its provider turns it off, as YYYY-MM-DD; null: not known. */
  readonly date: string | null
  readonly successor: string | null
}

/**
 * Whether a caller may use a model: a plan with a list has those of its list, a key with a list those of its own, everyone
 * else the public ones. With both lists, a model must be in both. One place for the answer, because a model that is refused
 * here must not be shown there.
 */
export function mayUse(model: Model, key: Key | undefined, plan?: Plan | undefined): boolean {
  if (!model.enabled) return false
  const ofPlan = plan?.models ?? null
  const ofKey = key?.models ?? null
  if (ofPlan !== null) return names(ofPlan, model) && (ofKey === null || isInModels(ofKey, model.id))
  return ofKey === null ? model.public : names(ofKey, model)
}

/** A pattern is for public models: one that is not public has to be named. */
function names(models: readonly string[], { id, public: isPublic }: Model): boolean {
  return isPublic ? isInModels(models, id) : models.includes(id)
}

/** The same of a model that only raw routes have. */
export function mayUseRaw(id: string, key: Key | undefined, plan: Plan | undefined): boolean {
  const ofPlan = plan?.models ?? null
  const ofKey = key?.models ?? null
  return (ofPlan === null || isInModels(ofPlan, id)) && (ofKey === null || isInModels(ofKey, id))
}

/** Whether a list of ids has this one. An entry with a `*`, such as `openai/*`, has each id that fits. */
export function isInModels(models: readonly string[], id: string): boolean {
  return models.includes(id) || models.some(entry => fitsPattern(entry, id))
}

/** Whether an id fits a pattern with one `*`, in whose place there is any text or none. */
export function fitsPattern(pattern: string, id: string): boolean {
  const star = pattern.indexOf('*')
  if (star < 0) return false
  const after = pattern.slice(star + 1)
  return id.length >= pattern.length - 1 && id.startsWith(pattern.slice(0, star)) && id.endsWith(after)
}

/** Request fields that change what a provider bills; refused on charged routes unless the model allows them. */
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
