/**
 * Sends the requests of a raw route: bytes pass unchanged, and only their cost is determined. Small answers and JSON are sent whole,
 * after the steps have returned; sound, files and events as they arrive, except for their end.
 */
import { isRefusal, type MeteredUsage, mayUseRaw, type Refusal, refuse, type UpstreamFailure } from '#contract'
import { blameCredential } from '../../providers/credentials.ts'
import type { TrackedAttempt } from '../../providers/health.ts'
import { RawAbort, type RawAnswer, RawFailure, type RawHead, type RawSink } from '../../providers/raw.ts'
import { CREDENTIAL_FAILURES } from '../../providers/retry.ts'
import type { Reply } from '../finish.ts'
import type { SignedHeaders, Upstream } from '../generation.ts'
import { AnswerCapture } from './answer-capture.ts'
import { AttemptRecord } from './attempt-record.ts'
import { refusalOfFailure } from './chat.ts'
import type { LiveExchange } from './live-exchange.ts'
import { modelOfForm } from './raw-form.ts'
import { queryNamesModel, upstreamPath } from './raw-path.ts'
import { ByteStream, deliveryOf, EventStream, type RawStream } from './raw-stream.ts'
import { reportedIn, usageOfRaw } from './raw-usage.ts'
import { StreamReply, stoppedReply, WholeReply } from './reply.ts'

/** Resolves when the answer is over, however it ended. Rejects with the refusal of a request that may not be sent. */
export async function sendRaw(exchange: LiveExchange): Promise<Reply> {
  const { ctx, live, generation } = exchange
  const { raw } = live.config
  if (!raw) throw new Error('a raw route without a target')
  if (exchange.stopped) return stoppedReply(exchange)
  refuseEncodedBody(ctx.get('content-encoding'))
  refuseForbiddenModel(exchange, raw.models)
  const upstream = generation.upstreams.get(raw.provider.name)!
  const routes = generation.routes.map(each => each.config.path)
  const path = upstreamPath({ route: live.config.path, upstream: raw.path, routes }, ctx.path, ctx.querystring)
  return new RawAttempt(exchange, upstream, path).run()
}

/** The only attempt of a raw route. */
class RawAttempt {
  readonly #exchange: LiveExchange
  readonly #upstream: Upstream
  readonly #path: string
  readonly #signed: SignedHeaders
  readonly #record: AttemptRecord
  readonly #trackedAttempt: TrackedAttempt
  readonly #holds = (bytes: number) => this.#exchange.host.memory.growAnswer(this.#exchange, bytes)
  /** Set if the answer is sent as it arrives. */
  #stream: RawStream | null = null

  constructor(exchange: LiveExchange, upstream: Upstream, path: string) {
    const { ctx, bytes } = exchange
    const type = ctx.get('content-type')
    const headers: Readonly<Record<string, string>> = type === '' ? {} : { 'content-type': type }
    this.#exchange = exchange
    this.#upstream = upstream
    this.#path = path
    this.#signed = upstream.sign({ method: ctx.method, path, headers, body: bytes })
    this.#record = new AttemptRecord(exchange, upstream.provider.name)
    // The content of raw answers is not traced.
    if (exchange.trace?.isSampled) exchange.answerCapture = new AnswerCapture(false)
    this.#trackedAttempt = exchange.generation.healthTracker.begin({ id: upstream.provider.name })
  }

