/**
 * The innermost middleware of a raw route: the bytes pass, and only what they cost is looked at. Small answers and JSON
 * leave whole, when the pipeline has unwound; sound, files and events leave as they come, but for their end.
 */
import { isRefusal, type MeteredUsage, mayUseRaw, type Refusal, refuse, type UpstreamFailure } from '#contract'
import { blameCredential } from '../../providers/credentials.ts'
import type { TrackedAttempt } from '../../providers/health.ts'
import { RawAbort, type RawAnswer, RawFailure, type RawHead, type RawSink } from '../../providers/raw.ts'
import { THE_CREDENTIALS } from '../../providers/retry.ts'
import type { Reply } from '../finish.ts'
import type { Signed, Upstream } from '../generation.ts'
import { AnswerRecord } from './answer-record.ts'
import { AttemptRecord } from './attempt-record.ts'
import { refusalOf } from './chat.ts'
import type { LiveExchange } from './live-exchange.ts'
import { modelOfForm } from './raw-form.ts'
import { queryNamesModel, upstreamPath } from './raw-path.ts'
import { ByteStream, EventStream, howItLeaves, type RawStream } from './raw-stream.ts'
import { reportedIn, usageOfRaw } from './raw-usage.ts'
import { StreamReply, stoppedReply, WholeReply } from './reply.ts'

/** Resolves when the answer is over, however it ended; rejects with the refusal of a request that may not be sent. */
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
  return new RawTry(exchange, upstream, path).run()
}

/** The one attempt of a raw route. */
class RawTry {
  readonly #exchange: LiveExchange
  readonly #upstream: Upstream
  readonly #path: string
  readonly #signed: Signed
  readonly #record: AttemptRecord
  readonly #trackedAttempt: TrackedAttempt
  readonly #holds = (bytes: number) => this.#exchange.host.memory.growAnswer(this.#exchange, bytes)
  /** Set at a head whose answer leaves as it comes. */
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
    // Its words pass unread.
    if (exchange.trace?.isSampled) exchange.answerRecord = new AnswerRecord(false)
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
      // Whatever has taught nothing of it so far.
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
    this.#signed.taken()
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

  /** The client's stream for an answer that leaves as it comes; null for one that is collected. */
  #streamFor(head: RawHead): RawStream | null {
    const { client, generation } = this.#exchange
    const outlet = { client, head }
    switch (howItLeaves(head)) {
      case 'events':
        return new EventStream(outlet, {
          failureOf: said => this.#upstream.dialect.decodeError(500, {}, said),
          largestBytes: generation.configuration.limits.answerBytes,
          holds: this.#holds,
          identity: this.#exchange.answerRecord,
        })
      case 'bytes':
        return new ByteStream(outlet)
      case null:
        return null
    }
  }

  /** Notes a failure of the provider, or a bug of the gateway. Returns what the client is told. */
  #failed(error: unknown): Refusal {
    if (!(error instanceof RawFailure)) {
      const { host, id } = this.#exchange
      host.reportBug(id, error)
      return refuse('internal_error', { cause: error })
    }
    this.#judge(error)
    this.#record.failed(error.status, error.failure)
    return refusalOf(error.failure)
  }

  /** Only an error in place of an answer can be the credential's own. */
  #judge({ failure, status, isPaused }: RawFailure): void {
    const lesson = isRequests(failure, status ?? 0) ? { ...failure, code: 'upstream_rejected' as const } : failure
    const hasCredential = status !== null && status > 299 && blameCredential(this.#signed, lesson)
    if (!hasCredential && !isPaused) this.#trackedAttempt.bad(lesson)
  }

  /**
   * Who leaves in the middle has had the half of it: the request, and what had come. Who leaves before anything of it came
   * has had the request read.
   */
  #stopped(error: unknown): Reply {
    const { client, meter, bytes, live } = this.#exchange
    const stream = this.#stream
    // Who was given up before its head came was tried all the same.
    this.#record.head(null, null)
    let usage: MeteredUsage | null = null
    if (stream && client.headSent) {
      meter.started = meter.finished = true
      usage = this.#usageSoFar(stream)
    } else if (error instanceof RawAbort && error.isBillable && client.left) {
      meter.abandoned = true
      const said = stream?.usage ?? null
      const sizes = { request: bytes, answerBytes: 0 }
      usage = usageOfRaw(live.config.price, said && said.input! > 0 ? said : null, sizes)
    }
    return stoppedReply(this.#exchange, usage)
  }

  #usageSoFar(stream: RawStream): MeteredUsage {
    const { bytes, live } = this.#exchange
    return usageOfRaw(live.config.price, stream.usage, { request: bytes, answerBytes: stream.bytes })
  }

  #usageOfWhole({ headers, body }: RawAnswer): MeteredUsage {
    const { bytes, live, answerRecord } = this.#exchange
    const isJson = /json/i.test(headers['content-type'] ?? '')
    const reported = live.config.price !== null && isJson ? reportedIn(body, answerRecord) : null
    return usageOfRaw(live.config.price, reported, { request: bytes, answerBytes: body.length })
  }
}

