/** The answers of a healthy fake provider: whole, as a stream, held back, with an error. */
import type { ChatCompletion, Chunk, Delta, WireUsage } from '#contract'
import type { Behaviour, Call, Meter, ProviderRequest } from './fake-provider.ts'

export interface AnswerOptions {
  /** The content, one token per element; a number of tokens; or `cap`: the maximum of the request. Default: 3. */
  readonly tokens?: readonly string[] | number | 'cap'
  /** Reasoning before the content, one token per element. */
  readonly reasoning?: readonly string[]
  /** Calls instead of content. The name is one token, and so is each piece of the arguments. */
  readonly toolCalls?: readonly { readonly id?: string; readonly name: string; readonly arguments: readonly string[] }[]
  /** Default: the number in the request. */
  readonly choices?: number
  /** Default: the reason that fits: stop, length or tool_calls. */
  readonly finish?: string
  /** False: ignores the output cap of the request. Default: true. */
  readonly obeyCap?: boolean
  /** Default 10. */
  readonly promptTokens?: number
  /** Replaces the true usage; null: no usage. */
  readonly usage?: WireUsage | null
  /** For streams: whether the usage is sent. Default: if the request has `include_usage`. */
  readonly includeUsage?: boolean
  /** For streams: whether [DONE] is sent. Default: true. */
  readonly done?: boolean
  /** Default: the model of the request. */
  readonly model?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** One event of a stream, or the whole answer. */
export interface Part {
  readonly text: string
  readonly meter: Meter
}

/** A whole answer, also to a request for a stream. */
export function whole(options: AnswerOptions = {}): Behaviour {
  return {
    name: 'whole',
    async run(call) {
      const { text, meter } = wholePart(call.request, options)
      sendJsonHead(call, 200, text, options.headers)
      await call.end(text, meter)
    },
  }
}

/** A stream, sent as fast as the client reads it. */
export function stream(options: AnswerOptions = {}): Behaviour {
  return {
    name: 'stream',
    async run(call) {
      sendStreamHead(call, options.headers)
      for (const { text, meter } of streamParts(call.request, options)) if (!(await call.write(text, meter))) return
      await call.end()
    },
  }
}

/** A whole answer or a stream, as the request asks. */
export function exact(options: AnswerOptions = {}): Behaviour {
  return {
    name: 'exact',
    run: call => (call.request.body?.['stream'] === true ? stream(options) : whole(options)).run(call),
  }
}

/** Like `exact`, but each event (or the whole answer) and the end of the stream wait for `request.step()`. */
export function gated(options: AnswerOptions = {}): Behaviour {
  return {
    name: 'gated',
    async run(call) {
      if (call.request.body?.['stream'] !== true) return withhold(whole(options)).run(call)
      sendStreamHead(call, options.headers)
      for (const { text, meter } of streamParts(call.request, options)) {
        if (!(await call.step(() => call.write(text, meter)))) return
      }
      await call.step(() => call.end())
    },
  }
}

/** Sends nothing until `request.step()` or `provider.release()`. Then it follows the script. */
export function withhold(then: Behaviour = exact()): Behaviour {
  return {
    name: `withheld ${then.name}`,
    async run(call) {
      await call.step(() => then.run(call))
    },
  }
}

/** An error status. An object is sent as JSON, and text unchanged. */
export function errorAnswer(
  status: number,
  body: unknown = errorBody(status),
  headers: Record<string, string> = {},
): Behaviour {
  return {
    name: `error ${status}`,
    async run(call) {
      const text = typeof body === 'string' ? body : JSON.stringify(body)
      sendJsonHead(call, status, text, headers)
      await call.end(text)
    },
  }
}

/** OpenAI's error envelope. Its message has a secret that must never reach a client. */
export function errorBody(
  status: number,
  message = `status ${status} at https://user:hunter2@provider.internal/v1`,
): object {
  const type = status === 429 ? 'rate_limit_error' : status >= 500 ? 'server_error' : 'invalid_request_error'
  return { error: { message, type, param: null, code: null } }
}

export function sendJsonHead(
  call: Call,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  const length = String(Buffer.byteLength(text))
  call.head(status, { 'content-type': 'application/json', 'content-length': length, ...headers })
}

export function sendStreamHead(call: Call, headers: Readonly<Record<string, string>> = {}): void {
  call.head(200, { 'content-type': 'text/event-stream', ...headers })
}

/** An event of a stream, from text or from a value that becomes JSON. */
export function sse(data: unknown): string {
  return `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
}

/** The whole answer to a request. */
export function wholePart(request: ProviderRequest, options: AnswerOptions = {}): Part {
  const { deltas, finish, tokens, choices, usage } = plan(request, options)
  const thoughts = deltas.map(delta => delta.reasoning_content ?? '').join('')
  const content = deltas.map(delta => delta.content ?? '').join('')
  const message: Delta = { role: 'assistant', content: options.toolCalls ? null : content, refusal: null }
  if (thoughts) message.reasoning_content = thoughts
  if (options.toolCalls) {
    message.tool_calls = options.toolCalls.map(({ id, name, arguments: parts }, index) => ({
      id: id ?? `call_${index}`,
      type: 'function',
      function: { name, arguments: parts.join('') },
    }))
  }
  const completion: ChatCompletion = {
    ...shared(request, options),
    object: 'chat.completion',
    choices: Array.from({ length: choices }, (_, index) => ({ index, message, logprobs: null, finish_reason: finish })),
    ...(usage ? { usage } : {}),
  }
  return { text: JSON.stringify(completion), meter: { tokens: tokens * choices, ...(usage ? { usage } : {}) } }
}

/** The events of a stream: the role, one per token, the finish, the usage, [DONE]. */
export function streamParts(request: ProviderRequest, options: AnswerOptions = {}): Part[] {
  const { deltas, finish, choices, usage } = plan(request, options)
  const asked = (request.body?.['stream_options'] as { include_usage?: boolean } | undefined)?.include_usage === true
  const includeUsage = options.includeUsage ?? asked
  const event = (fields: Pick<Chunk, 'choices' | 'usage'>, meter: Meter = {}): Part => {
    const chunk = { ...shared(request, options), object: 'chat.completion.chunk', ...fields }
    return { text: sse(includeUsage && !('usage' in fields) ? { ...chunk, usage: null } : chunk), meter }
  }
  const each = (delta: Delta, finish_reason: string | null, meter: Meter = {}): Part[] =>
    Array.from({ length: choices }, (_, index) =>
      event({ choices: [{ index, delta, logprobs: null, finish_reason }] }, meter),
    )
  return [
    ...each({ role: 'assistant', content: options.toolCalls ? null : '', refusal: null }, null),
    ...deltas.flatMap(delta => each(delta, null, { tokens: 1 })),
    ...each({}, finish),
    ...(includeUsage && usage ? [event({ choices: [], usage }, { usage })] : []),
    ...(options.done === false ? [] : [{ text: sse('[DONE]'), meter: {} }]),
  ]
}

/** The output cap of a request, or null. */
export function capOf({ body }: ProviderRequest): number | null {
  const cap = body?.['max_completion_tokens'] ?? body?.['max_tokens']
  return typeof cap === 'number' ? cap : null
}

interface Plan {
  /** The events of one choice, one per token. */
  readonly deltas: readonly Delta[]
  readonly finish: string
  readonly tokens: number
  readonly choices: number
  readonly usage: WireUsage | null
}

function plan(request: ProviderRequest, options: AnswerOptions): Plan {
  const cap = options.obeyCap === false ? Infinity : (capOf(request) ?? Infinity)
  const wanted = deltasOf(request, options)
  const deltas = wanted.slice(0, cap)
  const choices = options.choices ?? Number(request.body?.['n'] ?? 1)
  const usual = deltas.length < wanted.length ? 'length' : options.toolCalls ? 'tool_calls' : 'stop'
  const finish = options.finish ?? (options.tokens === 'cap' ? 'length' : usual)
  return { deltas, finish, tokens: deltas.length, choices, usage: usageOf(deltas, choices, options) }
}

function deltasOf(request: ProviderRequest, { tokens = 3, reasoning = [], toolCalls }: AnswerOptions): Delta[] {
  const thoughts = reasoning.map(text => ({ reasoning_content: text }))
  if (toolCalls) {
    const calls = toolCalls.flatMap(({ id, name, arguments: parts }, index) => [
      { tool_calls: [{ index, id: id ?? `call_${index}`, type: 'function', function: { name, arguments: '' } }] },
      ...parts.map(part => ({ tool_calls: [{ index, function: { arguments: part } }] })),
    ])
    return [...thoughts, ...calls]
  }
  const count = tokens === 'cap' ? (capOf(request) ?? 16) - reasoning.length : tokens
  const words =
    typeof count === 'number' ? Array.from({ length: count }, (_, at) => (at === 0 ? 't0' : ` t${at}`)) : count
  return [...thoughts, ...words.map(content => ({ content }))]
}

function usageOf(deltas: readonly Delta[], choices: number, options: AnswerOptions): WireUsage | null {
  if (options.usage !== undefined) return options.usage
  const prompt = options.promptTokens ?? 10
  const completion = deltas.length * choices
  const reasoning = deltas.filter(delta => delta.reasoning_content !== undefined).length * choices
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: reasoning },
  }
}

function shared(request: ProviderRequest, options: AnswerOptions): { id: string; created: number; model: string } {
  const model = options.model ?? String(request.body?.['model'] ?? 'no-model')
  return { id: `chatcmpl-fake${request.index}`, created: 1_790_000_000, model }
}
