/**
 * The same answer in the format of every dialect, so that only translation is compared. It is a stream of pieces of text, or a whole
 * answer of about 1 kB.
 */
import { event } from '../providers/dialects/bedrock/frames.ts'

/** The answer in one dialect. */
export interface Native {
  /** The end of the dialect's base URL. */
  readonly path: string
  /** A model id that the dialect accepts. */
  readonly model: string
  readonly streamType: string
  /** A stream: its beginning, one piece of text, and its end after `pieces` of them. */
  readonly begin: Buffer
  readonly piece: Buffer
  end(pieces: number): Buffer
  readonly whole: Buffer
}

const TEXT = ' word, and'
const LONG_TEXT = 'word '.repeat(130)
const PROMPT_TOKENS = 120
const SSE = 'text/event-stream; charset=utf-8'

const json = (value: object) => Buffer.from(JSON.stringify(value))
const sse = (...values: readonly object[]) =>
  Buffer.from(values.map(one => `data: ${JSON.stringify(one)}\n\n`).join(''))
const named = (...values: readonly { readonly type: string; readonly [field: string]: unknown }[]) =>
  Buffer.from(values.map(one => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''))
const withDone = (bytes: Buffer) => Buffer.concat([bytes, Buffer.from('data: [DONE]\n\n')])

/** Events of the Messages API; each host frames them differently. */
const MESSAGE = { id: 'msg_01XFDUDYJgAACzvnptvVoYEL', type: 'message', role: 'assistant', model: 'claude-sonnet-5' }
const START = [
  {
    type: 'message_start',
    message: { ...MESSAGE, content: [], stop_reason: null, usage: { input_tokens: PROMPT_TOKENS, output_tokens: 1 } },
  },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
]
const DELTA = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: TEXT } }
const stopped = (output_tokens: number) => [
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens } },
  { type: 'message_stop' },
]

/**
 * Answers by the gateway's name of the dialect; the others are compared to `openai`. Vertex AI is omitted: it sends the same bytes
 * as Gemini and Anthropic.
 */
export const NATIVES: Readonly<Record<string, Native>> = {
  openai: openAi(),
  anthropic: messages(),
  gemini: generate(),
  bedrock: converse(),
  'bedrock-invoke': invoke(),
  cohere: cohere(),
  ollama: ollama(),
}

function openAi(): Native {
  const head = { id: 'chatcmpl-CYq0aN9yqQ0J3bV1mH7uZk2w4xT5s', created: 1_795_200_000, model: 'bench-2026-01-31' }
  const chunk = (choices: readonly object[], more: object = {}) => ({
    ...head,
    object: 'chat.completion.chunk',
    service_tier: 'default',
    system_fingerprint: 'fp_5f20662549',
    choices,
    ...more,
  })
  const choice = (delta: object, finish_reason: string | null = null) => [
    { index: 0, delta, logprobs: null, finish_reason },
  ]
  const usage = (completion_tokens: number) => ({
    prompt_tokens: PROMPT_TOKENS,
    completion_tokens,
    total_tokens: PROMPT_TOKENS + completion_tokens,
  })
  const message = { role: 'assistant', content: LONG_TEXT, refusal: null, annotations: [] }
  return {
    path: '/v1',
    model: 'bench',
    streamType: SSE,
    begin: sse(chunk(choice({ role: 'assistant', content: '' }))),
    piece: sse(chunk(choice({ content: TEXT }))),
    end: pieces => withDone(sse(chunk(choice({}, 'stop')), chunk([], { usage: usage(pieces) }))),
    whole: json({
      ...head,
      object: 'chat.completion',
      choices: [{ index: 0, message, logprobs: null, finish_reason: 'stop' }],
      usage: usage(130),
    }),
  }
}

function messages(): Native {
  return {
    path: '/v1',
    model: 'claude-sonnet-5',
    streamType: SSE,
    begin: named(...START),
    piece: named(DELTA),
    end: pieces => named(...stopped(pieces)),
    whole: json({
      ...MESSAGE,
      content: [{ type: 'text', text: LONG_TEXT }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: PROMPT_TOKENS, output_tokens: 130 },
    }),
  }
}

function invoke(): Native {
  const framed = (...values: readonly object[]) =>
    Buffer.concat(
      values.map(value => event('chunk', { bytes: json(value).toString('base64'), p: 'abcdefghijklmnopqrstu' })),
    )
  return {
    ...messages(),
    path: '',
    model: 'us.anthropic.claude-sonnet-5',
    streamType: 'application/vnd.amazon.eventstream',
    begin: framed(...START),
    piece: framed(DELTA),
    end: pieces => framed(...stopped(pieces)),
  }
}