/**
 * Whether a provider's error is about the request, which went as its client wrote it. A 403 says as often that a file
 * belongs to another account, and then nothing about the credential.
 */
function isRequests({ code }: UpstreamFailure, status: number): boolean {
  if (status === 403) return code !== 'upstream_quota'
  return status >= 400 && status < 500 && code !== 'upstream_timeout' && !THE_CREDENTIALS.has(code)
}

/** The header does not go upstream, so the provider would take the body for what it is not; nor could its tokens be held. */
function refuseEncodedBody(encoding: string): void {
  if (encoding === '' || encoding.toLowerCase() === 'identity') return
  throw refuse('unsupported_media_type', { message: 'The body must not be compressed (Content-Encoding).' })
}

/**
 * A key that may only use some models must not reach others by a road on which nobody else reads the body; and where the
 * route names its models, nobody pays its price for another one. Without them a path, a query or a file may say which
 * model is asked, and nobody here knows.
 */
function refuseForbiddenModel(exchange: LiveExchange, models: readonly string[] | null): void {
  const { account, key, generation } = exchange
  const plan = account && generation.plans.of(account)
  if (models === null) {
    if ((key?.models ?? null) === null && (plan?.models ?? null) === null) return
    const message = 'This key may use some models only, and nobody can say which one a request to this URL would reach.'
    throw refuse('model_not_found', { message })
  }
  const model = listedModel(exchange, models)
  if (model === null || !mayUseRaw(model, key, plan)) throw refuse('model_not_found', { param: 'model' })
}

/** The provider's model that a request is about, when its route lists it; null for all others. */
function listedModel(exchange: LiveExchange, models: readonly string[]): string | null {
  const model = modelOf(exchange)
  return model !== null && models.includes(model) && !queryNamesModel(exchange.ctx.querystring) ? model : null
}

/**
 * Notes the model for receipts and usage. Only one that the route lists: what clients write there otherwise is theirs, and the
 * sums of usage would have as many rows as they like. What is wrong with the body is told when it is sent.
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

/** The model that a body is about. Null: nobody can see which one, or none, so it is none that is allowed. */
function modelOf(exchange: LiveExchange): string | null {
  const { ctx } = exchange
  const type = ctx.get('content-type')
  if (/^multipart\//i.test(type)) {
    // A step may have changed the header since it was read: the provider reads the form by the one that is sent.
    if (exchange.form?.type !== type) exchange.form = { type, model: modelOfForm(type, exchange.bytes) }
    return exchange.form.model
  }
  if (!JSON_TYPE.test(type)) return null
  const body = exchange.json()
  const model = typeof body === 'object' && body !== null ? (body as { model?: unknown }).model : undefined
  return typeof model === 'string' ? model : null
}

/** Read as UTF-8 here; whoever says another charset may be read otherwise there. */
const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?$/i
