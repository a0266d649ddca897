/** Health records of targets, and the order of targets that they cause. The test sets the time. */
import { beforeEach, describe, expect, test } from 'vitest'
import type { ErrorCode, Target } from '#contract'
import { HealthTracker } from '../../src/providers/health.ts'

const target = (id: string, maxInflight = Number.POSITIVE_INFINITY): Target => ({
  id,
  provider: id,
  model: id,
  weight: 1,
  cost: null,
  capField: 'max_tokens',
  reasoningOutsideCap: 0,
  priority: 0,
  maxInflight,
})
const [a, b, c] = [target('a'), target('b'), target('c')]

let now: number
let healthTracker: HealthTracker
let ejected: [target: string, forMs: number][]

beforeEach(() => {
  now = 1000
  ejected = []
  healthTracker = new HealthTracker(
    () => now,
    (id, forMs) => ejected.push([id, forMs]),
  )
})

const order = (...targets: Target[]) =>
  healthTracker
    .arrange(targets)
    .map(({ id }) => id)
    .join('')
const fail = (of: Target, code: ErrorCode = 'upstream_error', retryAfterMs?: number) =>
  healthTracker.begin(of).bad({ code, detail: '', ...(retryAfterMs === undefined ? {} : { retryAfterMs }) })
const failTimes = (of: Target, times: number) => {
  for (let i = 0; i < times; i++) fail(of)
}

describe('a target that fails', () => {
  test('five times in a row comes after the others for 15 s', () => {
    failTimes(a, 4)
    expect(order(a, b)).toBe('ab')
    fail(a)
    expect(order(a, b, c)).toBe('bca')
    expect(ejected).toEqual([['a', 15_000]])
    now += 14_999
    expect(order(a, b)).toBe('ba')
    now += 1
    expect(order(a, b)).toBe('ab')
  })

  test('and is the only one is still used', () => {
    failTimes(a, 5)
    expect(order(a)).toBe('a')
    failTimes(b, 5)
    expect(order(a, b)).toBe('ab')
  })

  test('in half of ten attempts comes after the others too, unless the attempts are old', () => {
    for (let i = 0; i < 5; i++) {
      healthTracker.begin(a).good()
      fail(a)
    }
    expect(order(a, b)).toBe('ba')
    for (let i = 0; i < 5; i++) {
      healthTracker.begin(c).good()
      if (i < 4) fail(c)
    }
    now += 30_001
    fail(c)
    expect(order(c, b)).toBe('cb')
  })

  test('and is half-open gets one attempt, which decides: ejected for longer, or healthy', () => {
    failTimes(a, 5)
    now += 15_000
    const probe = healthTracker.begin(a)
    expect(order(a, b)).toBe('ba')
    probe.bad({ code: 'upstream_error', detail: '' })
    expect(ejected.at(-1)).toEqual(['a', 30_000])
    now += 29_999
    expect(order(a, b)).toBe('ba')
    now += 1
    const second = healthTracker.begin(a)
    expect(order(a, b)).toBe('ba')
    second.good()
    expect(order(a, b)).toBe('ab')
    failTimes(a, 5)
    expect(ejected.at(-1)).toEqual(['a', 15_000])
  })

  test('again and again is ejected for at most two minutes', () => {
    failTimes(a, 5)
    for (let i = 0; i < 6; i++) {
      now += 120_000
      fail(a)
    }
    expect(ejected.map(([, forMs]) => forMs)).toEqual([15, 30, 60, 120, 120, 120, 120].map(s => s * 1000))
  })

  test('an aborted probe decides nothing: the next attempt probes again', () => {
    failTimes(a, 5)
    now += 15_000
    healthTracker.begin(a).dropped()
    expect(order(a, b)).toBe('ab')
  })

  test('a probe ends with the start of its stream, even if the client disconnects or the rest fails', () => {
    failTimes(a, 5)
    now += 15_000
    const probe = healthTracker.begin(a)
    probe.begun(true)
    expect(healthTracker.look('a')).toMatchObject({ state: 'half_open' })
    probe.streams()
    expect(healthTracker.look('a')).toMatchObject({ state: 'well', inflight: 1 })
    expect(order(a, b)).toBe('ab')
    // The next attempt does not probe: its failure is one of five.
    fail(a)
    expect(order(a, b)).toBe('ab')
    probe.dropped()
    expect(healthTracker.look('a')).toMatchObject({ state: 'well', inflight: 0, failuresInARow: 1 })
    failTimes(a, 4)
    expect(ejected.at(-1)).toEqual(['a', 15_000])
    now += 15_000
    const broken = healthTracker.begin(a)
    broken.streams()
    broken.bad({ code: 'upstream_truncated', detail: '' })
    expect(healthTracker.look('a')).toMatchObject({ state: 'well', failuresInARow: 1 })
  })

  test('a probe whose request is refused ends the ejection', () => {
    failTimes(a, 5)
    now += 15_000
    fail(a, 'upstream_rejected')
    failTimes(a, 5)
    expect(ejected.at(-1)).toEqual(['a', 15_000])
  })

  test('attempts that started before the ejection do not end it', () => {
    const before = healthTracker.begin(a)
    failTimes(a, 5)
    before.good()
    expect(order(a, b)).toBe('ba')
  })

  test.each<ErrorCode>([
    'upstream_rejected',
    'context_length_exceeded',
    'content_filter',
    'request_too_large',
    'unsupported_parameter',
    'overloaded',
  ])('%s is a failure of the request or the gateway, not of the target', code => {
    for (let i = 0; i < 20; i++) fail(a, code)
    expect(order(a, b)).toBe('ab')
  })
})

