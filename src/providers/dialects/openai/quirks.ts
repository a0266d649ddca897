/**
 * The requests that relatives of the OpenAI dialect take, as data: a profile for each. A provider gets one by its
 * dialect, by its host, or by `profile` in the configuration. Who has none takes what OpenAI takes but for custom tools. What
 * relatives answer differently is read leniently for all of them, see repair.ts.
 *
 * Facts as of November 2026, from recorded traffic, the providers' references and SDKs, and the errors that their users report.
 */
import { asList, flatLocation, matching, oneOf, onlyStop, within } from './fits.ts'
import type { Efforts, Members, Quirks, Refused } from './profile.ts'

const set = <T extends string>(words: string): ReadonlySet<T> => new Set(words.split(' ') as T[])

const ANY = /^/

/** The older role for developers, which means the same. */
const SYSTEM = { developer: 'system' }
const TEXT_ONLY = {}

const FUNCTIONS: Refused = {
  name: 'functions',
  sentence: "'functions' is older than this model's provider, which has 'tools' only.",
}
const SOUND: Refused = {
  name: 'modalities',
  having: 'audio',
  sentence: "'modalities' asks for sound, which this model does not make.",
}
const SEARCH: Refused = {
  name: 'web_search_options',
  sentence: "'web_search_options' asks for a search, which this model's provider does not make.",
}
const CHOICES: Refused = {
  name: 'n',
  above: 1,
  sentence: "'n' asks for several answers, of which this provider gives one.",
}

/** Three efforts are what most have. */
const THREE: Efforts = { minimal: 'low', xhigh: 'high', max: 'high' }
/** A model that always thinks. */
const THREE_ALWAYS: Efforts = { ...THREE, none: 'low' }
const GPT_OSS = /gpt-oss/i
/** The same for each effort that is one. */
const all = (fit: string | Members | null): Efforts => ({
  minimal: fit,
  low: fit,
  medium: fit,
  high: fit,
  xhigh: fit,
  max: fit,
})

/** How DeepSeek and Z.ai switch thinking. */
const [THINKING, NO_THINKING]: readonly [Members, Members] = [
  { thinking: { type: 'enabled' } },
  { thinking: { type: 'disabled' } },
]

/**
 * Answers 422 to any field that it does not know, at the top or in a message, and 400 to ids of calls that are not its
 * own kind and to turns that it does not expect. The lists are its reference's; of efforts its models know two.
 */
const MISTRAL: Quirks = {
  capField: 'max_tokens',
  streamOptions: false,
  renamed: { seed: 'random_seed' },
  words: { tool_choice: { required: 'any' } },
  efforts: [[ANY, { ...all('high'), minimal: 'none' }]],
  shapes: set('json_object json_schema'),
  tools: 'plain',
  customTools: 'functions',
  takes: set(
    'model messages temperature top_p max_tokens stream stop random_seed metadata response_format tools tool_choice ' +
      'presence_penalty frequency_penalty n prediction parallel_tool_calls prompt_mode reasoning_effort ' +
      'prompt_cache_key safe_prompt guardrails',
  ),
  refuses: [FUNCTIONS, SOUND],
  messages: {
    roles: SYSTEM,
    takes: {
      system: set('role content'),
      user: set('role content'),
      assistant: set('role content tool_calls prefix'),
      tool: set('role content tool_call_id'),
    },
    callTakes: set('id type function index'),
    functions: 'refused',
    refusals: 'content',
    order: 'strict',
    files: 'document_url',
    callIds: 'nine',
  },
}

const DEEPSEEK_THINKS = /^(?!deepseek-chat)/

/**
 * Its reference has `max_tokens` only, and what it does not know it ignores: under another name there would be no cap.
 * Of its own thinking it wants back what led to calls of tools (400 without it), and its first thinking models answer
 * 400 to any other. It maps efforts itself. While it thinks, no call can be demanded.
 */
const DEEPSEEK: Quirks = {
  capField: 'max_tokens',
  renamed: { user: 'user_id' },
  fits: { user: matching(/^[\w-]{1,512}$/) },
  takes: set(
    'model messages thinking reasoning_effort frequency_penalty presence_penalty max_tokens response_format stop stream ' +
      'stream_options temperature top_p tools tool_choice logprobs top_logprobs user_id',
  ),
  refuses: [FUNCTIONS, SOUND, SEARCH, CHOICES],
  efforts: [[ANY, { none: NO_THINKING }]],
  forcing: { models: DEEPSEEK_THINKS, with: NO_THINKING },
  shapes: set('json_object'),
  tools: 'plain',
  customTools: 'functions',
  messages: {
    roles: SYSTEM,
    functions: 'refused',
    refusals: 'content',
    parts: TEXT_ONLY,
    thoughts: DEEPSEEK_THINKS,
  },
}

