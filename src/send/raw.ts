/**
 * The innermost middleware of a raw route: the bytes pass, and only what they cost is looked at. Small answers and JSON
 * leave whole, when the pipeline has unwound; sound, files and events leave as they come, but for their end.
 */
import { isRefusal, refuse, type UpstreamFailure, type Usage } from '#contract'
import { StreamAnswer } from '../answer/stream.ts'
import type { Upstream } from '../generation.ts'
import { RawAbort, RawFailure, type RawHead } from '../upstream/raw.ts'
import type { Memory } from './memory.ts'
import { modelOfForm } from './raw-form.ts'
import { queryNamesModel, upstreamPath } from './raw-path.ts'
import { ByteStream, EventStream, howItLeaves, type RawStream } from './raw-stream.ts'
import { reportedIn, usageOfRaw } from './raw-usage.ts'
import { endStopped, recordAttempt, refusalOf, type SenderParts, type Trip } from './trip.ts'

/** Resolves when the answer is over or the client has left; rejects with the refusal when it failed. */
export async function sendRaw(trip: Trip, parts: SenderParts, memory: Memory): Promise<void> {
  const { exchange, client, meter, ctx, route, generation } = trip
  const { raw } = route.config
  if (!raw) throw new Error('a raw route without a target')
  if (exchange.aborted) return endStopped(trip)
  refuseEncodedBody(ctx.get('content-encoding'))
  refuseForbiddenModel(trip, raw.models)
  const upstream = generation.upstreams.get(raw.provider.name)!
  const routes = generation.routes.map(each => each.config.path)
  const path = upstreamPath({ route: route.config.path, upstream: raw.path, routes }, ctx.path, ctx.querystring)
  const type = ctx.get('content-type')
  const signed = upstream.sign({
    method: ctx.method,
    path,
    headers: type === '' ? {} : { 'content-type': type },
    body: exchange.bytes,
  })
  const attempt = recordAttempt(trip, parts, raw.provider.name)
  const holds = (bytes: number) => memory.growAnswer(trip, bytes)
  let stream: RawStream | null = null
  try {
    const answer = await parts.rawProxy.send({
      request: ctx.req,
      bytes: exchange.bytes,
      provider: raw.provider,
      headers: { ...signed.headers, via: trip.via },
      path,
      requestId: exchange.id,
      signal: exchange.signal,
      watchman: parts.watchman,
      largestBytes: generation.configuration.limits.answerBytes,
      holds,
      begin(head, resume) {
        signed.taken()
        attempt(head.status, null)
        stream = streamFor(trip, head, upstream, holds)
        if (stream === null) return null
        client.onResume(resume)
        return bytes => stream!.take(bytes)
      },
      decodeError: upstream.dialect.decodeError,
    })
    // Assigned in `begin`, where the compiler does not look.
    const streamed = stream as RawStream | null
    streamed?.end()
    meter.started = meter.finished = true
    exchange.usage = streamed
      ? usageSoFar(trip, streamed)
      : usageOfWhole(trip, answer.headers['content-type'] ?? '', answer.body)
    exchange.outcome = client.left ? 'client_left' : 'answered'
    const finish = () => (streamed ? streamed.finish() : client.sendWhole(answer.status, answer.headers, answer.body))
    trip.finish = finish
  } catch (error) {
    if (exchange.aborted) {
      // Who was given up before its head came was tried all the same.
      if (exchange.attempts.length === 0) attempt(null, null)
      leave(trip, stream, error instanceof RawAbort && error.isBillable)
      return endStopped(trip)
    }
    exchange.outcome = 'failed'
    if (!(error instanceof RawFailure)) throw error
    // A 403 says as often that a file is somebody else's, and then nothing about the credential.
    if (error.status === 401) signed.refused()
    noteFailure(trip, parts, error, attempt)
    throw refusalOf(error.failure)
  }
}

/** The client's stream for an answer that leaves as it comes; null for one that is collected. */
function streamFor(
  trip: Trip,
  head: RawHead,
  { dialect }: Upstream,
  holds: (bytes: number) => boolean,
): RawStream | null {
  const { client, ctx, generation } = trip
  const outlet = { client, response: ctx.res, head }
  switch (howItLeaves(head)) {
    case 'events':
      // Once it has begun, what goes wrong is told by an event and then the connection's end.
      trip.stream = new StreamAnswer(client, [])
      return new EventStream(outlet, {
        failureOf: said => dialect.decodeError(500, {}, said),
        largestBytes: generation.configuration.limits.answerBytes,
        holds,
      })
    case 'bytes':
      return new ByteStream(outlet)
    case null:
      return null
  }
}

