/**
 * Properties of the models behind Converse. The first row whose pattern matches the model's id counts. Ids are AWS's
 * (`us.anthropic.claude-sonnet-4-5-20250929-v1:0`, also inside an ARN). A family's last row is for its newest members, because a model
 * that no row names is newer than this table.
 */

import { traitsOf as messagesTraitsOf } from '../anthropic/traits.ts'

/** How `reasoning_effort` is sent, always in `additionalModelRequestFields`. */
export type ReasoningMode =
  /** Not sent. */
  | 'none'
  /** `thinking` with a token budget. */
  | 'budget'
  /** `thinking` that the model adapts itself, and `output_config.effort`. */
  | 'adaptive'
  /** `reasoningConfig` of Amazon's Nova 2. */
  | 'nova'
  /** `reasoning_effort` with OpenAI's three values; it cannot be switched off. */
  | 'effort'
  /** `reasoning_config` with the same three values. */
  | 'config'

export interface Traits {
  readonly thinking: ReasoningMode
  /** The supported efforts in ascending order; `xhigh` exists for some only. */
  readonly efforts: readonly string[]
  /** Whether it reasons by default. */
  readonly reasonsUnasked: boolean
  /** Claude models that refuse a request that switches reasoning off. */
  readonly alwaysReasons: boolean
  /** Whether it refuses reasoning if something before it has changed. Instructions keep their place then. */
  readonly bindsReasoning: boolean
  /** Whether reasoning can be sent back with its signature. */
  readonly takesReasoning: boolean
  /** `temperature` and `top_p`: both, one at a time, or neither. */
  readonly sampling: 'both' | 'one' | 'neither'
  /** How it supports a JSON Schema for the answer: natively, by a forced tool call, or not. */
  readonly schema: 'native' | 'tool' | 'none'
  /** Whether schemas must be closed and without keywords that only limit a value. */
  readonly closedSchemas: boolean
  /** Whether a tool can be forced by name. If not, it is sent as the only tool. */
  readonly namedChoice: boolean
  /** Whether it can be forced to call a tool. */
  readonly forcedChoice: boolean
  /** Whether a conversation may end with an assistant message, which the answer continues. */
  readonly prefill: boolean
  /** Whether it supports `top_k`, which Converse itself does not have. */
  readonly topK: boolean
  readonly system: boolean
  /** Whether stop sequences of white space only are refused. */
  readonly solidStops: boolean
  /** Where it supports cache marks. It refuses the whole request for one elsewhere. */
  readonly caching: 'none' | 'prompt' | 'prompt and tools'
  /** Whether a mark may have a TTL. */
  readonly timedCaching: boolean
  /** The format of a call's id: Converse's own, or Mistral's nine letters and digits. */
  readonly callIds: 'converse' | 'nine'
}

/** An unknown model that supports Converse, such as an application's inference profile. */
const PLAIN: Traits = {
  thinking: 'none',
  efforts: [],
  reasonsUnasked: false,
  alwaysReasons: false,
  bindsReasoning: false,
  takesReasoning: false,
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
  // At the effort `high` Nova refuses an output cap, which is always sent. So `high` is not in its list.
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
  [/deepseek\.r1/, { ...PLAIN, schema: 'none', reasonsUnasked: true }],
  [/deepseek|qwen/, { ...PLAIN, thinking: 'config', efforts: ['low', 'medium', 'high'] }],
  [/gpt-oss|kimi/, { ...PLAIN, thinking: 'effort', efforts: ['low', 'medium', 'high'], reasonsUnasked: true }],
]

export function traitsOf(model: string): Traits {
  const id = model.toLowerCase()
  if (id.includes('claude')) return claude(id)
  return TABLE.find(([pattern]) => pattern.test(id))?.[1] ?? PLAIN
}

/** Claude's traits come from the table of its own API; Converse only wraps it. */
function claude(id: string): Traits {
  const known = messagesTraitsOf(id)
  const { thinking, reasonsByDefault, alwaysReasons, knowsXhigh, sampling, schemas, prefill } = known
  const { forcedChoice, bindsReasoning } = known
  const byTool = /claude-(?:v\d|instant)/.test(id) ? 'none' : 'tool'
  return {
    ...PLAIN,
    thinking,
    efforts: knowsXhigh ? ['low', 'medium', 'high', 'xhigh', 'max'] : ['low', 'medium', 'high', 'max'],
    reasonsUnasked: reasonsByDefault,
    alwaysReasons,
    bindsReasoning,
    forcedChoice,
    takesReasoning: thinking !== 'none',
    sampling: SAMPLING[sampling],
    prefill,
    topK: true,
    schema: schemas ? 'native' : byTool,
    closedSchemas: true,
    solidStops: true,
    caching: UNCACHED.test(id) ? 'none' : 'prompt and tools',
    // It came with the 4.5 models, which are also the first with schemas.
    timedCaching: schemas,
  }
}

/** Claude 3.5 Haiku was the first with caching for all customers; 3.5 Sonnet never got it. */
const UNCACHED = /claude-(?:v?[12](?!\d)|instant|3-(?:haiku|sonnet|opus)|3-5-sonnet)/

const SAMPLING = { free: 'both', either: 'one', none: 'neither' } as const
