/**
 * Observed differences of OpenAI-compatible providers: for each a small hand-written case with the provider's bytes and the
 * client's expected view. Prices are 1,000 nano-dollars per prompt token and 2,000 per completion token.
 */
import type { ErrorCode } from '#contract'

export interface Quirk {
  readonly title: string
  /** Further members of the request; `stream: true` requests a stream. */
  readonly ask?: Readonly<Record<string, unknown>>
  readonly status?: number
  readonly type?: string
  /** The body that the provider sends. */
  readonly sends: string
  readonly sees: ClientView
}

export interface ClientView {
  /** The text of the first choice, even of a stream that breaks off. */
  readonly content: string | null
  readonly reasoning?: string
  readonly calls?: readonly { readonly id: string; readonly name: string; readonly arguments: string }[]
  /** Missing if there was an error. */
  readonly finish?: string
  readonly error?: ErrorCode
  /** The charge; `counted` if the provider reports no usage. */
  readonly nano: bigint | 'counted'
  /** Text that the body must contain, byte for byte, and text that it must not contain. */
  readonly has?: readonly string[]
  readonly lacks?: readonly string[]
}

const STREAM = { stream: true }
const WITH_USAGE = { stream: true, stream_options: { include_usage: true } }
const TOOLS = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }]
const USAGE = { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 }
/** 10 tokens in and 3 out. */
const NANO = 16_000n
const DONE = 'data: [DONE]\n\n'

const chunk = (choices: readonly object[], more: object = {}) => ({
  id: 'chatcmpl-q',
  object: 'chat.completion.chunk',
  created: 1_790_000_000,
  model: 'upstream-model',
  choices,
  ...more,
})
const choice = (delta: object, finish_reason: string | null = null, more: object = {}) => ({
  index: 0,
  delta,
  finish_reason,
  ...more,
})
const event = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const events = (...values: readonly object[]) => values.map(event).join('')
const say = (content: string, more: object = {}) => chunk([choice({ content }, null)], more)
const stop = (more: object = {}) => chunk([choice({}, 'stop')], more)
const usage = (more: object = {}) => chunk([], { usage: USAGE, ...more })
const PLAIN = events(chunk([choice({ role: 'assistant', content: '' })]), say('Fine'), say(' day'), stop(), usage())

const completion = (message: object, more: object = {}) => ({
  id: 'chatcmpl-q',
  object: 'chat.completion',
  created: 1_790_000_000,
  model: 'upstream-model',
  choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: 'stop' }],
  usage: USAGE,
  ...more,
})
const fine = { content: 'Fine day', finish: 'stop', nano: NANO }

