import { describe, expect, test } from 'vitest'
import { hexOf, parentIn, Trace } from '../../../src/observe/telemetry/trace-context.ts'
import { seeded } from '../../helpers/seeded.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'
const GOOD = `00-${TRACE}-${SPAN}-01`

describe('an invalid traceparent is ignored', () => {
  const rows: readonly [name: string, header: string | undefined][] = [
    ['none', undefined],
    ['an empty header', ''],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
    ['a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['capitals', GOOD.toUpperCase()],
    ['a trace that is too short', `00-${TRACE.slice(1)}-${SPAN}-01`],
    ['a span that is too long', `00-${TRACE}-${SPAN}0-01`],
    ['flags of one digit', `00-${TRACE}-${SPAN}-1`],
    ['no flags', `00-${TRACE}-${SPAN}`],
    ['the version that is forbidden', `ff-${TRACE}-${SPAN}-01`],
    ['more fields than version 00 has', `${GOOD}-more`],
    ['a later version with more, and no dash before it', `01-${TRACE}-${SPAN}-01more`],
    ['another alphabet', `00-${TRACE.replace('a', 'g')}-${SPAN}-01`],
    ['a leading blank', ` ${GOOD}`],
    ['two values', `${GOOD}, ${GOOD}`],
  ]
  test.each(rows)('%s', (_, header) => {
    const headers = { tracestate: 'vendor=1', ...(header === undefined ? {} : { traceparent: header }) }
    expect(parentIn(headers)).toBeNull()
    const trace = new Trace(parentIn(headers), 1, seeded(1))
    expect(trace.parentId).toBeNull()
    expect(trace.state, 'it belongs to the ignored trace').toBeNull()
    expect(trace.id).toMatch(/^[\da-f]{32}$/)
    expect(trace.id).not.toBe(TRACE)
  })
})

describe('an invalid tracestate is dropped, and the trace stays', () => {
  const member = (index: number) => `k${index}=v`
  const rows: readonly [name: string, header: string | string[]][] = [
    ['an empty header', ''],
    ['a member without a value', 'vendor'],
    ['a member with an empty value', 'vendor='],
    ['a capital in a key', 'Vendor=1'],
    ['a digit before a plain key', '1vendor=1'],
    ['an equals sign in a value', 'vendor=a=b'],
    ['a control character', 'vendor=a\u0007'],
    ['a character beyond ASCII', 'vendor=é'],
    ['a key twice', 'vendor=1,other=2,vendor=3'],
    ['too many members', Array.from({ length: 33 }, (_, index) => member(index)).join(',')],
    ['too many characters', `vendor=${'x'.repeat(250)},other=${'y'.repeat(250)},third=1`],
    ['two headers, one of them invalid', ['vendor=1', 'other']],
  ]
  test.each(rows)('%s', (_, tracestate) => {
    expect(parentIn({ traceparent: GOOD, tracestate: tracestate as string })).toEqual({
      traceId: TRACE,
      spanId: SPAN,
      flags: 1,
      state: null,
    })
  })
})

describe('valid headers of a client are read', () => {
  const rows: readonly [
    name: string,
    traceparent: string,
    tracestate: string | string[],
    flags: number,
    state: string,
  ][] = [
    ['sampled', GOOD, 'vendor=1', 1, 'vendor=1'],
    ['not sampled', `00-${TRACE}-${SPAN}-00`, 'vendor=1', 0, 'vendor=1'],
    ['a later version', `cc-${TRACE}-${SPAN}-01`, 'vendor=1', 1, 'vendor=1'],
    ['a later version with more', `cc-${TRACE}-${SPAN}-01-what the future brings`, 'a=b', 1, 'a=b'],
    ['several members with blanks', GOOD, 'vendor=1 , 9tenant@sys=a b ,,c*/d=~', 1, 'vendor=1,9tenant@sys=a b,c*/d=~'],
    ['several headers', GOOD, ['vendor=1', 'other=2'], 1, 'vendor=1,other=2'],
  ]
  test.each(rows)('%s', (_, traceparent, tracestate, flags, state) => {
    const parent = parentIn({ traceparent, tracestate: tracestate as string })
    expect(parent).toEqual({ traceId: TRACE, spanId: SPAN, flags, state })
  })
})

describe('headers sent to a provider', () => {
  const propagated = (trace: Trace) => {
    const headers: Record<string, string> = { via: 'x' }
    const attempt = trace.begin('p/m', 0)
    trace.propagate(headers, attempt)
    return { ...headers, spanId: attempt.spanId }
  }

  test('a sampled trace continues under the span of the attempt, one span per attempt', () => {
    const trace = new Trace(parentIn({ traceparent: GOOD, tracestate: 'vendor=1' }), 0, seeded(2))
    const [first, second] = [propagated(trace), propagated(trace)]
    expect(first.spanId).toMatch(/^[\da-f]{16}$/)
    expect(new Set([SPAN, trace.spanId, first.spanId, second.spanId]).size).toBe(4)
    expect(first).toMatchObject({ traceparent: `00-${TRACE}-${first.spanId}-01`, tracestate: 'vendor=1', via: 'x' })
    expect(second).toMatchObject({ traceparent: `00-${TRACE}-${second.spanId}-01` })
  })

  test('a trace that the client did not sample is not sampled, and its span stays the parent', () => {
    const trace = new Trace(parentIn({ traceparent: `00-${TRACE}-${SPAN}-00` }), 1, seeded(3))
    expect(trace.isSampled).toBe(false)
    expect(propagated(trace)).toEqual({ via: 'x', spanId: '', traceparent: `00-${TRACE}-${SPAN}-00` })
  })

  test('an unsampled trace that begins here is sent as such, so that the provider does not sample it', () => {
    const trace = new Trace(null, 0, seeded(4))
    expect(propagated(trace)).toEqual({ via: 'x', spanId: '', traceparent: `00-${trace.id}-${trace.spanId}-00` })
  })

  test('unknown flags are not passed on; the random-id flag is', () => {
    expect(propagated(new Trace(parentIn({ traceparent: `00-${TRACE}-${SPAN}-fe` }), 1, seeded(5)))).toMatchObject({
      traceparent: `00-${TRACE}-${SPAN}-02`,
    })
  })
})

describe('sampling', () => {
  test.each([
    [0, 0, 0],
    [0.01, 70, 130],
    [0.5, 4800, 5200],
    [1, 10_000, 10_000],
  ])('of 10,000 traces that begin here, a ratio of %d records between %d and %d', (ratio, least, most) => {
    const random = seeded(6)
    let sampled = 0
    for (let index = 0; index < 10_000; index++) if (new Trace(null, ratio, random).isSampled) sampled++
    expect(sampled).toBeGreaterThanOrEqual(least)
    expect(sampled).toBeLessThanOrEqual(most)
  })

  test('a smaller ratio records a subset of a larger one', () => {
    for (let seed = 0; seed < 2000; seed++) {
      const [few, many] = [new Trace(null, 0.1, seeded(seed)), new Trace(null, 0.4, seeded(seed))]
      expect(few.id).toBe(many.id)
      if (few.isSampled) expect(many.isSampled).toBe(true)
    }
  })

  test('an id is never all zeros', () => {
    expect(hexOf(4, () => 0)).toBe(`${'0'.repeat(31)}1`)
    expect(hexOf(2, () => 1 - 2 ** -53)).toBe('f'.repeat(16))
  })
})
