/** The innermost middleware of a raw route: the bytes pass, and only what they cost is looked at. */
import { type Price, refuse, type Usage } from '#contract'
import { LARGEST_ANSWER_BYTES } from '../answer/pump.ts'
import { RawFailure } from '../upstream/raw.ts'
import { endStopped, recordAttempt, refusalOf, type SenderParts, type Trip } from './trip.ts'

/** Resolves when the answer is over or the client has left; rejects with the refusal when it failed. */
export async function sendRaw(trip: Trip, parts: SenderParts): Promise<void> {
  const { exchange, client, meter, ctx, route, generation } = trip
  const { raw } = route.config
  if (!raw) throw new Error('a raw route without a target')
  if (exchange.signal.aborted) return endStopped(trip)
  refuseEncodedBody(ctx.get('content-encoding'))
  refuseForbiddenModel(trip)
  const upstream = generation.upstreams.get(raw.provider.name)!
  const attempt = recordAttempt(trip, parts, raw.provider.name)
  try {
    const answer = await parts.rawProxy.send({
      request: ctx.req,
      bytes: exchange.bytes,
      provider: raw.provider,
      headers: upstream.sign({ path: raw.path, headers: {}, body: exchange.bytes }).headers,
      path: raw.path + queryOf(ctx.querystring),
      requestId: exchange.id,
      signal: exchange.signal,
      watchman: parts.watchman,
      largestBytes: LARGEST_ANSWER_BYTES,
      decodeError: upstream.dialect.decodeError,
    })
    attempt(answer.status, null)
    meter.started = true
    meter.finished = true
    exchange.usage = usageOfRaw(
      answer.headers['content-type'] ?? '',
      answer.body,
      route.config.price,
      exchange.bytes.length,
    )
    exchange.outcome = client.left ? 'client_left' : 'answered'
    const finish = () => client.sendWhole(answer.status, answer.headers, answer.body)
    trip.finish = finish
  } catch (error) {
    if (exchange.signal.aborted) return endStopped(trip)
    exchange.outcome = 'failed'
    if (!(error instanceof RawFailure)) throw error
    attempt(error.status, error.failure)
    parts.log.warn(
      { exchange: exchange.id, target: raw.provider.name, detail: error.failure.detail },
      'an attempt failed',
    )
    throw refusalOf(error.failure)
  }
}

/** The header does not go upstream, so the provider would take the body for what it is not; nor could its tokens be held. */
function refuseEncodedBody(encoding: string): void {
  if (encoding === '' || encoding.toLowerCase() === 'identity') return
  throw refuse('unsupported_media_type', { message: 'The body must not be compressed (Content-Encoding).' })
}

/** The client's own query, without what some clients put a key in: keys of this gateway never go upstream. */
function queryOf(query: string): string {
  if (query === '') return ''
  const parameters = new URLSearchParams(query)
  const secret = [...parameters.keys()].filter(name => SECRET_PARAMETERS.has(name.toLowerCase().replaceAll('-', '_')))
  if (secret.length === 0) return `?${query}`
  for (const name of secret) parameters.delete(name)
  return parameters.size === 0 ? '' : `?${parameters}`
}

const SECRET_PARAMETERS = new Set(['key', 'api_key', 'apikey', 'access_token', 'token'])

/** A key that may only use some models must not reach others by a road on which nobody reads the body. */
function refuseForbiddenModel({ exchange, ctx }: Trip): void {
  const allowed = exchange.key?.models
  if (allowed == null) return
  // A form, or no body at all: nobody can see which model it is about, so it is none that is allowed.
  const body = /json/i.test(ctx.get('content-type')) ? exchange.json() : null
  const model = typeof body === 'object' && body !== null ? (body as { model?: unknown }).model : undefined
  if (typeof model !== 'string' || !allowed.includes(model)) throw refuse('model_not_found', { param: 'model' })
}

/** What the provider says it used; where prices count tokens and nobody says, a quarter of the bytes. */
function usageOfRaw(type: string, body: Buffer, price: Price | null, requestBytes: number): Usage {
  const none = { cachedTokens: 0, cacheWriteTokens: 0, completionTokens: 0, reasoningTokens: 0 }
  const countsTokens = price !== null && (price.input > 0n || price.output > 0n)
  if (!countsTokens) return { ...none, promptTokens: 0, source: 'reported' }
  const reported = type.includes('json') ? reportedTokens(body) : null
  if (reported !== null) return { ...none, promptTokens: reported, source: 'reported' }
  return { ...none, promptTokens: Math.ceil(requestBytes / 4), source: 'estimated' }
}

function reportedTokens(body: Buffer): number | null {
  try {
    const { usage } = JSON.parse(body.toString('utf8')) as { usage?: Record<string, unknown> }
    const tokens = usage?.['prompt_tokens'] ?? usage?.['input_tokens'] ?? usage?.['total_tokens']
    return typeof tokens === 'number' ? tokens : null
  } catch {
    return null
  }
}
