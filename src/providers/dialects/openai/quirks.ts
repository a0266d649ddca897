/**
 * Profiles of OpenAI-compatible providers: how their requests differ. A provider gets one by its dialect, by its host, or by
 * `profile` in the configuration. Without one it gets OpenAI's parameters, except custom tools. Differences in answers are
 * handled for all of them in repair.ts.
 *
 * Facts as of November 2026, from recorded traffic, the providers' references and SDKs, and errors that users reported.
 */
import { asList, flatLocation, matching, oneOf, onlyStop, within } from './fits.ts'
import type { Efforts, Members, Quirks, RefusedMembers } from './profile.ts'

const set = <T extends string>(words: string): ReadonlySet<T> => new Set(words.split(' ') as T[])

const ANY = /^/

/** The older name of the role for developers. */
const SYSTEM = { developer: 'system' }
const TEXT_ONLY = {}

const FUNCTIONS: RefusedMembers = {
  name: 'functions',
  sentence: "'functions' is not supported by this model's provider. Use 'tools'.",
}
const SOUND: RefusedMembers = {
  name: 'modalities',
  having: 'audio',
  sentence: "'modalities' asks for audio, which this model does not produce.",
}
const SEARCH: RefusedMembers = {
  name: 'web_search_options',
  sentence: "'web_search_options' asks for a web search, which this model's provider does not support.",
}
const CHOICES: RefusedMembers = {
  name: 'n',
  above: 1,
  sentence: "'n' asks for several answers. This model's provider returns only one.",
}

/** The three efforts that most providers have. */
const THREE: Efforts = { minimal: 'low', xhigh: 'high', max: 'high' }
/** A model that always reasons. */
const THREE_ALWAYS: Efforts = { ...THREE, none: 'low' }
const GPT_OSS = /gpt-oss/i
/** The same value for each effort except `none`. */
const all = (fit: string | Members | null): Efforts => ({
  minimal: fit,
  low: fit,
  medium: fit,
  high: fit,
  xhigh: fit,
  max: fit,
})

/** The members with which DeepSeek and Z.ai switch reasoning on and off. */
const [THINKING, NO_THINKING]: readonly [Members, Members] = [
  { thinking: { type: 'enabled' } },
  { thinking: { type: 'disabled' } },
]

/**
 * Mistral answers 422 to unknown fields, at the top or in a message. It answers 400 to ids of calls in another form and to turns in
 * another order. The lists are from its reference. Its models have two efforts.
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
 * DeepSeek's reference has `max_tokens` only, and DeepSeek ignores unknown parameters, so a cap under another name would be lost. It
 * requires its own reasoning that led to tool calls (400 without it), and its first reasoning models answer 400 to any other reasoning. It
 * maps efforts itself. While it reasons, a call cannot be forced.
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

/** Groq answers 400 to these parameters, as its reference says, and to unknown fields of messages. */
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
  omits: set(
    'logprobs top_logprobs logit_bias top_k verbosity prompt_cache_key prompt_cache_options prompt_cache_retention ' +
      'safety_identifier prediction modalities audio',
  ),
  messages: {
    omits: set('name reasoning_content refusal annotations audio'),
    extensions: 'omitted',
    refusals: 'content',
    parts: { user: set('text image_url document'), tool: set('text image_url document') },
  },
}

const NOT_OPENAI = set('top_k')

/** OpenAI itself, and Azure's API of it, answer 400 to unknown fields, also in messages. */
export const OPENAI: Quirks = { isPlain: true, omits: NOT_OPENAI, messages: { extensions: 'omitted', files: 'data' } }

const PERPLEXITY_PARTS = set('text image_url file_url pdf_url video_url')

/** Perplexity's streams have usage in every chunk. It ignores unknown parameters, and answers 400 if user and assistant do not alternate. */
const PERPLEXITY: Quirks = {
  capField: 'max_tokens',
  streamOptions: false,
  efforts: [[ANY, { none: 'minimal', xhigh: 'high', max: 'high' }]],
  fits: { web_search_options: flatLocation },
  omits: set(
    'seed user logit_bias metadata store service_tier verbosity prediction modalities audio safety_identifier ' +
      'prompt_cache_key prompt_cache_options prompt_cache_retention',
  ),
  refuses: [FUNCTIONS, SOUND],
  shapes: set('json_schema'),
  tools: 'words',
  customTools: 'functions',
  messages: {
    roles: SYSTEM,
    omits: set('name refusal annotations audio'),
    extensions: 'omitted',
    functions: 'refused',
    refusals: 'content',
    parts: { system: PERPLEXITY_PARTS, user: PERPLEXITY_PARTS, assistant: PERPLEXITY_PARTS, tool: PERPLEXITY_PARTS },
    order: 'alternating',
  },
}

