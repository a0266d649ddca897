/** The conditions for a cell of the matrix, and for the ledger after some cells. */
import { expect } from 'vitest'
import { ERRORS, type ErrorCode } from '#contract'
import { expectWithin } from '../helpers/promised.ts'
import { chunksOf, contentOf, parseSse } from '../helpers/sse.ts'
import { CAP } from './fault-table.ts'
import { type BatchResult, CANARY, type Cell, type CellResult, isLate } from './matrix-run.ts'
import { chargeBrokenOff, fallsBack, type MatrixResult, STATUSES } from './matrix-table.ts'

/** Texts of a provider that a client must never see. */
const LEAKS =
  /canary|hunter2|provider\.in|10\.0\.0\.7|127\.0\.0\.1|localhost|upstream-model|amazon|nginx|overheated|node:|\.js:|\.ts:|\bat [A-Z]/

type Answer = Extract<MatrixResult, { end: 'answer' }>

/** The second target's answer: one token, and 10 of the prompt. */
const FINE: Answer = { end: 'answer', nano: () => 12_000, content: 'fine' }

export function checkCell(cell: Cell, seen: CellResult): void {
  const { expected, spare } = cell
  if (!expected) throw new Error(`no row of the table is called "${cell.title}"`)
  expect(seen.cut, 'the body ends as its last event says').toBe(null)
  expect(seen.headers.get('x-request-id')).toMatch(/^req_/)
  const isSpared = spare !== null && fallsBack(expected)
  if (isSpared) checkSpared(cell, seen)
  else if (expected.end === 'error') checkError(seen, expected)
  else if (expected.end === 'event') checkEvent(cell, seen, expected)
  else checkAnswer(cell, seen, expected)
  // The deadline of a second must apply, not that of a minute for the whole answer.
  if (isLate(cell)) expectWithin(seen.ms, 1_000)
  checkAttempts(cell, seen, isSpared)
  checkNext(seen)
}

/** The second target's answer and charge: the first attempt adds nothing. */
function checkSpared(cell: Cell, seen: CellResult) {
  checkAnswer(cell, seen, FINE)
  expect(seen.receipt).toMatchObject({ source: 'reported', usage: { input: 10, output: 1 } })
}

/** Each target was called at most once, and the receipt shows it. */
function checkAttempts(
  { fault, expected, voice }: Cell,
  { asked, spareAsked, how, receipt, keyShown }: CellResult,
  isSpared: boolean,
) {
  expect([asked, spareAsked]).toEqual([fault.make ? 1 : 0, isSpared ? 1 : 0])
  if (fault.make) expect(how, 'the provider has seen the end').not.toBe(null)
  if (fault.make) expect(keyShown).toBe(true)
  expect(receipt?.attempts).toHaveLength(isSpared ? 2 : 1)
  const [first, second] = receipt!.attempts
  const code = expected?.end === 'answer' ? null : expected?.code
  expect(first?.code, voice.dialect).toBe(code)
  if (isSpared) {
    expect(second).toMatchObject({ status: 200, code: null })
    expect(second?.target).not.toBe(first?.target)
  }
}

/** After a failure the provider answers the next request. A connection on which an answer broke off is not reused. */
function checkNext({ next, how, isSameConnection }: CellResult) {
  if (next === null) return
  expect(next).toBe('again')
  if (how !== 'answered') expect(isSameConnection).toBe(false)
}

/** An error before the first byte: its status, envelope and headers. It has no text of the provider, and no charge. */
function checkError(
  { status, headers, text, client, receipt }: CellResult,
  expected: Extract<MatrixResult, { end: 'error' }>,
) {
  const { code } = expected
  expect(status).toBe(STATUSES[code])
  expect(headers.get('content-type')).toBe('application/json')
  checkEnvelope(JSON.parse(text), code)
  expect([...headers].join('\n') + text).not.toMatch(LEAKS)
  checkRetryHeaders(headers, code, expected.retry)
  expect(client).toMatchObject({ raised: { status, code, requestID: headers.get('x-request-id') } })
  expect(receipt).toMatchObject({ charged: 0n, outcome: 'failed', code, source: 'released' })
}

/** Statuses that the official libraries never retry; some other clients do. */
const NEVER_RETRIED = [401, 402, 403, 404]

