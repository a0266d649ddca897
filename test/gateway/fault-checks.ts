/** What must be true of an answer when something was wrong with the provider. */
import OpenAI from 'openai'
import { expect } from 'vitest'
import type { ErrorCode, Receipt } from '#contract'
import type { FaultMode } from '../helpers/fake-provider.ts'
import { chunksOf, contentOf, parseSse } from '../helpers/sse.ts'
import { CAP, type Expected, STATUS } from './fault-table.ts'

/** The key of the providers. */
export const CANARY = 'sk-provider-canary-0123456789abcdef'
/** What a provider may say and a client must never see. */
const LEAKS =
  /canary|hunter2|provider\.in|10\.0\.0\.7|127\.0\.0\.1|localhost|upstream-model|nginx|overheated|node:|\.js:|\.ts:|\bat [A-Z]/

/** What came of one request. */
export interface Seen {
  readonly ms: number
  readonly status: number
  readonly headers: Headers
  /** The body as it came; `cut` when it ended otherwise than its last event says. */
  readonly text: string
  readonly cut: string | null
  readonly promptMost: number
  /** What the SDK made of it. */
  readonly sdk: { readonly raised: unknown } | { readonly content: string; readonly finish: string | null }
  readonly receipt: Receipt | undefined
  /** How the provider saw it end, and how often it was asked. */
  readonly how: string | null
  readonly asked: number
}

/** An error before the first byte: status, envelope, headers, nothing of the provider, and no charge. */
export function checkError(
  { status, headers, text, sdk, receipt }: Seen,
  { code, retry }: Extract<Expected, { end: 'error' }>,
): void {
  expect(status).toBe(STATUS[code])
  expect(headers.get('content-type')).toBe('application/json')
  checkEnvelope(JSON.parse(text), code)
  expect([...headers].join('\n') + text).not.toMatch(LEAKS)
  if (retry) expect([headers.get('retry-after'), headers.get('x-should-retry')]).toEqual([retry.after, retry.should])
  expect(sdk).toMatchObject({ raised: { status, code, requestID: headers.get('x-request-id') } })
  expect(receipt).toMatchObject({ charged: 0n, outcome: 'failed', code })
}

/** One error event and nothing behind it: no finish reason, no `[DONE]`. */
export function checkEvent({ status, text, sdk, receipt }: Seen, code: ErrorCode, tokens: number | null): void {
  expect(status).toBe(200)
  const stream = parseSse(text)
  expect(stream).toMatchObject({ done: false, rest: '' })
  const last = stream.events.at(-1)!
  checkEnvelope(JSON.parse(last.data), code)
  expect(last.data).not.toMatch(LEAKS)
  const before = chunksOf(stream).slice(0, -1)
  expect(before.filter(chunk => chunk.error)).toEqual([])
  const choices = before.flatMap(chunk => chunk.choices)
  expect(choices.filter(choice => choice.finish_reason)).toEqual([])
  const delivered = choices.filter(choice => choice.delta.content).length
  if (tokens !== null) expect(delivered).toBe(tokens)
  expect(sdk).toMatchObject({ raised: { status: undefined, code } })
  expect((sdk as { raised: unknown }).raised).toBeInstanceOf(OpenAI.APIError)
  expect(receipt).toMatchObject({ charged: BigInt(6_000 + Math.min(delivered, CAP) * 2_000), outcome: 'failed', code })
}

/** A complete answer, as it was sent and as it was charged. */
export function checkAnswer(
  { status, text, sdk, receipt, promptMost }: Seen,
  { nano, content }: Extract<Expected, { end: 'answer' }>,
  mode: FaultMode,
): void {
  expect(status).toBe(200)
  expect(receipt).toMatchObject({ charged: BigInt(nano(promptMost)), outcome: 'answered' })
  if ('raised' in sdk) throw new Error('the SDK raised', { cause: sdk.raised })
  expect(sdk.finish).toMatch(/^(stop|length|tool_calls)$/)
  if (content !== null) expect(sdk.content).toBe(content)
  if (mode === 'whole') return
  const stream = parseSse(text)
  expect(stream).toMatchObject({ done: true, rest: '' })
  expect(chunksOf(stream).filter(chunk => chunk.error)).toEqual([])
  if (content !== null) expect(contentOf(stream)).toBe(content)
}

/** Asked once, and rid of at once: a connection on which something broke off is not used again. */
export function checkProvider({ how, asked }: Seen, sameConnection: boolean | undefined): void {
  expect(asked).toBe(1)
  expect(how).not.toBe(null)
  if (how !== 'answered') expect(sameConnection).toBe(false)
}

/** All four keys, and no others. */
export function checkEnvelope(body: object, code: ErrorCode): void {
  expect(body).toEqual({ error: { message: expect.any(String), type: expect.any(String), param: null, code } })
}
