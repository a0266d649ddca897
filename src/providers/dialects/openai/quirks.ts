/**
 * What relatives of the OpenAI dialect take differently in a request, as data: a row for each name under which a provider
 * can be configured. A relative without a row takes what OpenAI takes but for custom tools (xAI, Cerebras, vLLM, ...): `openai` is
 * its dialect. What relatives answer differently is read leniently for all of them, see repair.ts.
 *
 * Facts as of November 2026, from recorded traffic, the providers' references, and the errors that their users report.
 */
export interface Quirks {
  /** The only name that it knows for the output cap, whatever the target says: a cap of another name has no effect. */
  readonly capField?: 'max_tokens' | 'max_completion_tokens'
  /** False: it has no `stream_options`; it reports usage unasked, or not at all. */
  readonly streamOptions?: false
  /** Parameters that it calls something else. */
  readonly renamed?: Readonly<Record<string, string>>
  /** Words that it has other words for, by the parameter. */
  readonly words?: Readonly<Record<string, Readonly<Record<string, string>>>>
  /** The only parameters that it takes, by their names there; it refuses the whole request for any other. */
  readonly takes?: ReadonlySet<string>
  /** Parameters for which it refuses the whole request. */
  readonly leaves?: ReadonlySet<string>
  /** Parameters without which the answer would be another one than was asked for: the gateway refuses. */
  readonly refuses?: readonly Refused[]
  /** Wishes about tools in other words: `allowed_tools` as a shorter list of tools, and arguments for each of them. */
  readonly tools?: 'plain'
  /** `functions`: it has no custom tools, so each is a function towards it. */
  readonly customTools?: 'functions'
  /** Nothing differs but `leaves`, and what a conversation may have of the gateway's own (`messages.extensions`). */
  readonly isPlain?: true
  /** `kept`: it takes `cache_control` in parts and tools, which all others are not sent. */
  readonly cacheMarks?: 'kept'
  readonly messages?: MessageQuirks
}

/** A parameter that cannot be left out. */
export interface Refused {
  readonly name: string
  /** Only a list with this word in it. */
  readonly having?: string
  readonly sentence: string
}

/** How the turns of a conversation differ. */
export interface MessageQuirks {
  /** Roles that it has other roles for. */
  readonly roles?: Readonly<Record<string, string>>
  /** The only fields that a message may have, by its role there. */
  readonly takes?: Readonly<Record<string, ReadonlySet<string>>>
  /** The only fields that a call in a message may have. */
  readonly callTakes?: ReadonlySet<string>
  /** Fields that no message may have. */
  readonly leaves?: ReadonlySet<string>
  /** `left`: what the gateway adds to answers of others, and clients send back (extensions.ts), is left out. */
  readonly extensions?: 'left'
  /** `strict`: turns in an order, see order.ts. */
  readonly order?: 'strict'
  /** `called`: earlier thinking belongs into turns in which tools were called, and into no other. */
  readonly thoughts?: 'called'
  /** `document_url`: a file in a message is a part of this type, with the file's address or its data. */
  readonly files?: 'document_url'
  /** `nine`: ids of calls are nine letters and digits. */
  readonly callIds?: 'nine'
}

const set = (words: string): ReadonlySet<string> => new Set(words.split(' '))

/** Who has no role for developers has the older one, which means the same. */
const SYSTEM = { developer: 'system' }

/**
 * Answers 422 to any field that it does not know, at the top or in a message, and 400 to ids of calls that are not its
 * own kind and to turns that it does not expect. The lists are its reference's; of efforts its models know two.
 */
const MISTRAL: Quirks = {
  capField: 'max_tokens',
  streamOptions: false,
  renamed: { seed: 'random_seed' },
  words: {
    tool_choice: { required: 'any' },
    reasoning_effort: { minimal: 'none', low: 'high', medium: 'high', xhigh: 'high', max: 'high' },
  },
  tools: 'plain',
  customTools: 'functions',
  takes: set(
    'model messages temperature top_p max_tokens stream stop random_seed metadata response_format tools tool_choice ' +
      'presence_penalty frequency_penalty n prediction parallel_tool_calls prompt_mode reasoning_effort ' +
      'prompt_cache_key safe_prompt guardrails',
  ),
  refuses: [
    { name: 'functions', sentence: "'functions' is older than this model's provider, which has 'tools' only." },
    { name: 'modalities', having: 'audio', sentence: "'modalities' asks for sound, which this model does not make." },
  ],
  messages: {
    roles: SYSTEM,
    takes: {
      system: set('role content'),
      user: set('role content'),
      assistant: set('role content tool_calls prefix'),
      tool: set('role content tool_call_id'),
    },
    callTakes: set('id type function index'),
    order: 'strict',
    files: 'document_url',
    callIds: 'nine',
  },
}

