/** Answers of the scripted provider to an agent: a call of one of its tools or a text, in the form of each dialect. */

import { sendJsonHead, sendStreamHead, sse } from '../../helpers/answers.ts'
import type { Behaviour, Call, ProviderRequest } from '../../helpers/fake-provider.ts'
import { event } from '../../providers/dialects/bedrock/frames.ts'

export const DIALECTS = ['openai', 'anthropic', 'gemini', 'bedrock'] as const
export type Dialect = (typeof DIALECTS)[number]

/** One tool call, or a text. */
export type Answer = { readonly text: string } | ToolCall

export interface ToolCall {
  readonly tool: string
  readonly args: object
  readonly id: string
  /** Its single argument is the text `input`, if the dialect has such tools. */
  readonly isCustom: boolean
}

type Json = Record<string, unknown>

interface DialectFormat {
  /** The tools that a request declares, by name. */
  tools(body: Json): string[]
  /** The parts before the messages (tools, system), and each message. A provider's cache reads them in this order. */
  prompt(body: Json): unknown[]
  messages(body: Json): unknown[]
  whole(answer: Answer, model: string): object
  /** The events of a stream: the head and the first token, then the rest. */
  stream(answer: Answer, model: string): (Buffer | string)[]
  overflow(): object
}

/** The tokens of each answer. */
export const USAGE = { input: 1200, output: 7 }

const listOf = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : [])
const namesOf = (tools: unknown, inner?: string): string[] =>
  listOf(tools).flatMap(tool => {
    const name = (inner === undefined ? tool : (tool[inner] as Json | undefined))?.['name']
    return typeof name === 'string' ? [name] : []
  })

const openai: DialectFormat = {
  tools: body => [...namesOf(body['tools'], 'function'), ...namesOf(body['tools'], 'custom')],
  prompt: body => [body['tools']],
  messages: body => listOf(body['messages']),
  whole(answer, model) {
    const message = 'text' in answer ? { content: answer.text } : { content: null, tool_calls: [callOf(answer)] }
    const choice = { index: 0, message: { role: 'assistant', ...message }, finish_reason: openAiFinish(answer) }
    return {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1_790_000_000,
      model,
      choices: [choice],
      usage: openAiUsage(),
    }
  },
  stream(answer, model) {
    const chunk = (choices: object[], usage?: object) =>
      sse({
        id: 'chatcmpl-1',
        object: 'chat.completion.chunk',
        created: 1_790_000_000,
        model,
        choices,
        ...(usage ? { usage } : {}),
      })
    const delta = 'text' in answer ? { content: answer.text } : { tool_calls: [{ index: 0, ...callOf(answer) }] }
    return [
      chunk([{ index: 0, delta: { role: 'assistant', ...delta }, finish_reason: null }]),
      chunk([{ index: 0, delta: {}, finish_reason: openAiFinish(answer) }]),
      chunk([], openAiUsage()),
      sse('[DONE]'),
    ]
  },
  overflow: () => ({
    error: {
      message:
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
      type: 'invalid_request_error',
      param: 'messages',
      code: 'context_length_exceeded',
    },
  }),
}

const anthropic: DialectFormat = {
  tools: body => namesOf(body['tools']),
  prompt: body => [body['tools'], body['system']],
  messages: body => listOf(body['messages']),
  whole(answer, model) {
    const block = 'text' in answer ? { type: 'text', text: answer.text } : { ...toolUse(answer), input: answer.args }
    return {
      ...message(model),
      content: [block],
      stop_reason: anthropicStop(answer),
      usage: { input_tokens: USAGE.input, output_tokens: USAGE.output },
    }
  },
  stream(answer, model) {
    const named = (value: { type: string; [more: string]: unknown }) => `event: ${value.type}\n${sse(value)}`
    const block = 'text' in answer ? { type: 'text', text: '' } : { ...toolUse(answer), input: {} }
    const delta =
      'text' in answer
        ? { type: 'text_delta', text: answer.text }
        : { type: 'input_json_delta', partial_json: JSON.stringify(answer.args) }
    const start = { ...message(model), usage: { input_tokens: USAGE.input, output_tokens: 1 } }
    return [
      named({ type: 'message_start', message: start }) +
        named({ type: 'content_block_start', index: 0, content_block: block }) +
        named({ type: 'content_block_delta', index: 0, delta }),
      named({ type: 'content_block_stop', index: 0 }),
      named({
        type: 'message_delta',
        delta: { stop_reason: anthropicStop(answer), stop_sequence: null },
        usage: { output_tokens: USAGE.output },
      }),
      named({ type: 'message_stop' }),
    ]
  },
  overflow: () => ({
    type: 'error',
    error: { type: 'invalid_request_error', message: 'prompt is too long: 210000 tokens > 200000 maximum' },
  }),
}

const gemini: DialectFormat = {
  tools: body => listOf(body['tools']).flatMap(tool => namesOf(tool['functionDeclarations'])),
  prompt: body => [body['tools'], body['systemInstruction']],
  messages: body => listOf(body['contents']),
  whole: answer => geminiAnswer(answer, true),
  stream: answer => [sse(geminiAnswer(answer, false)), sse(geminiAnswer({ text: '' }, true))],
  overflow: () => ({
    error: {
      code: 400,
      message: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
      status: 'INVALID_ARGUMENT',
    },
  }),
}