/** Together takes `logprobs` as a number, and returns them in its own form. */
const TOGETHER: Quirks = {
  capField: 'max_tokens',
  efforts: [
    [GPT_OSS, THREE_ALWAYS],
    [/glm-5\.3/i, { none: 'low', minimal: 'low', xhigh: 'max' }],
    [ANY, { ...THREE, none: { reasoning: { enabled: false } } }],
  ],
  fits: { stop: asList },
  omits: set(
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

/** Z.ai ignores unknown parameters. */
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
const OPEN_MODELS_HOST: Quirks = {
  efforts: [
    [GPT_OSS, THREE_ALWAYS],
    [ANY, THREE],
  ],
  fits: { service_tier: oneOf('auto', 'default', 'flex', 'priority') },
}

const FIREWORKS_PARTS = set('text image_url video_url')

/** The list is from Fireworks' SDK. Fireworks ignores unknown parameters. */
const FIREWORKS: Quirks = {
  ...OPEN_MODELS_HOST,
  omits: set('verbosity modalities audio store safety_identifier prompt_cache_options prompt_cache_retention'),
  refuses: [SOUND, SEARCH],
  tools: 'plain',
  customTools: 'functions',
  messages: {
    roles: SYSTEM,
    functions: 'refused',
    refusals: 'content',
    omits: set('annotations audio reasoning_details extra_content images'),
    parts: { system: FIREWORKS_PARTS, user: FIREWORKS_PARTS, assistant: FIREWORKS_PARTS, tool: FIREWORKS_PARTS },
  },
}

const CEREBRAS_PARTS = set('text image_url image')

/** Cerebras answers 400 to unknown parameters. The lists are from its SDK. */
const CEREBRAS: Quirks = {
  ...OPEN_MODELS_HOST,
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
    parts: { system: CEREBRAS_PARTS, developer: CEREBRAS_PARTS, user: CEREBRAS_PARTS },
  },
}

/** At xAI the supported efforts depend on the model. A model without efforts answers 400 to one. */
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

/** vLLM ignores unknown parameters, and answers 400 to unknown values. */
const VLLM: Quirks = { efforts: [[ANY, THREE]], tools: 'plain', customTools: 'functions' }

/** OpenRouter sends cache marks to the providers that support them, and handles the others itself. */
const OPENROUTER: Quirks = { isPlain: true, cacheMarks: 'kept', customTools: 'functions' }

/** All other servers (llama.cpp, LM Studio, the demo ...) take OpenAI's parameters, except custom tools. */
export const OTHERS: Quirks = { isPlain: true, customTools: 'functions' }

export const QUIRKS = {
  mistral: MISTRAL,
  deepseek: DEEPSEEK,
  groq: GROQ,
  perplexity: PERPLEXITY,
  together: TOGETHER,
  zai: ZAI,
} as const satisfies Readonly<Record<string, Quirks>>

export type CompatibleName = keyof typeof QUIRKS

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

/** OpenAI's own API on Azure, and newer versions of the classic one. */
export const AZURE: Quirks = OPENAI

const PARAMETERS_2024_10 =
  'model messages temperature top_p stream stop max_tokens presence_penalty frequency_penalty logit_bias user data_sources ' +
  'logprobs top_logprobs n parallel_tool_calls response_format seed tools tool_choice functions function_call ' +
  'stream_options max_completion_tokens'

const BEFORE_DEVELOPERS: Quirks = {
  takes: set(PARAMETERS_2024_10),
  refuses: [SOUND, SEARCH],
  customTools: 'functions',
  messages: {
    roles: SYSTEM,
    extensions: 'omitted',
    parts: { user: set('text image_url'), assistant: set('text refusal') },
  },
}

/** Older versions of Azure's API, which answer 400 to newer parameters. The first row with a later version counts. */
export const AZURE_BEFORE: readonly (readonly [version: string, quirks: Quirks])[] = [
  ['2024-09-01', { ...BEFORE_DEVELOPERS, capField: 'max_tokens', streamOptions: false }],
  ['2024-12-01', BEFORE_DEVELOPERS],
]

/** Foundry's API for models of all vendors supports only the older name of the cap. */
export const FOUNDRY: Quirks = {
  capField: 'max_tokens',
  customTools: 'functions',
  messages: { roles: SYSTEM, extensions: 'omitted' },
}
