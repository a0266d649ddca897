import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ErrorCode, MeteredUsage, Outcome, RouteKind } from '#contract'
import { ExchangeLines } from '../../src/observe/exchange-line.ts'
import { createRedactor, REDACTED } from '../../src/observe/redact.ts'
import type { ExchangeSummary } from '../../src/observe/summary.ts'
import { summary } from './summary.ts'

const TIME = ',"time":"2026-01-02T03:04:05.678Z"'

const USAGE: MeteredUsage = {
  input: 10,
  cached_input: 5,
  output: 7,
  search: 2,
  source: 'reported',
}

function lineOf(given: Partial<ExchangeSummary>, lines = new ExchangeLines(createRedactor([]).text)) {
  const line = lines.line(summary(given), TIME)
  expect(line.endsWith('\n') && line.indexOf('\n') === line.length - 1).toBe(true)
  return JSON.parse(line) as Record<string, unknown>
}

describe('the log line of an exchange', () => {
  const SECRET = 'canary-secret-0001'
  it.each(['route', 'policy', 'method', 'model', 'target', 'accountId', 'keyId', 'decidedBy', 'address'] as const)(
    'has no secrets in %s, including secrets that are added later, and no characters that break the line',
    name => {
      const redactor = createRedactor([])
      const lines = new ExchangeLines(redactor.text)
      const lineWith = (value: string) => JSON.stringify(lineOf({ [name]: value }, lines))
      expect(lineWith(`a Bearer ${SECRET} b`)).toContain(REDACTED)
      expect(lineWith('sk-0123456789')).not.toContain('0123456789')
      expect(lineWith(`x${SECRET}`)).toContain(SECRET)
      redactor.learn([SECRET])
      lines.forget()
      expect(lineWith(`x${SECRET}`)).not.toContain(SECRET)
      for (const odd of ['a"\n{}', '\u202ea', '\u2028', '\ud800', '\u0000']) {
        const line = lines.line(summary({ [name]: odd }), TIME)
        expect(line.slice(0, -1)).not.toMatch(/[\n\u202e\u0000]/)
        expect(line.isWellFormed()).toBe(true)
        JSON.parse(line)
      }
    },
  )

  it('contains the tags, without secrets', () => {
    expect(lineOf({ tags: { team: 'a"b', user: `Bearer ${SECRET}` } })).toMatchObject({
      tags: { team: 'a"b', user: `Bearer ${REDACTED}` },
    })
    for (const tags of [null, {}]) expect(lineOf({ tags })).not.toHaveProperty('tags')
  })

  it.each([Number.POSITIVE_INFINITY, Number.NaN])('is valid JSON if a provider reported %d tokens', count => {
    const usage = { ...USAGE, input: count, output: count }
    expect(lineOf({ usage, ms: count, firstChunkMs: count })).toMatchObject({ prompt_tokens: null, ms: null })
  })

  it('can contain any number of texts', () => {
    const lines = new ExchangeLines(text => text)
    for (let index = 0; index < 10_000; index++) {
      expect(lineOf({ address: `a${index}` }, lines)['address']).toBe(`a${index}`)
    }
  })

  it('does not depend on the lines written before it', () => {
    const some = <Value>(...values: readonly Value[]) => fc.constantFrom<Value | null>(null, ...values)
    const exchanges = fc.record({
      route: fc.constantFrom('/a', '/b'),
      kind: fc.constantFrom<RouteKind>('chat', 'raw'),
      traceId: some('ab'.repeat(16), 'cd'.repeat(16)),
      policy: fc.constantFrom('a', 'b'),
      method: fc.constantFrom('GET', 'POST'),
      model: some('a', 'b'),
      target: some('a', 'b'),
      accountId: some('a', 'b'),
      keyId: some('a', 'b'),
      status: some(200, 429),
      outcome: some<Outcome>('answered', 'refused'),
      code: some<ErrorCode>('forbidden', 'account_frozen'),
      decidedBy: some('a', 'b'),
      stream: some(true, false),
    })
    const lines = new ExchangeLines(text => text)
    fc.assert(
      fc.property(exchanges, given => {
        expect(lineOf(given, lines)).toEqual(lineOf(given))
        const { id, policy, model, decided_by: decidedBy, trace_id: traceId, status } = lineOf(given, lines)
        expect({ id, policy, model, decidedBy, traceId, status }).toEqual({
          id: 'req_1',
          policy: given.policy,
          model: given.model ?? undefined,
          decidedBy: given.decidedBy ?? undefined,
          traceId: given.traceId ?? undefined,
          status: given.status ?? undefined,
        })
      }),
    )
  })

  it('omits unknown fields, and keeps zeros and false', () => {
    const line = lineOf({ status: null, outcome: 'client_left', stream: false, ms: 0 })
    expect(line).toEqual({
      level: 'info',
      time: '2026-01-02T03:04:05.678Z',
      id: 'req_1',
      route: '/v1/chat/completions',
      kind: 'chat',
      policy: 'standard',
      method: 'POST',
      outcome: 'client_left',
      stream: false,
      ms: 0,
      attempts: 0,
      address: '203.0.113.7',
      bytes_in: 0,
      msg: 'exchange',
    })
  })

  it('contains every field of a complete exchange, in a fixed order', () => {
    const attempt = { target: 'openai/some-mini', status: 200, code: null, ms: 5 }
    const line = lineOf({
      bytesIn: 321,
      model: 'chat-small',
      target: 'openai/some-mini',
      accountId: 'acc_1',
      account: 'never a name',
      keyId: 'key_1',
      key: 'never a name',
      code: 'upstream_error',
      decidedBy: 'send',
      stream: true,
      ms: 1234.5678,
      firstChunkMs: 98.7654,
      usage: USAGE,
      charge: { amount: 1_500_000n, overrun: 0n },
      attempts: [attempt, attempt],
    })
    expect(Object.entries(line)).toEqual([
      ['level', 'info'],
      ['time', '2026-01-02T03:04:05.678Z'],
      ['id', 'req_1'],
      ['route', '/v1/chat/completions'],
      ['kind', 'chat'],
      ['policy', 'standard'],
      ['method', 'POST'],
      ['model', 'chat-small'],
      ['target', 'openai/some-mini'],
      ['account', 'acc_1'],
      ['key', 'key_1'],
      ['status', 200],
      ['outcome', 'answered'],
      ['code', 'upstream_error'],
      ['decided_by', 'send'],
      ['stream', true],
      ['ms', 1234.6],
      ['first_chunk_ms', 98.8],
      ['prompt_tokens', 10],
      ['completion_tokens', 7],
      ['searches', 2],
      ['usage_source', 'reported'],
      ['charged', '0.001500000'],
      ['attempts', 2],
      ['address', '203.0.113.7'],
      ['bytes_in', 321],
      ['msg', 'exchange'],
    ])
  })
})
