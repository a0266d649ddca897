/**
 * The spans of one sampled exchange: one for the client's request, and one for each attempt at a provider. They have no text of
 * requests and answers, unless the policy has `telemetry: { content: true }`.
 */
import type { ExchangeSummary } from '../summary.ts'
import { type Content, contentAttributes } from './content.ts'
import { type EncodableSpan, type HrTime, hrTime, type MetricsExport } from './encoding.ts'
import type { Peer } from './peer.ts'
import type { Trace } from './trace-context.ts'

/** One attempt, from the exchange's summary and its trace. Times are monotonic milliseconds. */
export interface AttemptFacts {
  readonly spanId: string
  readonly peer: Peer
  /** The provider's name for the model; null: unknown. */
  readonly model: string | null
  /** `error.type`; null: there was no error. */
  readonly error: string | null
  /** The status of the provider's answer; null: no answer. */
  readonly status: number | null
  readonly startedMs: number
  readonly endedMs: number
  /** From the start of the attempt to the first piece of its stream; null: it began no stream. */
  readonly firstChunkMs: number | null
}

/** A finished exchange, with the facts for telemetry. */
export interface TracedExchange {
  readonly trace: Trace
  readonly summary: ExchangeSummary
  /** `gen_ai.operation.name`; null: it is unknown whether the route calls a model. */
  readonly operation: string | null
  readonly attempts: readonly AttemptFacts[]
  /** Parameters of a sampled request, under the names of the conventions: numbers, and words of closed lists. */
  readonly asked: Attributes
  /** The provider's id and model of the answer, as attributes. */
  readonly answer: Attributes
  /** Null: the policy records no content, or the exchange has none. */
  readonly content: Content | null
  /** The finish reason, in the words of chat completions; null: unknown, or several answers. */
  readonly finish: string | null
  /** Monotonic milliseconds. */
  readonly openedMs: number
  readonly endedMs: number
}

export type Attributes = Readonly<Record<string, string | number | boolean | string[]>>

/** The parts that all spans of a telemetry share. */
export interface SharedParts {
  readonly resource: EncodableSpan['resource']
  readonly scope: MetricsExport['scopeMetrics'][number]['scope']
  /** Removes secrets from a text. */
  redact(text: string, isBroken?: boolean): string
}

export interface WaitingSpan extends EncodableSpan {
  /** The size of its content. */
  readonly characters: number
}

const [SERVER, CLIENT] = [1, 2]
const [UNSET, ERROR] = [0, 2]

export function spansOf(traced: TracedExchange, shared: SharedParts): WaitingSpan[] {
  const { trace, summary, openedMs, attempts } = traced
  const at = (ms: number) => summary.at + ms - openedMs
  const { code, status, outcome } = summary
  // A mistake of the client is not an error of the server (HTTP conventions). A broken stream has begun with 200.
  const hasBroken = (outcome === 'failed' || outcome === 'cut') && (status === null || status < 400)
  const isError = hasBroken || (status !== null && status >= 500)
  const server = new RecordedSpan(trace, shared, {
    spanId: trace.spanId,
    parentId: trace.parentId,
    isParentRemote: true,
    name: `${summary.method} ${summary.route}`,
    kind: SERVER,
    startedAt: at(openedMs),
    endedAt: at(traced.endedMs),
    isError,
    attributes: serverAttributes(summary, isError ? (code ?? outcome) : null, shared.redact),
  })
  const last = attempts.length - 1
  return [
    server,
    ...attempts.map(
      (attempt, index) =>
        new RecordedSpan(trace, shared, {
          spanId: attempt.spanId,
          parentId: trace.spanId,
          isParentRemote: false,
          name:
            traced.operation === null ? summary.method : [traced.operation, attempt.model].filter(Boolean).join(' '),
          kind: CLIENT,
          startedAt: at(attempt.startedMs),
          endedAt: at(attempt.endedMs),
          isError: attempt.error !== null,
          attributes: {
            ...clientAttributes(traced, attempt, index),
            ...(index === last ? answerAttributes(traced, attempt) : {}),
          },
          ...(index === last && traced.content !== null
            ? { content: contentAttributes(traced.content, shared.redact) }
            : {}),
        }),
    ),
  ]
}

function serverAttributes(summary: ExchangeSummary, error: string | null, redact: SharedParts['redact']): Attributes {
  const tags = Object.entries(summary.tags ?? {}).map(([name, value]) => [`tollgate.tag.${name}`, redact(value)])
  return given({
    'http.request.method': summary.method,
    'http.route': summary.route,
    'http.response.status_code': summary.status,
    'error.type': error,
    'gen_ai.request.model': summary.model,
    'tollgate.exchange.id': summary.id,
    'tollgate.policy': summary.policy,
    'tollgate.outcome': summary.outcome,
    'tollgate.code': summary.code,
    'tollgate.decided_by': summary.decidedBy,
    'tollgate.account.id': summary.accountId,
    'tollgate.key.id': summary.keyId,
    'tollgate.charged_dollars': summary.charge && dollars(summary.charge.amount),
    'tollgate.cost_dollars': summary.cost === null ? null : dollars(summary.cost),
    ...Object.fromEntries(tags),
  })
}

