/**
 * What differs between the models that Converse is a common front of, as data: the first row whose pattern fits the
 * model's id counts. The ids are AWS's (`us.anthropic.claude-sonnet-4-5-20250929-v1:0`, also inside an ARN); within a
 * family what no row names is newer than this table, so the last row of a family says how its newest members behave.
 */

import { traitsOf as messagesTraitsOf } from '../anthropic/traits.ts'

/** How `reasoning_effort` is said, always in `additionalModelRequestFields`. */
export type Thinking =
  /** Not at all. */
  | 'none'
  /** `thinking` with a budget of tokens. */
  | 'budget'
  /** `thinking` that the model measures out itself, and `output_config.effort`. */
  | 'adaptive'
  /** `reasoningConfig` of Amazon's Nova 2. */
  | 'nova'
  /** `reasoning_effort` with OpenAI's three words; it can't be switched off. */
  | 'effort'
  /** `reasoning_config` with the same three words. */
  | 'config'

export interface Traits {
  readonly thinking: Thinking
  /** The effort above `high`, where there is more than one: `xhigh` is its own word only for some. */
  readonly efforts: readonly string[]
  /** Whether it thinks unless it is told not to. */
  readonly thinksByDefault: boolean
  /** Claude that refuses a request that switches thinking off. */
  readonly thinksAlways: boolean
  /** Whether it refuses a thought when something before it has changed. Instructions keep their place then. */
  readonly bindsThoughts: boolean
  /** Whether a thought can be sent back with its signature. */
  readonly takesThoughts: boolean
  /** `temperature` and `top_p`: both, one at a time, or neither. */
  readonly sampling: 'both' | 'one' | 'neither'
  /** How an answer by a JSON Schema is had: asked for, by a tool that must be called, or not at all. */
  readonly schema: 'native' | 'tool' | 'none'
  /** Whether schemas must be closed, and without keywords that only limit a value. */
  readonly closedSchemas: boolean
  /** Whether a tool may be named that must be called. Where not, it is the only one that is sent. */
  readonly namedChoice: boolean
  /** Whether it can be made to call a tool. */
  readonly forcedChoice: boolean
  /** Whether a conversation may end with the assistant's own words, which the answer then continues. */
  readonly prefill: boolean
  /** Where it takes `top_k`, which Converse itself does not have. */
  readonly topK: boolean
  readonly system: boolean
  /** Whether stop sequences of white space alone are refused. */
  readonly solidStops: boolean
  /** Where it takes marks of what is worth keeping; it refuses the whole request for one elsewhere. */
  readonly caching: 'none' | 'prompt' | 'prompt and tools'
  /** Whether a mark may say how long. */
  readonly timedCaching: boolean
  /** The form of a call's id: Converse's own, or the nine letters and digits that Mistral insists on. */
  readonly callIds: 'converse' | 'nine'
}

/** A model of which nothing is known but that it speaks Converse, such as an application's inference profile. */
const PLAIN: Traits = {
  thinking: 'none',
  efforts: [],
  thinksByDefault: false,
  thinksAlways: false,
  bindsThoughts: false,
  takesThoughts: false,
  sampling: 'both',
  schema: 'native',
  closedSchemas: false,
  namedChoice: true,
  forcedChoice: true,
  prefill: true,
  topK: false,
  system: true,
  solidStops: false,
  callIds: 'converse',
  caching: 'none',
  timedCaching: false,
}

const MISTRAL: Traits = { ...PLAIN, namedChoice: false, callIds: 'nine' }

const UNFORCED: Traits = { ...PLAIN, schema: 'none', forcedChoice: false }

const TABLE: readonly (readonly [pattern: RegExp, traits: Traits])[] = [
  // At the effort `high` Nova takes no cap on its output: that word is not in its list, because the cap is always sent.
  [/nova-(?:micro|lite|pro|premier)/, { ...PLAIN, schema: 'tool', caching: 'prompt' }],
  [/nova-canvas/, { ...PLAIN, schema: 'tool' }],
  [/\bnova\b/, { ...PLAIN, thinking: 'nova', efforts: ['low', 'medium'], schema: 'tool' }],
  [/titan/, { ...PLAIN, schema: 'none', system: false }],

  [/mistral-7b|mixtral/, { ...MISTRAL, schema: 'none', system: false }],
  [/mistral-(?:large|small)-24|pixtral/, { ...MISTRAL, schema: 'tool' }],
  [/mistral|ministral|magistral|voxtral|devstral/, MISTRAL],

  [/\bmeta\b|llama/, UNFORCED],
  [/cohere\.command-(?:text|light)|ai21\.j2/, { ...UNFORCED, system: false }],
  [/cohere|ai21|jamba/, UNFORCED],
  [/deepseek\.r1/, { ...PLAIN, schema: 'none', thinksByDefault: true }],
  [/deepseek|qwen/, { ...PLAIN, thinking: 'config', efforts: ['low', 'medium', 'high'] }],
  [/gpt-oss|kimi/, { ...PLAIN, thinking: 'effort', efforts: ['low', 'medium', 'high'], thinksByDefault: true }],
]

export function traitsOf(model: string): Traits {
  const id = model.toLowerCase()
  if (id.includes('claude')) return claude(id)
  return TABLE.find(([pattern]) => pattern.test(id))?.[1] ?? PLAIN
}

/** What is known of Claude is known from its own API; Converse only wraps it. */
function claude(id: string): Traits {
  const known = messagesTraitsOf(id)
  const { thinking, thinksUnasked, thinksAlways, knowsXhigh, sampling, schemas, prefill } = known
  const { forcedChoice, bindsThoughts } = known
  const byTool = /claude-(?:v\d|instant)/.test(id) ? 'none' : 'tool'
  return {
    ...PLAIN,
    thinking,
    efforts: knowsXhigh ? ['low', 'medium', 'high', 'xhigh', 'max'] : ['low', 'medium', 'high', 'max'],
    thinksByDefault: thinksUnasked,
    thinksAlways,
    bindsThoughts,
    forcedChoice,
    takesThoughts: thinking !== 'none',
    sampling: SAMPLING[sampling],
    prefill,
    topK: true,
    schema: schemas ? 'native' : byTool,
    closedSchemas: true,
    solidStops: true,
    caching: UNCACHED.test(id) ? 'none' : 'prompt and tools',
    // With the 4.5 models it came; those are also the first with schemas.
    timedCaching: schemas,
  }
}

/** Claude 3.5 Haiku was the first that everybody could cache for; 3.5 Sonnet never was. */
const UNCACHED = /claude-(?:v?[12](?!\d)|instant|3-(?:haiku|sonnet|opus)|3-5-sonnet)/

const SAMPLING = { free: 'both', either: 'one', none: 'neither' } as const
