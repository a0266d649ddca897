/** Converts a finished exchange for OpenTelemetry. */
import type { Chat, RouteKind } from '#contract'
import { providerOf } from '../../observe/exchange-counts.ts'
import type { ExchangeSummary } from '../../observe/summary.ts'
import { peerOf } from '../../observe/telemetry/peer.ts'
import type { AttemptFacts, Attributes, TracedExchange } from '../../observe/telemetry/spans.ts'
import type { LiveExchange } from './live-exchange.ts'

export function tracedOf(exchange: LiveExchange, summary: ExchangeSummary): TracedExchange {
  const { client, live, meter, chat, host } = exchange
  const trace = exchange.trace!
  const endedMs = host.deadlineClock.now()
  const { kind, counts, raw } = live.config
  return {
    trace,
    summary,
    operation: counts ? 'count_tokens' : raw === null ? operationOf(kind) : rawOperation(exchange.ctx.path, raw.path),
    attempts: trace.attempts.map((_, index) => attemptOf(exchange, index, endedMs)),
    asked: trace.isSampled && chat !== undefined ? askedIn(chat) : NOTHING,
    ...answeredIn(exchange),
    finish: chat?.choices === 1 && meter.finish !== null && FINISHES.has(meter.finish) ? meter.finish : null,
    openedMs: client.openedMs,
    endedMs,
  }
}

const NOTHING: Attributes = {}

/** The provider's id and model of the last attempt's answer, and its content. */
function answeredIn({ answerCapture, chat, live, rawModel, targets, attempts, generation, outcome }: LiveExchange) {
  if (answerCapture === null) return { answer: NOTHING, content: null }
  const { id, model, collector } = answerCapture
  // If a raw route lists no models, the model may be any text of the client.
  const isKnown = live.config.raw === null || rawModel !== null
  const answer = { ...named('gen_ai.response.id', id), ...named('gen_ai.response.model', isKnown ? model : null) }
  if (collector === null || chat === undefined || live.config.counts) return { answer, content: null }
  const target = targets?.find(({ id }) => id === attempts.at(-1)?.target)
  const dialect = target && generation.upstreams.get(target.provider)!.provider.dialect
  const isSystemApart = dialect !== undefined && SYSTEM_APART.has(dialect)
  // A whole answer that a step refused did not reach the client.
  const answered = chat.stream || outcome === 'answered' ? collector.completion() : null
  return {
    answer,
    content: { messages: chat.body.messages, isSystemApart, answer: answered, isCut: collector.isCut },
  }
}

/** Providers whose format has a separate field for system instructions. */
const SYSTEM_APART: ReadonlySet<string> = new Set([
  'anthropic',
  'vertex-anthropic',
  'bedrock',
  'bedrock-invoke',
  'gemini',
  'vertex',
])

/** A provider may return any text, including the client's. A name has no blanks, so prose is excluded. */
function named(attribute: string, name: unknown): Attributes {
  return typeof name === 'string' && /^[\w.:/@+=-]{1,128}$/.test(name) ? { [attribute]: name } : NOTHING
}

/** Other values are the provider's own, and could be any text. */
const FINISHES: ReadonlySet<string> = new Set(['stop', 'length', 'tool_calls', 'content_filter', 'function_call'])

/** Raw routes whose path reveals the operation. */
const RAW_OPERATIONS: readonly (readonly [end: RegExp, operation: string])[] = [
  [/\/chat\/completions$/, 'chat'],
  [/\/(messages|responses)$/, 'chat'],
  [/\/completions$/, 'text_completion'],
  [/\/embeddings$|:(batchE|e)mbedContents?$/, 'embeddings'],
  [/:(stream)?[gG]enerateContent$/, 'generate_content'],
]

const operationOf = (kind: RouteKind) =>
  kind === 'chat' || kind === 'messages' || kind === 'responses' ? 'chat' : null

/** Decides by the client's path, else by the provider's. */
const rawOperation = (...paths: readonly string[]) =>
  paths.flatMap(path => RAW_OPERATIONS.find(([end]) => end.test(path))?.[1] ?? [])[0] ?? null

function attemptOf(exchange: LiveExchange, index: number, overMs: number): AttemptFacts {
  const { attempts, client, chat, outcome, trace, generation } = exchange
  const { target, spanId, startedMs, endedMs } = trace!.attempts[index]!
  const isLast = index === trace!.attempts.length - 1
  // A target is `provider/model`; the target of a raw route has no model of the catalog.
  const provider = providerOf(target)
  const summary = attempts[index]
  const { firstWriteMs } = client
  const gaveUp = isLast && (outcome === 'client_left' || outcome === 'cut') ? outcome : null
  const isAnswer = isLast && chat?.stream === true && firstWriteMs !== null && firstWriteMs >= startedMs
  return {
    spanId,
    peer: peerOf(generation.upstreams.get(provider)!.provider),
    model: provider === target ? exchange.rawModel : target.slice(provider.length + 1),
    error: summary?.code ?? gaveUp,
    status: summary?.status ?? null,
    startedMs,
    endedMs: endedMs ?? overMs,
    firstChunkMs: isAnswer ? firstWriteMs - startedMs : null,
  }
}

/** Numbers, and words of closed lists only: a client cannot hide a prompt in them. */
function askedIn({ body, stream, choices, cap }: Chat): Attributes {
  const asked: Record<string, string | number | boolean> = { 'gen_ai.request.max_tokens': cap }
  if (stream) asked['gen_ai.request.stream'] = true
  if (choices !== 1) asked['gen_ai.request.choice.count'] = choices
  for (const [field, name] of NUMBERS) {
    const value = body[field]
    if (typeof value === 'number' && Number.isFinite(value)) asked[name] = value
  }
  const type = (body['response_format'] as { readonly type?: unknown } | null | undefined)?.type
  if (type === 'json_object' || type === 'json_schema') asked['gen_ai.output.type'] = 'json'
  else if (type === 'text') asked['gen_ai.output.type'] = 'text'
  return asked
}

const NUMBERS: readonly (readonly [field: string, name: string])[] = [
  ['temperature', 'gen_ai.request.temperature'],
  ['top_p', 'gen_ai.request.top_p'],
  ['top_k', 'gen_ai.request.top_k'],
  ['frequency_penalty', 'gen_ai.request.frequency_penalty'],
  ['presence_penalty', 'gen_ai.request.presence_penalty'],
  ['seed', 'gen_ai.request.seed'],
]