/** Answers 400 to these, which its reference says, and to fields of messages that it does not know. */
const GROQ: Quirks = {
  tools: 'plain',
  customTools: 'functions',
  efforts: [
    [GPT_OSS, THREE_ALWAYS],
    [/qwen3\.8/i, THREE],
    [/qwen/i, all('default')],
    [ANY, THREE],
  ],
  fits: { service_tier: oneOf('auto', 'on_demand', 'flex', 'performance') },
  refuses: [SOUND, SEARCH, CHOICES],
  leaves: set(
    'logprobs top_logprobs logit_bias top_k verbosity prompt_cache_key prompt_cache_options prompt_cache_retention ' +
      'safety_identifier prediction modalities audio',
  ),
  messages: {
    leaves: set('name reasoning_content refusal annotations audio'),
    extensions: 'left',
    refusals: 'content',
    parts: { user: set('text image_url document'), tool: set('text image_url document') },
  },
}

/** Parameters that OpenAI's own API answers 400 to. */
const NOT_OPENAI = set('top_k')

/** OpenAI itself, and Azure's way to it, answer 400 to fields that they do not know, those of messages too. */
export const OPENAI: Quirks = { isPlain: true, leaves: NOT_OPENAI, messages: { extensions: 'left', files: 'data' } }

const OF_SEARCHES = set('text image_url file_url pdf_url video_url')

/**
 * Its streams say usage in every chunk, without being asked. It passes over parameters that it does not know, and answers 400
 * where the user and the assistant do not take turns.
 */
const PERPLEXITY: Quirks = {
  capField: 'max_tokens',
  streamOptions: false,
  efforts: [[ANY, { none: 'minimal', xhigh: 'high', max: 'high' }]],
  fits: { web_search_options: flatLocation },
  leaves: set(
    'seed user logit_bias metadata store service_tier verbosity prediction modalities audio safety_identifier ' +
      'prompt_cache_key prompt_cache_options prompt_cache_retention',
  ),
  refuses: [FUNCTIONS, SOUND],
  shapes: set('json_schema'),
  tools: 'words',
  customTools: 'functions',
  messages: {
    roles: SYSTEM,
    leaves: set('name refusal annotations audio'),
    extensions: 'left',
    functions: 'refused',
    refusals: 'content',
    parts: { system: OF_SEARCHES, user: OF_SEARCHES, assistant: OF_SEARCHES, tool: OF_SEARCHES },
    order: 'alternating',
  },
}

/** Its types say `logprobs` as a number, and its answers give them in a form of its own. */
const TOGETHER: Quirks = {
  capField: 'max_tokens',
  efforts: [
    [GPT_OSS, THREE_ALWAYS],
    [/glm-5\.3/i, { none: 'low', minimal: 'low', xhigh: 'max' }],
    [ANY, { ...THREE, none: { reasoning: { enabled: false } } }],
  ],
  fits: { stop: asList },
  leaves: set(
    'logprobs top_logprobs parallel_tool_calls user store metadata service_tier verbosity prediction modalities audio ' +
      'safety_identifier prompt_cache_key prompt_cache_options prompt_cache_retention',
  ),
  refuses: [FUNCTIONS, SOUND, SEARCH],
  tools: 'plain',
  customTools: 'functions',
  messages: {
    roles: SYSTEM,
    takes: {
      system: set('role content name'),
      user: set('role content name'),
      assistant: set('role content name reasoning reasoning_content tool_calls'),
      tool: set('role content name tool_call_id'),
    },
    callTakes: set('id type function index'),
    functions: 'refused',
    refusals: 'content',
    parts: { user: set('text image_url video_url audio_url input_audio') },
    sounds: set('wav'),
    joined: set('system assistant tool'),
  },
}

/** It passes over parameters that it does not know. */
const ZAI: Quirks = {
  capField: 'max_tokens',
  renamed: { user: 'user_id' },
  fits: {
    user: matching(/^.{6,128}$/s),
    temperature: within(0, 1),
    top_p: within(0.01, 1),
    stop: onlyStop,
  },
  takes: set(
    'model messages request_id user_id do_sample stream stream_options temperature top_p max_tokens seed stop tools ' +
      'tool_choice tool_stream response_format thinking reasoning_effort watermark_enabled meta',
  ),
  refuses: [FUNCTIONS, SOUND, SEARCH, CHOICES],
  efforts: [
    [/glm-(?:5\.[2-9]|[6-9]|\d\d)/i, { none: NO_THINKING }],
    [ANY, { ...all(THINKING), none: NO_THINKING }],
  ],
  shapes: set('json_object'),
  tools: 'auto',
  customTools: 'functions',
  messages: {
    roles: SYSTEM,
    functions: 'refused',
    refusals: 'content',
    parts: { user: set('text image_url video_url file_url input_audio') },
  },
}