function converse(): Native {
  const p = 'abcdefghijklmnopqrstu'
  const usage = (outputTokens: number) => ({
    inputTokens: PROMPT_TOKENS,
    outputTokens,
    totalTokens: PROMPT_TOKENS + outputTokens,
  })
  return {
    path: '',
    model: 'amazon.nova-lite-v1:0',
    streamType: 'application/vnd.amazon.eventstream',
    begin: event('messageStart', { p, role: 'assistant' }),
    piece: event('contentBlockDelta', { contentBlockIndex: 0, delta: { text: TEXT }, p }),
    end: pieces =>
      Buffer.concat([
        event('contentBlockStop', { contentBlockIndex: 0, p }),
        event('messageStop', { stopReason: 'end_turn', p }),
        event('metadata', { metrics: { latencyMs: 800 }, usage: usage(pieces), p }),
      ]),
    whole: json({
      metrics: { latencyMs: 800 },
      output: { message: { role: 'assistant', content: [{ text: LONG_TEXT }] } },
      stopReason: 'end_turn',
      usage: usage(130),
    }),
  }
}

function generate(): Native {
  const model = 'gemini-3-flash'
  const counts = (candidatesTokenCount: number) => ({
    promptTokenCount: PROMPT_TOKENS,
    candidatesTokenCount,
    totalTokenCount: PROMPT_TOKENS + candidatesTokenCount,
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: PROMPT_TOKENS }],
  })
  const answer = (text: string, more: object, tokens: number) => ({
    candidates: [{ content: { parts: [{ text }], role: 'model' }, ...more, index: 0 }],
    usageMetadata: counts(tokens),
    modelVersion: model,
    responseId: 'dqHOab6xGLzWodAPkPuViA4',
  })
  const piece = (...all: Parameters<typeof answer>) => Buffer.from(`data: ${JSON.stringify(answer(...all))}\r\n\r\n`)
  return {
    path: '/v1beta',
    model,
    streamType: 'text/event-stream',
    begin: piece('A', {}, 1),
    piece: piece(TEXT, {}, 98),
    end: pieces => piece('', { finishReason: 'STOP' }, pieces),
    whole: json(answer(LONG_TEXT, { finishReason: 'STOP' }, 130)),
  }
}

function cohere(): Native {
  const usage = (output_tokens: number) => ({
    billed_units: { input_tokens: PROMPT_TOKENS, output_tokens },
    tokens: { input_tokens: PROMPT_TOKENS, output_tokens },
  })
  const delta = (content: object) => ({ index: 0, delta: { message: { content } } })
  const id = '29f14a5a-11de-4cae-9800-25e4747408ea'
  return {
    path: '/v2',
    model: 'command-a-03-2025',
    streamType: SSE,
    begin: named(
      { id, type: 'message-start', delta: { message: { role: 'assistant', content: [] } } },
      { type: 'content-start', ...delta({ type: 'text', text: '' }) },
    ),
    piece: named({ type: 'content-delta', ...delta({ text: TEXT }) }),
    end: pieces =>
      withDone(
        named(
          { type: 'content-end', index: 0 },
          { type: 'message-end', delta: { finish_reason: 'COMPLETE', usage: usage(pieces) } },
        ),
      ),
    whole: json({
      id,
      message: { role: 'assistant', content: [{ type: 'text', text: LONG_TEXT }] },
      finish_reason: 'COMPLETE',
      usage: usage(130),
    }),
  }
}

function ollama(): Native {
  const line = (content: string, more: object = {}) => ({
    model: 'qwen3',
    created_at: '2026-11-20T12:00:00.123456789Z',
    message: { role: 'assistant', content },
    done: false,
    ...more,
  })
  const last = (eval_count: number) => ({
    done: true,
    done_reason: 'stop',
    total_duration: 812_345_678,
    prompt_eval_count: PROMPT_TOKENS,
    eval_count,
  })
  const ndjson = (value: object) => Buffer.from(`${JSON.stringify(value)}\n`)
  return {
    path: '',
    model: 'qwen3',
    streamType: 'application/x-ndjson',
    begin: ndjson(line('A')),
    piece: ndjson(line(TEXT)),
    end: pieces => ndjson(line('', last(pieces))),
    whole: json(line(LONG_TEXT, last(130))),
  }
}