const bedrock: DialectFormat = {
  tools: body => namesOf((body['toolConfig'] as Json | undefined)?.['tools'], 'toolSpec'),
  prompt: body => [body['toolConfig'], body['system']],
  messages: body => listOf(body['messages']),
  whole(answer) {
    const block =
      'text' in answer
        ? { text: answer.text }
        : { toolUse: { toolUseId: answer.id, name: answer.tool, input: answer.args } }
    return {
      output: { message: { role: 'assistant', content: [block] } },
      stopReason: anthropicStop(answer),
      usage: bedrockUsage(),
      metrics: { latencyMs: 100 },
    }
  },
  stream(answer) {
    const at = { contentBlockIndex: 0 }
    const block =
      'text' in answer
        ? [event('contentBlockDelta', { ...at, delta: { text: answer.text } })]
        : [
            event('contentBlockStart', { ...at, start: { toolUse: { toolUseId: answer.id, name: answer.tool } } }),
            event('contentBlockDelta', { ...at, delta: { toolUse: { input: JSON.stringify(answer.args) } } }),
          ]
    return [
      Buffer.concat([event('messageStart', { role: 'assistant' }), ...block]),
      event('contentBlockStop', at),
      event('messageStop', { stopReason: anthropicStop(answer) }),
      event('metadata', { usage: bedrockUsage(), metrics: { latencyMs: 100 } }),
    ]
  },
  overflow: () => ({ message: 'Input is too long for requested model.' }),
}

/** Whether a request declares a tool whose argument is a text. */
export function isCustom(body: Json, tool: string): boolean {
  return namesOf(body['tools'], 'custom').includes(tool)
}

export const FORMATS: Readonly<Record<Dialect, DialectFormat>> = { openai, anthropic, gemini, bedrock }

/** Answers whole or as a stream, as requested. */
export function answerWith(dialect: Dialect, answer: Answer): Behaviour {
  return {
    name: 'says',
    async run(call) {
      const speech = FORMATS[dialect]
      const model = modelOf(call.request)
      if (!isStream(dialect, call.request)) {
        const text = JSON.stringify(speech.whole(answer, model))
        sendJsonHead(call, 200, text)
        return call.end(text)
      }
      streamHead(dialect, call)
      for (const part of speech.stream(answer, model)) if (!(await call.write(part))) return
      await call.end()
    },
  }
}

/** Sends the first token and then nothing until the other side disconnects. */
export function hangAfterFirstToken(dialect: Dialect, answer: Answer): Behaviour {
  return {
    name: 'says no more',
    async run(call) {
      streamHead(dialect, call)
      await call.write(FORMATS[dialect].stream(answer, modelOf(call.request))[0]!)
      await call.step(async () => {})
    },
  }
}

/** The provider's error for a conversation that is too long. */
export function overflow(dialect: Dialect): Behaviour {
  return {
    name: 'overflow',
    async run(call) {
      const text = JSON.stringify(FORMATS[dialect].overflow())
      sendJsonHead(call, 400, text, dialect === 'bedrock' ? { 'x-amzn-errortype': 'ValidationException' } : {})
      await call.end(text)
    },
  }
}

function streamHead(dialect: Dialect, call: Call): void {
  if (dialect === 'bedrock') call.head(200, { 'content-type': 'application/vnd.amazon.eventstream' })
  else sendStreamHead(call)
}

function isStream(dialect: Dialect, { path, body }: ProviderRequest): boolean {
  return dialect === 'gemini' || dialect === 'bedrock' ? /stream/i.test(path) : body?.['stream'] === true
}

function modelOf({ body }: ProviderRequest): string {
  return String(body?.['model'] ?? 'upstream-model')
}

function callOf({ id, tool, args, isCustom }: ToolCall) {
  if (isCustom) return { id, type: 'custom', custom: { name: tool, ...args } }
  return { id, type: 'function', function: { name: tool, arguments: JSON.stringify(args) } }
}

function toolUse({ id, tool }: ToolCall) {
  return { type: 'tool_use', id, name: tool }
}

function message(model: string) {
  return { id: 'msg_1', type: 'message', role: 'assistant', model, content: [], stop_reason: null, stop_sequence: null }
}

function openAiFinish(answer: Answer): string {
  return 'text' in answer ? 'stop' : 'tool_calls'
}

function anthropicStop(answer: Answer): string {
  return 'text' in answer ? 'end_turn' : 'tool_use'
}

function openAiUsage() {
  return { prompt_tokens: USAGE.input, completion_tokens: USAGE.output, total_tokens: USAGE.input + USAGE.output }
}

function bedrockUsage() {
  return { inputTokens: USAGE.input, outputTokens: USAGE.output, totalTokens: USAGE.input + USAGE.output }
}

function geminiAnswer(answer: Answer, isLast: boolean): object {
  const part = 'text' in answer ? { text: answer.text } : { functionCall: { name: answer.tool, args: answer.args } }
  return {
    candidates: [{ content: { role: 'model', parts: [part] }, ...(isLast ? { finishReason: 'STOP' } : {}), index: 0 }],
    usageMetadata: {
      promptTokenCount: USAGE.input,
      candidatesTokenCount: USAGE.output,
      totalTokenCount: USAGE.input + USAGE.output,
    },
    modelVersion: 'upstream-model',
    responseId: 'resp_1',
  }
}
