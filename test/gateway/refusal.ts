/** The promises about every error that a client can get, at any stage. */
import { expect } from 'vitest'
import { ERRORS, type ErrorCode, type ErrorEnvelope } from '#contract'
import type { RawResponse } from '../helpers/raw-client.ts'

export const REQUEST_ID = /^req_[0-9A-HJKMNP-TV-Z]{26}$/

/** Content that must never be in a message for clients: a stack, a path, an accidental value. */
const INSIDE = /node:|file:|\.ts\b|\bat \S+:\d+|\[object|undefined|NaN|127\.0\.0\.1/

/** An answer, from fetch or from the wire. */
export type AnyAnswer = Response | RawResponse

/**
 * Asserts a refusal: the status and the type of its code, JSON with exactly the four keys, a request id, and `no-store`.
 * @returns the error, for further assertions
 */
export async function expectRefusal(answer: AnyAnswer, code: ErrorCode): Promise<ErrorEnvelope['error']> {
  const text = await answer.text()
  expect({ status: answer.status, text }).toMatchObject({ text: expect.stringContaining(`"code":"${code}"`) })
  expect(answer.status).toBe(ERRORS[code].status)
  expect(headerOf(answer, 'content-type')).toBe('application/json')
  expect(headerOf(answer, 'cache-control')).toBe('no-store')
  expect(headerOf(answer, 'content-length')).toBe(String(Buffer.byteLength(text)))
  expect(headerOf(answer, 'x-request-id')).toMatch(REQUEST_ID)
  const body = JSON.parse(text) as ErrorEnvelope
  expect(Object.keys(body)).toEqual(['error'])
  expect(Object.keys(body.error)).toEqual(['message', 'type', 'param', 'code'])
  expect(body.error.type).toBe(ERRORS[code].type)
  expect(body.error.message).toMatch(/^[A-Z].*[.?)}…\w]$/s)
  expect(body.error.message).not.toMatch(INSIDE)
  return body.error
}

/** A header of either kind of answer; undefined if it is missing. */
export function headerOf(answer: AnyAnswer, name: string): string | undefined {
  return 'header' in answer ? answer.header(name) : (answer.headers.get(name) ?? undefined)
}