/**
 * Who leaves in the middle has had the half of it: the request, and what had come. Who leaves before anything of it came
 * has had the request read.
 */
function leave(trip: Trip, stream: RawStream | null, isBillable: boolean): void {
  const { client, meter, exchange, route } = trip
  if (stream && client.headSent) {
    meter.started = meter.finished = true
    exchange.usage = usageSoFar(trip, stream)
  } else if (isBillable && client.left) {
    meter.abandoned = true
    const sizes = { requestBytes: exchange.bytes.length, answerBytes: 0 }
    const said = stream?.usage ?? null
    exchange.usage = usageOfRaw(route.config.price, said && said.promptTokens > 0 ? said : null, sizes)
  }
}

function usageSoFar({ route, exchange }: Trip, stream: RawStream): Usage {
  const sizes = { requestBytes: exchange.bytes.length, answerBytes: stream.bytes }
  return usageOfRaw(route.config.price, stream.usage, sizes)
}

function usageOfWhole({ route, exchange }: Trip, type: string, body: Buffer): Usage {
  const reported = route.config.price !== null && /json/i.test(type) ? reportedIn(body) : null
  return usageOfRaw(route.config.price, reported, { requestBytes: exchange.bytes.length, answerBytes: body.length })
}

/** Writes down a failure, also one of an answer whose head was good, and tells the operator. */
function noteFailure(
  { exchange, route }: Trip,
  { log }: SenderParts,
  { status, failure }: RawFailure,
  attempt: (status: number | null, failure: UpstreamFailure) => void,
): void {
  const last = exchange.attempts.at(-1)
  if (last) exchange.attempts[exchange.attempts.length - 1] = { ...last, code: failure.code }
  else attempt(status, failure)
  const { code, detail } = failure
  log.warn({ exchange: exchange.id, target: route.config.raw?.provider.name, code, detail }, 'an attempt failed')
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
function refuseForbiddenModel(trip: Trip, models: readonly string[] | null): void {
  const allowed = trip.exchange.key?.models ?? null
  if (models === null) {
    if (allowed === null) return
    const message = 'This key may use some models only, and nobody can say which one a request to this URL would reach.'
    throw refuse('model_not_found', { message })
  }
  const model = listedModel(trip, models)
  if (model === null || !(allowed === null || allowed.includes(model)))
    throw refuse('model_not_found', { param: 'model' })
}

/** The provider's model that a request is about, when its route lists it; null for all others. */
function listedModel(trip: Trip, models: readonly string[]): string | null {
  const model = modelOf(trip)
  return model !== null && models.includes(model) && !queryNamesModel(trip.ctx.querystring) ? model : null
}

/**
 * Notes the model for receipts and usage. Only one that the route lists: what clients write there otherwise is theirs, and the
 * sums of usage would have as many rows as they like. What is wrong with the body is told when it is sent.
 */
export function noteRawModel(trip: Trip): void {
  const models = trip.route.config.raw?.models
  if (!models) return
  try {
    trip.exchange.rawModel = listedModel(trip, models)
  } catch (error) {
    if (!isRefusal(error)) throw error
  }
}

/** The model that a body is about. Null: nobody can see which one, or none, so it is none that is allowed. */
function modelOf(trip: Trip): string | null {
  const { exchange, ctx } = trip
  const type = ctx.get('content-type')
  if (/^multipart\//i.test(type)) {
    // A step may have changed the header since it was read: the provider reads the form by the one that is sent.
    if (trip.form?.type !== type) trip.form = { type, model: modelOfForm(type, exchange.bytes) }
    return trip.form.model
  }
  if (!JSON_TYPE.test(type)) return null
  const body = exchange.json()
  const model = typeof body === 'object' && body !== null ? (body as { model?: unknown }).model : undefined
  return typeof model === 'string' ? model : null
}

/** Read as UTF-8 here; whoever says another charset may be read otherwise there. */
const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?$/i
