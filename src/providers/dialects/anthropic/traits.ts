/** Where a model is hosted: at the provider, or in a cloud that supports a subset of the body. */
export type Host = 'anthropic' | 'cloud'

/**
 * Properties of the models of the Messages API, by the pattern of their names. Facts as of November 2026, from the provider's
 * documentation. An unknown name is treated as the newest kind, because a new model is most like the latest one.
 */
export interface Traits {
  /** `free`: temperature and top_p; `either`: only one of them in a request; `none`: neither. */
  readonly sampling: 'free' | 'either' | 'none'
  /** `budget`: reasons only on request, up to a number of tokens; `adaptive`: decides itself, guided by an effort. */
  readonly thinking: 'none' | 'budget' | 'adaptive'
  /** Adaptive only: it reasons by default, so the request must switch it off. */
  readonly reasonsByDefault: boolean
  /** Adaptive only: it refuses a request that switches reasoning off. */
  readonly alwaysReasons: boolean
  /** Adaptive only: whether it supports the effort `xhigh`; otherwise `max` is the nearest. */
  readonly knowsXhigh: boolean
  /** Whether it supports `output_config.format` and strict tools. */
  readonly schemas: boolean
  /** Whether it can be forced to call a tool. */
  readonly forcedChoice: boolean
  /** Whether it refuses reasoning if something before it has changed. */
  readonly bindsReasoning: boolean
  /** Whether instructions may be between messages; otherwise all are moved to the front. */
  readonly systemWithin: boolean
  /** Whether a conversation may end with an assistant message, which the answer continues. */
  readonly prefill: boolean
}

const FIRST: Traits = {
  sampling: 'free',
  thinking: 'none',
  reasonsByDefault: false,
  alwaysReasons: false,
  knowsXhigh: false,
  schemas: false,
  forcedChoice: true,
  bindsReasoning: false,
  systemWithin: false,
  prefill: true,
}
const SONNET_3_7: Traits = { ...FIRST, thinking: 'budget' }
const FOUR: Traits = { ...SONNET_3_7, sampling: 'either' }
const FOUR_5: Traits = { ...FOUR, schemas: true }
const FOUR_6: Traits = { ...FOUR_5, thinking: 'adaptive', prefill: false }
const FIVE: Traits = { ...FOUR_6, sampling: 'none', reasonsByDefault: true, knowsXhigh: true }
const OPUS_5: Traits = { ...FIVE, systemWithin: true }
const FABLE_5: Traits = { ...OPUS_5, alwaysReasons: true }
/** Opus 5.5 and Fable 5.1. */
const NEWEST: Traits = { ...FABLE_5, forcedChoice: false, bindsReasoning: true }

/**
 * The first matching row counts. Names may have a date, a cloud's prefix and suffix (`us.anthropic.claude-sonnet-4-20250514-v1:0`,
 * `claude-3-7-sonnet@20250219`), or a dot instead of a dash.
 */
const TABLE: readonly (readonly [pattern: RegExp, traits: Traits])[] = [
  [/claude-(?:instant|v?[12](?!\d))/, FIRST],
  [/claude-3[-.]7/, SONNET_3_7],
  [/claude-3(?!\d)/, FIRST],
  [/claude-(?:[a-z]+-)?4[-.]5(?!\d)/, FOUR_5],
  [/claude-(?:[a-z]+-)?4[-.]6(?!\d)/, FOUR_6],
  [/claude-(?:[a-z]+-)?4[-.]7(?!\d)/, FIVE],
  [/claude-(?:[a-z]+-)?4[-.]8(?!\d)/, OPUS_5],
  [/(?:fable|mythos)-5(?:[-.]0(?!\d)|(?![-.]?\d)|(?=-20\d{6}))/, FABLE_5],
  [/claude-opus-5(?:[-.]0(?!\d)|(?![-.]?\d)|(?=-20\d{6}))/, OPUS_5],
  [/claude-(?:[a-z]+-)?5(?:[-.]0(?!\d)|(?![-.]?\d)|(?=-20\d{6}))/, FIVE],
  // 4.0 and 4.1; the second figure may be missing. A date, a word or nothing follows.
  [/claude-(?:[a-z]+-)?4(?:[-.][01](?!\d)|(?![-.]?\d)|(?=-20\d{6}))/, FOUR],
]

/** The traits of a model, by its name at the provider. */
export function traitsOf(model: string): Traits {
  const name = model.toLowerCase()
  return TABLE.find(([pattern]) => pattern.test(name))?.[1] ?? NEWEST
}
