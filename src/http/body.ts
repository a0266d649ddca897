/** Reads a request's body: once, bounded, and counted against the bytes of all exchanges under way. */
import type { IncomingMessage } from 'node:http'
import { isRefusal, refuse } from '#contract'

/**
 * The bytes of all bodies under way; one for the whole process. Only bytes that have come count: what a client merely
 * says it will send costs it nothing, and must not take the room of those who do send.
 */
export interface BodyBudget {
  readonly limitBytes: number
  inflightBytes: number
}

export interface ReadBody {
  readonly bytes: Buffer
  /** Gives the bytes back to the budget; once. */
  release(): void
}

/**
 * Throws the refusal `request_too_large`, `overloaded` or `bad_request` (the client left in the middle of it), or the one
 * with which `refuseBody` ended the reading.
 */
export async function readBody(request: IncomingMessage, limitBytes: number, budget: BodyBudget): Promise<ReadBody> {
  const declared = Number(request.headers['content-length'] ?? 0)
  if (declared > limitBytes) throw tooLarge(limitBytes)
  let taken = 0
  let released = false
  const release = () => {
    if (released) return
    released = true
    budget.inflightBytes -= taken
  }
  const take = (bytes: number) => {
    if (budget.inflightBytes + bytes > budget.limitBytes) {
      throw refuse('overloaded', { retryAfterMs: 1000, detail: 'too many bytes of bodies in flight' })
    }
    taken += bytes
    budget.inflightBytes += bytes
  }
  try {
    return { bytes: await collect(request, limitBytes, take), release }
  } catch (error) {
    release()
    throw error
  }
}

function collect(request: IncomingMessage, limitBytes: number, take: (bytes: number) => void): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let size = 0
    const settle = (act: () => void) => {
      request.off('data', onData)
      request.off('end', onEnd)
      request.off('error', onError)
      request.off('close', onGone)
      act()
    }
    const onData = (piece: Buffer) => {
      size += piece.length
      pieces.push(piece)
      try {
        if (size > limitBytes) throw tooLarge(limitBytes)
        take(piece.length)
      } catch (error) {
        settle(() => reject(error))
      }
    }
    const onEnd = () => settle(() => resolve(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)))
    const onError = (error: unknown) => settle(() => reject(isRefusal(error) ? error : brokenOff()))
    const onGone = () => settle(() => reject(brokenOff()))
    // Left already: nothing of the below would ever be called.
    if (request.destroyed && !request.complete) {
      onGone()
      return
    }
    request.on('data', onData)
    request.on('end', onEnd)
    request.on('error', onError)
    request.on('close', onGone)
  })
}

function brokenOff() {
  return refuse('bad_request', { message: 'The body broke off.' })
}

function tooLarge(limitBytes: number) {
  return refuse('request_too_large', { message: `The body is larger than ${limitBytes} bytes.` })
}