/**
 * Its reference has `max_tokens` only, and what it does not know it ignores: under another name there would be no cap.
 * Of its own thinking it wants back what led to calls of tools (400 without it), and its first thinking models answer
 * 400 to any other.
 */
const DEEPSEEK: Quirks = {
  capField: 'max_tokens',
  leaves: set('top_k'),
  customTools: 'functions',
  messages: { roles: SYSTEM, thoughts: 'called' },
}

/** Answers 400 to these, which its reference says, and to fields of messages that it does not know. */
const GROQ: Quirks = {
  customTools: 'functions',
  leaves: set(
    'logprobs top_logprobs logit_bias top_k verbosity prompt_cache_key prompt_cache_options prompt_cache_retention',
  ),
  messages: { leaves: set('name reasoning_content refusal annotations audio'), extensions: 'left' },
}

/** Parameters that OpenAI's own API answers 400 to. */
const NOT_OPENAI = set('top_k')

/** OpenAI itself, and Azure's way to it, answer 400 to fields that they do not know, those of messages too. */
export const OPENAI: Quirks = { isPlain: true, leaves: NOT_OPENAI, messages: { extensions: 'left' } }

/** Its streams say usage in every chunk, without being asked. */
const PERPLEXITY: Quirks = {
  capField: 'max_tokens',
  streamOptions: false,
  customTools: 'functions',
  messages: { roles: SYSTEM },
}

const TOGETHER: Quirks = { capField: 'max_tokens', customTools: 'functions' }

const ZAI: Quirks = {
  capField: 'max_tokens',
  leaves: set('top_k'),
  customTools: 'functions',
  messages: { roles: SYSTEM },
}

/** Passes marks on to the makers that take them, and knows what the others do with them. */
const OPENROUTER: Quirks = { isPlain: true, cacheMarks: 'kept', customTools: 'functions' }

/** Everyone else (xAI, Cerebras, vLLM, llama.cpp, the demo ...) takes what OpenAI takes, except its custom tools. */
export const OTHERS: Quirks = { isPlain: true, customTools: 'functions' }

/** By the name of the dialect. */
export const QUIRKS = {
  mistral: MISTRAL,
  deepseek: DEEPSEEK,
  groq: GROQ,
  perplexity: PERPLEXITY,
  together: TOGETHER,
  zai: ZAI,
} as const satisfies Readonly<Record<string, Quirks>>

export type RelativeName = keyof typeof QUIRKS

/** Relatives that are configured as `openai`, by their hosts: of the rows the first that fits. */
export const QUIRKS_BY_HOST: readonly (readonly [host: RegExp, quirks: Quirks])[] = [
  [/^(?:[a-z0-9-]+\.)?openrouter\.ai$/, OPENROUTER],
  [/^(?:[a-z0-9-]+\.)?api\.openai\.com$/, OPENAI],
]

/** OpenAI's own API at Azure, and its older ones that know all that it knows. */
export const AZURE: Quirks = OPENAI

const BEFORE_DEVELOPERS: Quirks = { leaves: NOT_OPENAI, messages: { roles: SYSTEM, extensions: 'left' } }

/** What Azure's versions of OpenAI's API do not know yet, which they answer 400 to: of the rows the first that is newer. */
export const AZURE_BEFORE: readonly (readonly [version: string, quirks: Quirks])[] = [
  ['2024-09-01', { ...BEFORE_DEVELOPERS, capField: 'max_tokens', streamOptions: false }],
  ['2024-12-01', BEFORE_DEVELOPERS],
]

/** Foundry's API for models of all makers knows the cap by its older name only. */
export const FOUNDRY: Quirks = {
  capField: 'max_tokens',
  customTools: 'functions',
  messages: { roles: SYSTEM, extensions: 'left' },
}
