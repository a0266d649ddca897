/** Where a model is hosted: at the provider itself, or in a cloud that takes the same body with less in it. */
export type Host = 'anthropic' | 'cloud'

/**
 * What the models of the Messages API take, by the pattern of their names. Facts as of November 2026; where the provider
 * counts on its own documentation, so does this table. A name that no row knows is the newest kind: a new model is like
 * its latest sister, never like its oldest.
 */
export interface Traits {
  /**
   * `free`: temperature and top_p; `either`: one of them, and it refuses both together; `none`: it refuses either.
   */
  readonly sampling: 'free' | 'either' | 'none'
  /** `budget`: thinks up to a number of tokens when told to; `adaptive`: by itself, guided by an effort. */
  readonly thinking: 'none' | 'budget' | 'adaptive'
  /** Adaptive only: it may think without being told to, so that not thinking must be said. */
  readonly thinksUnasked: boolean
  /** Adaptive only: it refuses a request that switches thinking off. */
  readonly thinksAlways: boolean
  /** Adaptive only: whether it knows the effort `xhigh`; otherwise `max` is the nearest. */
  readonly knowsXhigh: boolean
  /** Whether `output_config.format` and strict tools are there. */
  readonly schemas: boolean
  /** Whether it can be made to call a tool. */
  readonly forcedChoice: boolean
  /** Whether it refuses a thought when something before it has changed. */
  readonly bindsThoughts: boolean
  /** Whether instructions may be among the messages; otherwise all are before them. */
  readonly systemWithin: boolean
  /** Whether a conversation may end with the assistant's own words, which the answer then continues. */
  readonly prefill: boolean
}

const FIRST: Traits = {
  sampling: 'free',
  thinking: 'none',
  thinksUnasked: false,
  thinksAlways: false,
  knowsXhigh: false,
  schemas: false,
  forcedChoice: true,
  bindsThoughts: false,
  systemWithin: false,
  prefill: true,
}
const SONNET_3_7: Traits = { ...FIRST, thinking: 'budget' }
const FOUR: Traits = { ...SONNET_3_7, sampling: 'either' }
const FOUR_5: Traits = { ...FOUR, schemas: true }
const FOUR_6: Traits = { ...FOUR_5, thinking: 'adaptive', prefill: false }
const FIVE: Traits = { ...FOUR_6, sampling: 'none', thinksUnasked: true, knowsXhigh: true }
const OPUS_5: Traits = { ...FIVE, systemWithin: true }
const FABLE_5: Traits = { ...OPUS_5, thinksAlways: true }
/** Opus 5.5 and Fable 5.1. */
const NEWEST: Traits = { ...FABLE_5, forcedChoice: false, bindsThoughts: true }

/**
 * The first row that matches counts. Names come with a date or without, from clouds with a prefix and a suffix
 * (`us.anthropic.claude-sonnet-4-20250514-v1:0`, `claude-3-7-sonnet@20250219`), from relatives with a dot for a dash.
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
  // 4.0 and 4.1, which may leave the second figure out; what follows is a date, a word, or nothing.
  [/claude-(?:[a-z]+-)?4(?:[-.][01](?!\d)|(?![-.]?\d)|(?=-20\d{6}))/, FOUR],
]

/** What a model takes, by its name at the provider. */
export function traitsOf(model: string): Traits {
  const name = model.toLowerCase()
  return TABLE.find(([pattern]) => pattern.test(name))?.[1] ?? NEWEST
}