/** A client library must not retry a permanent failure, and must wait if there is a limit. */
function checkRetryHeaders(headers: Headers, code: ErrorCode, said?: { after: string | null; should: string | null }) {
  const { status, retryable } = ERRORS[code]
  const wait = headers.get('retry-after')
  if (said) expect([wait, headers.get('x-should-retry')]).toEqual([said.after, said.should])
  else
    expect(headers.get('x-should-retry')).toBe(
      (status >= 429 || NEVER_RETRIED.includes(status)) && !retryable ? 'false' : null,
    )
  if (status === 429) expect(Number(wait)).toBeGreaterThan(0)
  if (wait !== null) expect(Number(wait)).toBeLessThanOrEqual(600)
}

/** One error event and nothing after it: no finish reason, no `[DONE]`. */
function checkEvent(
  { voice }: Cell,
  { status, text, client, receipt }: CellResult,
  { code, tokens, isCounted }: Extract<MatrixResult, { end: 'event' }>,
) {
  expect(status).toBe(200)
  const stream = parseSse(text)
  expect(stream).toMatchObject({ done: false, rest: '' })
  const last = stream.events.at(-1)!
  checkErrorEvent(last.data, code)
  expect(text).not.toMatch(LEAKS)
  const before = chunksOf(stream).slice(0, -1)
  expect(before.filter(chunk => chunk.error)).toEqual([])
  const choices = before.flatMap(chunk => chunk.choices)
  expect(choices.filter(choice => choice.finish_reason)).toEqual([])
  const delivered = choices.filter(choice => choice.delta.content).length
  if (tokens !== null) expect(delivered).toBe(tokens)
  expect(client).toMatchObject({ raised: { status: undefined, code } })
  expect(receipt).toMatchObject({
    charged: chargeBrokenOff(voice, Math.min(delivered, CAP), isCounted),
    outcome: 'failed',
    code,
  })
}

/** A complete answer, as sent and as charged. */
function checkAnswer(
  { mode }: Cell,
  { status, text, client, receipt, promptMost }: CellResult,
  { nano, content }: Answer,
) {
  expect(status).toBe(200)
  expect(receipt).toMatchObject({ charged: BigInt(nano(promptMost)), outcome: 'answered', code: null })
  expect(text).not.toMatch(LEAKS)
  if ('raised' in client) throw new Error('the client raised', { cause: client.raised })
  expect(client.finish).toMatch(/^(stop|length|tool_calls)$/)
  if (content !== null) expect(client.content).toBe(content)
  if (mode === 'whole') return
  const stream = parseSse(text)
  expect(stream).toMatchObject({ done: true, rest: '' })
  expect(chunksOf(stream).filter(chunk => chunk.error)).toEqual([])
  if (content !== null) expect(contentOf(stream)).toBe(content)
}

/** One hold and one settle per request; nothing held, negative or open, and nothing in the log. */
export function checkBooks({ cells, requests, credit, balance, verify, log, exitCode }: BatchResult): void {
  const charged = [...cells.values()].reduce(
    // The next answer has a token, and 10 of the prompt.
    (sum, { receipt, next }) => sum + (receipt?.charged ?? 0n) + (next === null ? 0n : 12_000n),
    0n,
  )
  expect(balance).toMatchObject({ held: 0n, posted: credit - charged })
  expect(balance.posted).toBeGreaterThanOrEqual(0n)
  // The credit itself is an event too; each exchange has a hold and a settle, and the journal accepts neither twice.
  expect(verify).toMatchObject({ events: 1 + 2 * requests, openHolds: 0, violations: [] })
  expect(log).not.toContain(CANARY)
  expect(exitCode).toBe(0)
}

/** The last event of a failed stream: the message is in `created` too, where typed clients fail on it. */
export function checkErrorEvent(data: string, code: ErrorCode): void {
  const { created, ...body } = JSON.parse(data) as {
    readonly created: unknown
    readonly error: { readonly message: string }
  }
  checkEnvelope(body, code)
  expect(created).toBe(body.error.message)
}

/** All four keys, and no others. */
function checkEnvelope(body: object, code: ErrorCode): void {
  expect(body).toEqual({ error: { message: expect.any(String), type: expect.any(String), param: null, code } })
}