const STREAMS: readonly Quirk[] = [
  { title: 'no [DONE] (Perplexity, vLLM)', ask: STREAM, sends: PLAIN, sees: fine },
  { title: '[DONE] without a blank line after it', ask: STREAM, sends: `${PLAIN}data: [DONE]`, sees: fine },
  { title: 'carriage returns at line ends', ask: STREAM, sends: (PLAIN + DONE).replaceAll('\n', '\r\n'), sees: fine },
  { title: 'no blank after data:', ask: STREAM, sends: (PLAIN + DONE).replaceAll('data: ', 'data:'), sees: fine },
  { title: 'a byte order mark', ask: STREAM, sends: `\uFEFF${PLAIN}${DONE}`, sees: fine },
  {
    title: 'comments and blank lines between events (DeepSeek)',
    ask: STREAM,
    sends: `: keep-alive\n\n\n\n${PLAIN.replaceAll('\n\n', '\n\n: keep-alive\n\n\n')}${DONE}`,
    sees: { ...fine, lacks: ['keep-alive'] },
  },
  {
    title: 'ids, names and retry times of events',
    ask: STREAM,
    sends: PLAIN.replaceAll('data: ', 'id: 7\nevent: message\nretry: 10\ndata: ') + DONE,
    sees: { ...fine, lacks: ['retry'] },
  },
  {
    title: 'JSON over several data lines',
    ask: STREAM,
    sends: PLAIN.replaceAll('"choices":', '\ndata: "choices":') + DONE,
    sees: fine,
  },
  {
    title: 'comments, a role in every chunk, two finishes, usage beside a choice (OpenRouter)',
    ask: STREAM,
    sends:
      ': OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n' +
      events(
        ...['Fine', ' day'].map(content => chunk([choice({ role: 'assistant', content })], { provider: 'Some' })),
        chunk([choice({ role: 'assistant', content: '' }, 'stop', { native_finish_reason: 'completed' })]),
        chunk([choice({ role: 'assistant', content: '' }, 'stop', { native_finish_reason: 'completed' })], {
          usage: USAGE,
        }),
      ) +
      DONE,
    sees: { ...fine, has: ['"provider":"Some"', '"native_finish_reason":"completed"'], lacks: ['PROCESSING', 'usage'] },
  },
  {
    title: 'an error in a chunk that has choices (OpenRouter)',
    ask: STREAM,
    sends: events(
      say('Fine'),
      chunk([choice({ content: '' }, 'error')], { error: { code: 502, message: 'backend lost' } }),
    ),
    sees: { content: 'Fine', error: 'upstream_error', nano: 'counted', lacks: ['backend lost', '[DONE]'] },
  },
  {
    title: 'an event named error (Groq)',
    ask: STREAM,
    sends: `${events(say('Fine'))}event: error\n${event({ error: { message: 'no tool', failed_generation: '<x>' } })}`,
    sees: { content: 'Fine', error: 'upstream_error', nano: 'counted', lacks: ['failed_generation'] },
  },
  {
    title: 'usage under another name (Groq)',
    ask: STREAM,
    sends: events(say('Fine'), say(' day'), stop({ x_groq: { id: 'req_1', usage: USAGE } })) + DONE,
    sees: fine,
  },
  {
    title: 'usage inside the choice (Moonshot, earlier)',
    ask: STREAM,
    sends: events(say('Fine'), say(' day'), chunk([choice({}, 'stop', { usage: USAGE })])) + DONE,
    sees: fine,
  },
  {
    title: 'reasoning that is not counted as completion (xAI)',
    ask: STREAM,
    sends:
      events(
        chunk([choice({ reasoning_content: 'Hm' })]),
        say('Fine day'),
        stop(),
        usage({ usage: { ...USAGE, total_tokens: 20, completion_tokens_details: { reasoning_tokens: 7 } } }),
      ) + DONE,
    sees: { ...fine, reasoning: 'Hm', nano: 30_000n },
  },
  {
    title: 'reasoning that is counted only in the total (Gemini)',
    ask: WITH_USAGE,
    sends: PLAIN.replace('"total_tokens":13', '"total_tokens":20') + DONE,
    sees: { ...fine, has: ['"completion_tokens":3,"total_tokens":20'], nano: 30_000n },
  },
  {
    title: 'an empty usage after the usage',
    ask: STREAM,
    sends:
      PLAIN +
      events(usage({ usage: {} }), usage({ usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } })) +
      DONE,
    sees: fine,
  },
  {
    title: 'cached tokens under another name (Mistral)',
    ask: STREAM,
    sends: PLAIN.replace('"prompt_tokens":10', '"prompt_tokens":10,"num_cached_tokens":4') + DONE,
    sees: { ...fine, nano: 14_000n },
  },
  {
    title: 'an error without a wrapper (vLLM)',
    ask: STREAM,
    sends: events(say('Fine'), { object: 'error', message: 'backend lost', type: 'InternalServerError', code: 503 }),
    sees: { content: 'Fine', error: 'upstream_overloaded', nano: 'counted', lacks: ['backend lost', '[DONE]'] },
  },
  {
    title: 'reasoning and text that are null by turns, cached tokens under another name (DeepSeek)',
    ask: WITH_USAGE,
    sends:
      events(
        chunk([choice({ role: 'assistant', content: null, reasoning_content: '' })]),
        chunk([choice({ content: null, reasoning_content: 'Hm' })]),
        chunk([choice({ content: 'Fine', reasoning_content: null })]),
        chunk([choice({ content: ' day', reasoning_content: null }, 'stop')], {
          usage: { ...USAGE, prompt_cache_hit_tokens: 4, prompt_cache_miss_tokens: 6 },
        }),
      ) + DONE,
    sees: { ...fine, reasoning: 'Hm', has: ['"prompt_cache_hit_tokens":4'], nano: 14_000n },
  },
  {
    title: 'a message beside the delta and usage in every chunk (Perplexity)',
    ask: STREAM,
    sends: events(
      chunk([choice({ role: 'assistant', content: 'Fine' }, null, { message: { content: 'Fine' } })], {
        citations: ['a'],
        usage: { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 },
      }),
      chunk([choice({ content: ' day' }, 'stop', { message: { content: 'Fine day' } })], { usage: USAGE }),
    ),
    sees: { ...fine, has: ['"citations":["a"]', '"message":{"content":"Fine day"}'], lacks: ['usage'] },
  },
  {
    title: 'empty ids in later pieces of a call (Alibaba)',
    ask: { ...STREAM, tools: TOOLS },
    sends:
      events(
        chunk([choice({ tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'weather' } }] })]),
        ...['{"city":', '"Ulm"}'].map(text =>
          chunk([choice({ tool_calls: [{ index: 0, id: '', type: 'function', function: { arguments: text } }] })]),
        ),
        chunk([choice({}, 'tool_calls')]),
        usage(),
      ) + DONE,
    sees: {
      content: null,
      calls: [{ id: 'call_1', name: 'weather', arguments: '{"city":"Ulm"}' }],
      finish: 'tool_calls',
      nano: NANO,
      lacks: ['"id":""'],
    },
  },
  {
    title: 'another finish reason, with usage beside it (Together)',
    ask: STREAM,
    sends: events(say('Fine', { token_id: 5 }), chunk([choice({ content: ' day' }, 'eos')], { usage: USAGE })) + DONE,
    sees: { ...fine, finish: 'stop' },
  },
  {
    title: 'empty strings for missing values (Snowflake)',
    ask: STREAM,
    sends:
      events(
        chunk([choice({ content: 'Fine', audio: null }, '')], { id: '', service_tier: '' }),
        chunk([choice({ content: ' day' }, '')], { id: '', usage: { ...USAGE, completion_tokens: 1 } }),
        chunk([choice({ content: '' }, 'stop')], { id: '', usage: USAGE }),
      ) + DONE,
    sees: fine,
  },
  {
    title: 'another id in the first chunk, two finish chunks (Avian)',
    ask: STREAM,
    sends:
      events(chunk([choice({ role: 'assistant' })], { id: 'a' }), say('Fine'), say(' day'), stop(), stop(), usage()) +
      DONE,
    sees: fine,
  },
  {
    title: 'a first chunk without choices, id and model, a last one with nothing but filter results (Azure)',
    ask: STREAM,
    sends:
      events(
        chunk([], { id: '', object: '', created: 0, model: '', prompt_filter_results: [{ prompt_index: 0 }] }),
        say('Fine'),
        say(' day'),
        stop(),
        chunk([{ index: 0, finish_reason: null, content_filter_results: {}, content_filter_offsets: {} }]),
        usage(),
      ) + DONE,
    sees: { ...fine, has: ['content_filter_offsets'], lacks: ['prompt_filter_results'] },
  },
  {
    title: 'text outside ASCII that contains an apparent end of the stream',
    ask: STREAM,
    sends: events(say('naïve €5 😀 '), say('data: [DONE]\n\n'), stop(), usage()) + DONE,
    sees: { content: 'naïve €5 😀 data: [DONE]\n\n', finish: 'stop', nano: NANO },
  },
  {
    title: 'extensions without choices between chunks',
    ask: STREAM,
    sends: event({ type: 'ping' }) + PLAIN + event({ object: 'trace', steps: [] }) + DONE,
    sees: { ...fine, lacks: ['ping', 'trace'] },
  },
  {
    title: 'the provider reports no usage',
    ask: WITH_USAGE,
    sends: events(say('Fine'), say(' day'), stop()) + DONE,
    sees: { ...fine, nano: 'counted' },
  },
]

