/** What is known of each target, and the order that follows from it; time is passed in. */
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
  test('five times in a row is put behind the others, for 15 s', () => {
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

  test('and is the only one is asked all the same', () => {
    failTimes(a, 5)
    expect(order(a)).toBe('a')
    failTimes(b, 5)
    expect(order(a, b)).toBe('ab')
  })

  test('half of ten times is put behind the others too, but not when it was long ago', () => {
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

  test('as half-open gets one attempt, which decides: longer out, or well again', () => {
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

  test('again and again is out for two minutes at most', () => {
    failTimes(a, 5)
    for (let i = 0; i < 6; i++) {
      now += 120_000
      fail(a)
    }
    expect(ejected.map(([, forMs]) => forMs)).toEqual([15, 30, 60, 120, 120, 120, 120].map(s => s * 1000))
  })

  test('a probe that we gave up says nothing: the next one may try', () => {
    failTimes(a, 5)
    now += 15_000
    healthTracker.begin(a).dropped()
    expect(order(a, b)).toBe('ab')
  })

  test('a probe whose stream has begun well is over: its client may leave, or the rest may fail', () => {
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

  test('a probe whose request is refused has found it alive', () => {
    failTimes(a, 5)
    now += 15_000
    fail(a, 'upstream_rejected')
    failTimes(a, 5)
    expect(ejected.at(-1)).toEqual(['a', 15_000])
  })

  test('attempts that were begun before the ejection do not end it', () => {
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
  ])("%s is the request's failure, or ours, not the target's", code => {
    for (let i = 0; i < 20; i++) fail(a, code)
    expect(order(a, b)).toBe('ab')
  })
})

describe('a limited target', () => {
  test.each([
    ['for as long as it says', 7000, 7000],
    ['for a second when it does not say', undefined, 1000],
  ])('is behind the well ones %s', (_name, retryAfterMs, outMs) => {
    for (let i = 0; i < 20; i++) fail(a, 'upstream_rate_limited', retryAfterMs)
    expect(order(a, b)).toBe('ba')
    now += outMs
    expect(order(a, b)).toBe('ab')
    expect(ejected).toEqual([])
  })

  test('that was sick before is behind too: to ask it would be in vain', () => {
    failTimes(a, 5)
    now += 15_000
    fail(a, 'upstream_rate_limited', 60_000)
    expect(order(a, b)).toBe('ba')
    now += 60_000
    expect(order(a, b)).toBe('ab')
  })

  test('is well again with an answer to a later request, not to an earlier one', () => {
    const earlier = healthTracker.begin(a)
    now += 10
    fail(a, 'upstream_rate_limited', 60_000)
    earlier.good()
    expect(order(a, b)).toBe('ba')
    now += 10
    healthTracker.begin(a).good()
    expect(order(a, b)).toBe('ab')
  })

  test('is before a sick one', () => {
    failTimes(a, 5)
    fail(b, 'upstream_rate_limited')
    expect(order(a, b, c)).toBe('cba')
  })
})

describe('attempts under way', () => {
  test('as many as a target takes: it is left out, also as the only one', () => {
    const narrow = target('n', 2)
    const one = healthTracker.begin(narrow)
    expect(order(narrow, a)).toBe('na')
    const two = healthTracker.begin(narrow)
    expect(order(narrow, a)).toBe('a')
    expect(order(narrow)).toBe('')
    one.good()
    // A second end counts for nothing.
    one.dropped()
    expect(order(narrow)).toBe('n')
    two.dropped()
    const three = healthTracker.begin(narrow)
    expect(order(narrow)).toBe('n')
    three.good()
  })

  test('are timed to the begin of their answers, the last ones most', () => {
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

  test('streams and whole answers have times of their own', () => {
    const whole = healthTracker.begin(a)
    now += 5000
    whole.begun(false)
    expect(healthTracker.latencyMs('a', true)).toBeNull()
    expect(healthTracker.latencyMs('a', false)).toBe(5000)
  })

  test('that are old are learned anew, by one request', () => {
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

describe('a target that no configuration has any more', () => {
  test('is forgotten with the last one that had it', () => {
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

describe('what operators see', () => {
  test('of a target that was never asked: nothing', () => {
    expect(healthTracker.look('a')).toBeUndefined()
  })

  test('state, spans, failures of the last half minute, latency while it is fresh', () => {
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
    // The one that tries it fails too; then one is good.
    fail(b)
    expect(healthTracker.look('b')).toMatchObject({ state: 'ejected', ejections: 2 })
    now += 30_000
    healthTracker.begin(b).good()
    expect(healthTracker.look('b')).toMatchObject({ state: 'well', ejections: 2 })
  })
})