/** Converts nano-dollars; exact enough to read, not to add up. */
const dollars = (amount: bigint) => Number(amount) / 1e9

function clientAttributes(
  { operation, summary, asked }: TracedExchange,
  attempt: AttemptFacts,
  index: number,
): Attributes {
  const { peer, model, status, error } = attempt
  const common = {
    'server.address': peer.address,
    'server.port': peer.port,
    'http.response.status_code': status,
    'http.request.resend_count': index === 0 ? null : index,
    'error.type': error,
    'tollgate.provider': peer.name,
  }
  if (operation === null) return given({ 'http.request.method': summary.method, ...common })
  return given({
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': peer.provider,
    'gen_ai.request.model': model,
    ...common,
    ...asked,
  })
}

/** The attributes of the last attempt, which gave the answer. */
function answerAttributes(
  { operation, summary: { usage }, answer, finish }: TracedExchange,
  attempt: AttemptFacts,
): Attributes {
  const { firstChunkMs } = attempt
  if (operation === null) return {}
  return given({
    ...answer,
    'gen_ai.response.time_to_first_chunk': firstChunkMs === null ? null : firstChunkMs / 1000,
    'gen_ai.response.finish_reasons': finish === null ? null : [finish],
    ...(usage === null || usage.source === 'cached'
      ? {}
      : {
          'gen_ai.usage.input_tokens': usage.input ?? 0,
          'gen_ai.usage.output_tokens': usage.output ?? 0,
          'gen_ai.usage.cache_read.input_tokens': usage.cached_input || null,
          'gen_ai.usage.cache_creation.input_tokens': usage.cache_write || null,
          'gen_ai.usage.reasoning.output_tokens': usage.reasoning || null,
          'tollgate.usage.source': usage.source,
        }),
  })
}

/**
 * Drops unknown values, and numbers that a collector refuses. Integers are sent in 64 bits: with a larger one, the collector refuses all
 * spans of the request.
 */
function given(values: Readonly<Record<string, Attributes[string] | null>>): Attributes {
  const known: Record<string, Attributes[string]> = {}
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && !(typeof value === 'number' && !isWritable(value))) known[name] = value
  }
  return known
}

const isWritable = (value: number) => (Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value))

interface SpanFacts {
  readonly spanId: string
  readonly parentId: string | null
  readonly isParentRemote: boolean
  readonly name: string
  readonly kind: number
  /** Milliseconds since the epoch, with fractions. */
  readonly startedAt: number
  readonly endedAt: number
  readonly isError: boolean
  readonly attributes: Attributes
  readonly content?: Readonly<Record<string, string>>
}

type SpanContext = ReturnType<EncodableSpan['spanContext']>

/** A finished span, for the encoder. */
class RecordedSpan implements WaitingSpan {
  readonly characters: number
  readonly name: string
  readonly kind: number
  readonly parentSpanContext?: SpanContext
  readonly startTime: HrTime
  readonly endTime: HrTime
  readonly duration: HrTime
  readonly status: { readonly code: number }
  readonly attributes: EncodableSpan['attributes']
  readonly resource: EncodableSpan['resource']
  readonly instrumentationScope: EncodableSpan['instrumentationScope']
  readonly links = []
  readonly events = []
  readonly ended = true
  readonly droppedAttributesCount = 0
  readonly droppedEventsCount = 0
  readonly droppedLinksCount = 0
  readonly #context: SpanContext

  constructor(trace: Trace, { resource, scope }: SharedParts, facts: SpanFacts) {
    const { spanId, parentId, startedAt, endedAt } = facts
    const common = { traceId: trace.id, traceFlags: trace.flags }
    const traceState = trace.state === null ? {} : { traceState: stateOf(trace.state) }
    this.#context = { ...common, ...traceState, spanId }
    if (parentId !== null) this.parentSpanContext = { ...common, spanId: parentId, isRemote: facts.isParentRemote }
    this.name = facts.name
    this.kind = facts.kind
    this.startTime = hrTime(startedAt)
    this.endTime = hrTime(Math.max(startedAt, endedAt))
    this.duration = hrTime(Math.max(0, endedAt - startedAt))
    this.status = { code: facts.isError ? ERROR : UNSET }
    this.attributes = { ...facts.attributes, ...facts.content }
    this.characters = Object.values(facts.content ?? {}).reduce((sum, text) => sum + text.length, 0)
    this.resource = resource
    this.instrumentationScope = scope
  }

  spanContext(): SpanContext {
    return this.#context
  }
}

/** The encoder calls only `serialize`. */
function stateOf(text: string): NonNullable<SpanContext['traceState']> {
  return { serialize: () => text } as NonNullable<SpanContext['traceState']>
}