  async run(): Promise<Reply> {
    const exchange = this.#exchange
    try {
      const answer = await this.#ask()
      this.#stream?.end()
      exchange.meter.started = exchange.meter.finished = true
      const outcome = exchange.client.left ? 'client_left' : 'answered'
      if (outcome === 'answered') this.#trackedAttempt.good()
      if (this.#stream)
        return new StreamReply(exchange, { outcome, usage: this.#usageSoFar(this.#stream), refusal: null })
      const { status, headers, body } = answer
      return new WholeReply(exchange, body, { usage: this.#usageOfWhole(answer), status, headers, outcome })
    } catch (error) {
      if (exchange.stopped) return this.#stopped(error)
      return new StreamReply(exchange, { outcome: 'failed', usage: null, refusal: this.#failed(error) })
    } finally {
      // No effect if the attempt was judged before.
      this.#trackedAttempt.dropped()
      if (exchange.trace !== null) this.#record.over()
    }
  }

  #ask(): Promise<RawAnswer> {
    const { ctx, bytes, live, id, signal, via, host, generation, trace } = this.#exchange
    const headers = { ...this.#signed.headers, via }
    if (trace !== null) this.#record.propagate(headers)
    return this.#upstream.rawProxy.send({
      request: ctx.req,
      bytes,
      provider: live.config.raw!.provider,
      headers,
      path: this.#path,
      requestId: id,
      signal,
      deadlineClock: host.deadlineClock,
      largestBytes: generation.configuration.limits.answerBytes,
      holds: this.#holds,
      begin: (head, resume) => this.#begin(head, resume),
      decodeError: this.#upstream.dialect.decodeError,
    })
  }

  #begin(head: RawHead, resume: () => void): RawSink | null {
    this.#signed.accepted()
    this.#record.head(head.status, null)
    const stream = this.#streamFor(head)
    this.#trackedAttempt.begun(stream !== null)
    if (stream === null) return null
    this.#stream = this.#exchange.stream = stream
    this.#exchange.client.onResume(resume)
    return bytes => {
      const keepsUp = stream.take(bytes)
      this.#trackedAttempt.streams()
      return keepsUp
    }
  }

  /** The client's stream of an answer that is sent as it arrives; null: the answer is collected. */
  #streamFor(head: RawHead): RawStream | null {
    const { client, generation } = this.#exchange
    const outlet = { client, head }
    switch (deliveryOf(head)) {
      case 'events':
        return new EventStream(outlet, {
          failureOf: body => this.#upstream.dialect.decodeError(500, {}, body),
          largestBytes: generation.configuration.limits.answerBytes,
          holds: this.#holds,
          identity: this.#exchange.answerCapture,
        })
      case 'bytes':
        return new ByteStream(outlet)
      case null:
        return null
    }
  }

  /** Records a failure of the provider, or a bug of the gateway. Returns the refusal for the client. */
  #failed(error: unknown): Refusal {
    if (!(error instanceof RawFailure)) {
      const { host, id } = this.#exchange
      host.reportBug(id, error)
      return refuse('internal_error', { cause: error })
    }
    this.#judge(error)
    this.#record.failed(error.status, error.failure)
    return refusalOfFailure(error.failure)
  }

  /** Judges the target, or its credential, which is blamed only for an error status. */
  #judge({ failure, status, isPaused }: RawFailure): void {
    const judged = concernsRequest(failure, status ?? 0) ? { ...failure, code: 'upstream_rejected' as const } : failure
    const hasOtherCredential = status !== null && status > 299 && blameCredential(this.#signed, judged)
    if (!hasOtherCredential && !isPaused) this.#trackedAttempt.bad(judged)
  }

  /**
   * The reply after a disconnect. If a part of the answer was sent, the request and that part are charged. If the request was only sent,
   * the request is charged.
   */
  #stopped(error: unknown): Reply {
    const { client, meter, bytes, live } = this.#exchange
    const stream = this.#stream
    // An attempt that was given up before its head arrived is recorded too.
    this.#record.head(null, null)
    let usage: MeteredUsage | null = null
    if (stream && client.headSent) {
      meter.started = meter.finished = true
      usage = this.#usageSoFar(stream)
    } else if (error instanceof RawAbort && error.isBillable && client.left) {
      meter.abandoned = true
      const reported = stream?.usage ?? null
      const sizes = { request: bytes, answerBytes: 0 }
      usage = usageOfRaw(live.config.price, reported && reported.input! > 0 ? reported : null, sizes)
    }
    return stoppedReply(this.#exchange, usage)
  }

  #usageSoFar(stream: RawStream): MeteredUsage {
    const { bytes, live } = this.#exchange
    return usageOfRaw(live.config.price, stream.usage, { request: bytes, answerBytes: stream.bytes })
  }

  #usageOfWhole({ headers, body }: RawAnswer): MeteredUsage {
    const { bytes, live, answerCapture } = this.#exchange
    const isJson = /json/i.test(headers['content-type'] ?? '')
    const reported = live.config.price !== null && isJson ? reportedIn(body, answerCapture) : null
    return usageOfRaw(live.config.price, reported, { request: bytes, answerBytes: body.length })
  }
}

/**
 * Whether a provider's error concerns the request, which the client wrote. A 403 often means that a file belongs to another account,
 * which does not concern the credential.
 */
function concernsRequest({ code }: UpstreamFailure, status: number): boolean {
  if (status === 403) return code !== 'upstream_quota'
  return status >= 400 && status < 500 && code !== 'upstream_timeout' && !CREDENTIAL_FAILURES.has(code)
}

/** Content-Encoding is not forwarded, so the provider would misread a compressed body, and the gateway could not estimate its tokens. */
function refuseEncodedBody(encoding: string): void {
  if (encoding === '' || encoding.toLowerCase() === 'identity') return
  throw refuse('unsupported_media_type', { message: 'The body must not be compressed (Content-Encoding).' })
}

/**
 * A limited key must not reach other models through a route whose bodies are not validated. If the route lists its models, its price
 * covers only those. Without a list, a path, a query or a file may name the model, and the gateway cannot determine it.
 */
function refuseForbiddenModel(exchange: LiveExchange, models: readonly string[] | null): void {
  const { account, key, generation } = exchange
  const plan = account && generation.plans.of(account)
  if (models === null) {
    if ((key?.models ?? null) === null && (plan?.models ?? null) === null) return
    const message = 'This key is limited to some models, and the model of this request cannot be determined.'
    throw refuse('model_not_found', { message })
  }
  const model = listedModel(exchange, models)
  if (model === null || !mayUseRaw(model, key, plan)) throw refuse('model_not_found', { param: 'model' })
}

/** The provider's model of a request, if its route lists it; else null. */
function listedModel(exchange: LiveExchange, models: readonly string[]): string | null {
  const model = modelOf(exchange)
  return model !== null && models.includes(model) && !queryNamesModel(exchange.ctx.querystring) ? model : null
}

/**
 * Records the model for receipts and usage, if the route lists it. Otherwise clients could write anything, and create any number of rows
 * in the usage. Errors of the body are reported when it is sent.
 */
export function noteRawModel(exchange: LiveExchange): void {
  const models = exchange.live.config.raw?.models
  if (!models) return
  try {
    exchange.rawModel = listedModel(exchange, models)
  } catch (error) {
    if (!isRefusal(error)) throw error
  }
}

/** The model that a body names. Null: unknown or missing, so it is not allowed. */
function modelOf(exchange: LiveExchange): string | null {
  const { ctx } = exchange
  const type = ctx.get('content-type')
  if (/^multipart\//i.test(type)) {
    // A step may have changed the header since the form was read, and the provider reads the form by the header that is sent.
    if (exchange.form?.type !== type) exchange.form = { type, model: modelOfForm(type, exchange.bytes) }
    return exchange.form.model
  }
  if (!JSON_TYPE.test(type)) return null
  const body = exchange.json()
  const model = typeof body === 'object' && body !== null ? (body as { model?: unknown }).model : undefined
  return typeof model === 'string' ? model : null
}

/** Read as UTF-8 here; with another charset the provider might read it differently. */
const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?$/i