describe('a rate-limited target', () => {
  test.each([
    ['for the time that it sends', 7000, 7000],
    ['for a second if it sends no time', undefined, 1000],
  ])('comes after the healthy ones %s', (_name, retryAfterMs, outMs) => {
    for (let i = 0; i < 20; i++) fail(a, 'upstream_rate_limited', retryAfterMs)
    expect(order(a, b)).toBe('ba')
    now += outMs
    expect(order(a, b)).toBe('ab')
    expect(ejected).toEqual([])
  })

  test('that was failing before comes after the healthy ones too', () => {
    failTimes(a, 5)
    now += 15_000
    fail(a, 'upstream_rate_limited', 60_000)
    expect(order(a, b)).toBe('ba')
    now += 60_000
    expect(order(a, b)).toBe('ab')
  })

  test('is healthy again after an answer to a later request, not to an earlier one', () => {
    const earlier = healthTracker.begin(a)
    now += 10
    fail(a, 'upstream_rate_limited', 60_000)
    earlier.good()
    expect(order(a, b)).toBe('ba')
    now += 10
    healthTracker.begin(a).good()
    expect(order(a, b)).toBe('ab')
  })

  test('comes before a failing one', () => {
    failTimes(a, 5)
    fail(b, 'upstream_rate_limited')
    expect(order(a, b, c)).toBe('cba')
  })
})

describe('attempts in progress', () => {
  test('a target with its maximum of attempts is omitted, even if it is the only one', () => {
    const narrow = target('n', 2)
    const one = healthTracker.begin(narrow)
    expect(order(narrow, a)).toBe('na')
    const two = healthTracker.begin(narrow)
    expect(order(narrow, a)).toBe('a')
    expect(order(narrow)).toBe('')
    one.good()
    // Ending an attempt twice has no effect.
    one.dropped()
    expect(order(narrow)).toBe('n')
    two.dropped()
    const three = healthTracker.begin(narrow)
    expect(order(narrow)).toBe('n')
    three.good()
  })

  test('are timed until their answers start, with more weight on recent ones', () => {
    expect(healthTracker.latencyMs('a', true)).toBeNull()
    const first = healthTracker.begin(a)
    now += 100
    first.begun(true)
    expect(healthTracker.latencyMs('a', true)).toBe(100)
    const second = healthTracker.begin(a)
    now += 200
    second.begun(true)
    expect(healthTracker.latencyMs('a', true)).toBeCloseTo(120)
  })

  test('streams and whole answers have separate times', () => {
    const whole = healthTracker.begin(a)
    now += 5000
    whole.begun(false)
    expect(healthTracker.latencyMs('a', true)).toBeNull()
    expect(healthTracker.latencyMs('a', false)).toBe(5000)
  })

  test('old times are measured again by one request', () => {
    const slow = healthTracker.begin(a)
    now += 5000
    slow.begun(true)
    slow.good()
    now += 59_999
    expect(healthTracker.latencyMs('a', true)).toBe(5000)
    now += 1
    expect(healthTracker.latencyMs('a', true)).toBeNull()
    const again = healthTracker.begin(a)
    expect(healthTracker.latencyMs('a', true)).toBe(5000)
    now += 40
    again.begun(true)
    expect(healthTracker.latencyMs('a', true)).toBe(40)
  })
})

describe('a target that is in no configuration', () => {
  test('is removed with the last configuration that had it', () => {
    healthTracker.keep([a, b])
    healthTracker.keep([a])
    failTimes(a, 5)
    failTimes(b, 5)
    healthTracker.release([a, b])
    expect(healthTracker.look('a')).toMatchObject({ state: 'ejected' })
    expect(healthTracker.look('b')).toBeUndefined()
    healthTracker.release([a])
    expect(healthTracker.look('a')).toBeUndefined()
  })
})

describe('the report for operators', () => {
  test('has no data for an unused target', () => {
    expect(healthTracker.look('a')).toBeUndefined()
  })

  test('has the state, spans, failures of the last half minute, and recent latency', () => {
    const trackedAttempt = healthTracker.begin(a)
    now += 40
    trackedAttempt.begun(true)
    expect(healthTracker.look('a')).toEqual({
      state: 'well',
      forMs: 0,
      inflight: 1,
      failuresInARow: 0,
      ejections: 0,
      attempts: 0,
      failed: 0,
      latencyMs: 40,
    })
    trackedAttempt.good()
    fail(a)
    expect(healthTracker.look('a')).toMatchObject({ inflight: 0, failuresInARow: 1, attempts: 2, failed: 1 })
    now += 30_001
    expect(healthTracker.look('a')).toMatchObject({ attempts: 0, failed: 0, latencyMs: 40 })
    now += 30_000
    expect(healthTracker.look('a')).toMatchObject({ latencyMs: null })
    fail(a, 'upstream_rate_limited', 2500)
    expect(healthTracker.look('a')).toMatchObject({ state: 'limited', forMs: 2500 })
    failTimes(b, 5)
    now += 5000
    expect(healthTracker.look('b')).toMatchObject({ state: 'ejected', forMs: 10_000 })
    now += 10_000
    expect(healthTracker.look('b')).toMatchObject({ state: 'half_open', forMs: 0, ejections: 1 })
    // The probe fails too; the next attempt succeeds.
    fail(b)
    expect(healthTracker.look('b')).toMatchObject({ state: 'ejected', ejections: 2 })
    now += 30_000
    healthTracker.begin(b).good()
    expect(healthTracker.look('b')).toMatchObject({ state: 'well', ejections: 2 })
  })
})