const WHOLE: readonly Quirk[] = [
  {
    title: 'blank lines before the answer (DeepSeek)',
    sends: `\n\n\n${JSON.stringify(completion({ content: 'Fine day' }))}`,
    sees: fine,
  },
  {
    title: 'JSON over many lines, with unknown fields',
    sends: JSON.stringify(completion({ content: 'Fine day' }, { citations: ['a', 'b'] }), null, 2),
    sees: { ...fine, has: ['"citations": [\n'] },
  },
  {
    title: 'a call without content, and nulls for the rest (Cerebras)',
    ask: { tools: TOOLS },
    sends: JSON.stringify(
      completion({
        annotations: null,
        function_call: null,
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{}' } }],
      }),
    ),
    sees: { content: null, calls: [{ id: 'call_1', name: 'weather', arguments: '{}' }], finish: 'stop', nano: NANO },
  },
  {
    title: 'an empty finish reason (Snowflake)',
    sends: JSON.stringify(completion({ content: 'Fine day' })).replace('"finish_reason":"stop"', '"finish_reason":""'),
    sees: fine,
  },
  {
    title: 'an empty finish reason of a call (Snowflake)',
    ask: { tools: TOOLS },
    sends: JSON.stringify(
      completion({ tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{}' } }] }),
    ).replace('"finish_reason":"stop"', '"finish_reason":""'),
    sees: {
      content: null,
      calls: [{ id: 'call_1', name: 'weather', arguments: '{}' }],
      finish: 'tool_calls',
      nano: NANO,
    },
  },
  {
    title: 'a number that JavaScript would round',
    sends: JSON.stringify(completion({ content: 'Fine day' })).replace('1790000000', '12345678901234567890'),
    sees: { ...fine, has: ['12345678901234567890'] },
  },
  {
    title: 'an error in a list (Gemini)',
    status: 400,
    sends: '[{"error":{"code":400,"message":"contents are missing","status":"INVALID_ARGUMENT"}}]',
    sees: { content: null, error: 'upstream_rejected', nano: 0n, has: ['contents are missing'] },
  },
  {
    title: 'an error that is a string (xAI)',
    status: 400,
    sends: '{"code":"Some requested entity was not found","error":"unknown field name"}',
    sees: { content: null, error: 'upstream_rejected', nano: 0n, has: ['unknown field name'] },
  },
  {
    title: 'an error with a number for its code, in a 200 (OpenRouter)',
    sends: '{"error":{"code":429,"message":"slow down","metadata":{"raw":"x"}},"user_id":"u"}',
    sees: { content: null, error: 'upstream_rate_limited', nano: 0n, lacks: ['slow down', 'user_id'] },
  },
  {
    title: 'an error without the content type of JSON (DeepSeek)',
    status: 422,
    type: 'application/octet-stream',
    sends: '{"error":{"message":"messages: invalid","type":"invalid_request_error","param":null,"code":null}}',
    sees: { content: null, error: 'upstream_rejected', nano: 0n, has: ['messages: invalid'] },
  },
]

export const QUIRKS: readonly Quirk[] = [...STREAMS, ...WHOLE]
