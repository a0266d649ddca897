/** Reads a request's body: once, within a limit, counted by the memory that it takes. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isRefusal, refuse } from '#contract'
import { ByteCollector } from '../../common/bytes.ts'
import { ClientRequest } from './client-request.ts'
import { earlyRefusal } from './malformed.ts'
import type { Room } from './shares.ts'

export interface ReadBody {
  readonly bytes: Buffer
  /** Returns the bytes to their room; once. */
  release(): void
}

export interface BodyLimit {
  readonly bytes: number
  /** Appended to the message of the refusal. */
  readonly advice?: string
}

/**
 * Reads the body. Only bytes that have arrived are counted: a declared length takes no room.
 *
 * Throws the refusal `request_too_large`, `overloaded` or `bad_request` (the client disconnected in the middle), or the refusal that
 * `refuseBody` ended the reading with.
 *
 * @param response gets `100 Continue` if the client waits for it before it sends the body (RFC 9110, 10.1.1)
 */
export async function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  limit: BodyLimit,
  room: Room,
): Promise<ReadBody> {
  // Node reports a head before it parses the rest of the same read. One microtask later, a body in that read is known to be complete or
  // malformed.
  if (!request.complete) await null
  const early = earlyRefusal(request)
  if (early) throw early
  const declared = Number(request.headers['content-length'] ?? 0)
  if (declared > limit.bytes) throw tooLarge(limit)
  if (request.headers.expect !== undefined) response.writeContinue()
  let taken = 0
  let released = false
  const release = () => {
    if (released) return
    released = true
    room.give(taken)
  }
  const hold = (bytes: number) => {
    if (bytes < taken) room.give(taken - bytes)
    else if (bytes > taken && !room.take(bytes - taken)) {
      throw refuse('overloaded', { retryAfterMs: 1000, detail: 'too many bytes of bodies in flight' })
    }
    taken = bytes
  }
  try {
    const whole = request instanceof ClientRequest ? request.takeWhole() : null
    const bytes = whole ?? (await collect(request, limit, hold))
    hold(bytes.length)
    return { bytes, release }
  } catch (error) {
    release()
    throw error
  }
}

/** @param hold called with the bytes that are kept now, before waiting for more; may throw */
function collect(request: IncomingMessage, limit: BodyLimit, hold: (bytes: number) => void): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // Node copies what its parser has found, so a piece is not shared.
    const collected = new ByteCollector(true, Number(request.headers['content-length'] ?? 0))
    const settle = (act: () => void) => {
      request.off('data', onData)
      request.off('end', onEnd)
      request.off('error', onError)
      request.off('close', onClose)
      act()
    }
    const onData = (piece: Buffer) => {
      try {
        collected.add(piece)
        if (collected.size > limit.bytes) throw tooLarge(limit)
        hold(collected.held)
      } catch (error) {
        fail(error)
      }
    }
    const fail = (error: unknown) => {
      collected.clear()
      settle(() => reject(error))
    }
    const onEnd = () => settle(() => resolve(collected.take()))
    const onError = (error: unknown) => fail(isRefusal(error) ? error : brokenOff())
    const onClose = () => fail(brokenOff())
    // The client has disconnected, maybe after a complete body: none of the events below would be emitted.
    if (request.destroyed) {
      onClose()
      return
    }
    request.on('data', onData)
    request.on('end', onEnd)
    request.on('error', onError)
    request.on('close', onClose)
  })
}

function brokenOff() {
  return refuse('bad_request', { message: 'The body broke off.' })
}

function tooLarge({ bytes, advice = '' }: BodyLimit) {
  return refuse('request_too_large', { message: `The body is larger than ${bytes} bytes.${advice}` })
}