/** Hosts of open models: Fireworks and Cerebras. */
const OF_OPEN_MODELS: Quirks = {
  efforts: [
    [GPT_OSS, THREE_ALWAYS],
    [ANY, THREE],
  ],
  fits: { service_tier: oneOf('auto', 'default', 'flex', 'priority') },
}

const OF_FIREWORKS = set('text image_url video_url')

/** The list is that of its SDK. What it does not know it passes over. */
const FIREWORKS: Quirks = {
  ...OF_OPEN_MODELS,
  leaves: set('verbosity modalities audio store safety_identifier prompt_cache_options prompt_cache_retention'),
  refuses: [SOUND, SEARCH],
  tools: 'plain',
  customTools: 'functions',
  messages: {
    roles: SYSTEM,
    functions: 'refused',
    refusals: 'content',
    leaves: set('annotations audio reasoning_details extra_content images'),
    parts: { system: OF_FIREWORKS, user: OF_FIREWORKS, assistant: OF_FIREWORKS, tool: OF_FIREWORKS },
  },
}

const OF_CEREBRAS = set('text image_url image')

/** Answers 400 to what it does not know. The lists are those of its SDK. */
const CEREBRAS: Quirks = {
  ...OF_OPEN_MODELS,
  takes: set(
    'model messages clear_thinking disable_reasoning frequency_penalty logit_bias logprobs max_completion_tokens max_tokens ' +
      'min_completion_tokens min_tokens n parallel_tool_calls prediction presence_penalty prompt_cache_key reasoning_effort ' +
      'reasoning_format response_format seed service_tier stop stream stream_options temperature tool_choice tools ' +
      'top_logprobs top_p user',
  ),
  refuses: [FUNCTIONS, SOUND, SEARCH],
  tools: 'plain',
  customTools: 'functions',
  messages: {
    takes: {
      system: set('role content name'),
      developer: set('role content name'),
      user: set('role content name'),
      assistant: set('role content name reasoning tool_calls'),
      tool: set('role content name tool_call_id'),
    },
    callTakes: set('id type function index'),
    renamed: { reasoning_content: 'reasoning' },
    functions: 'refused',
    refusals: 'content',
    parts: { system: OF_CEREBRAS, developer: OF_CEREBRAS, user: OF_CEREBRAS },
  },
}

/** Whether a model of its takes an effort, and which, is the model's. Those that have none answer 400 to any. */
const XAI: Quirks = {
  efforts: [
    [/grok-3-mini/, { none: 'low', minimal: 'low', medium: 'high', xhigh: 'high', max: 'high' }],
    [/grok-4\.3/, THREE],
    [/grok-(?:2|3|4(?!\.[3-9])|build|code)/, { ...all(null), none: null }],
    [ANY, { ...THREE_ALWAYS, xhigh: 'xhigh', max: 'xhigh' }],
  ],
  tools: 'plain',
  customTools: 'functions',
}

/** Passes over parameters that it does not know, and answers 400 to words that it does not know. */
const VLLM: Quirks = { efforts: [[ANY, THREE]], tools: 'plain', customTools: 'functions' }

/** Passes marks on to the makers that take them, and knows what the others do with them. */
const OPENROUTER: Quirks = { isPlain: true, cacheMarks: 'kept', customTools: 'functions' }

/** Everyone else (llama.cpp, LM Studio, the demo ...) takes what OpenAI takes, except its custom tools. */
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

/** By `profile` of a provider with the dialect `openai`. */
export const PROFILES = {
  ...QUIRKS,
  openai: OPENAI,
  openrouter: OPENROUTER,
  fireworks: FIREWORKS,
  cerebras: CEREBRAS,
  xai: XAI,
  vllm: VLLM,
} as const satisfies Readonly<Record<string, Quirks>>

export type ProfileName = keyof typeof PROFILES

/** OpenAI's own API at Azure, and its older ones that know all that it knows. */
export const AZURE: Quirks = OPENAI

const OF_2024_10 =
  'model messages temperature top_p stream stop max_tokens presence_penalty frequency_penalty logit_bias user data_sources ' +
  'logprobs top_logprobs n parallel_tool_calls response_format seed tools tool_choice functions function_call ' +
  'stream_options max_completion_tokens'

const BEFORE_DEVELOPERS: Quirks = {
  takes: set(OF_2024_10),
  refuses: [SOUND, SEARCH],
  customTools: 'functions',
  messages: {
    roles: SYSTEM,
    extensions: 'left',
    parts: { user: set('text image_url'), assistant: set('text refusal') },
  },
}

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
