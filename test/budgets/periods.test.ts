/** Periods in time zones: changes of clocks, ends of months, weeks. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { EVERY } from '#contract'
import { periodAt, showTime } from '../../src/budgets/periods.ts'

const at = (text: string) => Date.parse(text)

describe.each<[every: (typeof EVERY)[number], zone: string, time: string, start: string, end: string]>([
  ['hour', 'UTC', '2026-01-15T12:34:56Z', '2026-01-15T12:00:00Z', '2026-01-15T13:00:00Z'],
  ['hour', 'Asia/Kolkata', '2026-01-15T12:29:59Z', '2026-01-15T11:30:00Z', '2026-01-15T12:30:00Z'],
  ['hour', 'Europe/Berlin', '2026-10-25T00:30:00Z', '2026-10-25T00:00:00Z', '2026-10-25T01:00:00Z'],
  ['hour', 'Europe/Berlin', '2026-10-25T01:30:00Z', '2026-10-25T01:00:00Z', '2026-10-25T02:00:00Z'],
  ['hour', 'Australia/Lord_Howe', '2026-04-04T15:20:00Z', '2026-04-04T15:00:00Z', '2026-04-04T15:30:00Z'],
  ['hour', 'Australia/Lord_Howe', '2026-10-03T15:40:00Z', '2026-10-03T15:30:00Z', '2026-10-03T16:00:00Z'],
  ['day', 'UTC', '2026-01-15T23:59:59.999Z', '2026-01-15T00:00:00Z', '2026-01-16T00:00:00Z'],
  ['day', 'Europe/Berlin', '2026-03-29T12:00:00Z', '2026-03-28T23:00:00Z', '2026-03-29T22:00:00Z'],
  ['day', 'Europe/Berlin', '2026-10-25T12:00:00Z', '2026-10-24T22:00:00Z', '2026-10-25T23:00:00Z'],
  ['day', 'Africa/Cairo', '2026-04-24T12:00:00Z', '2026-04-23T22:00:00Z', '2026-04-24T21:00:00Z'],
  ['day', 'Pacific/Apia', '2026-06-01T12:00:00Z', '2026-06-01T11:00:00Z', '2026-06-02T11:00:00Z'],
  ['week', 'UTC', '2026-11-29T23:59:59Z', '2026-11-23T00:00:00Z', '2026-11-30T00:00:00Z'],
  ['week', 'America/New_York', '2026-11-02T04:59:59Z', '2026-10-26T04:00:00Z', '2026-11-02T05:00:00Z'],
  ['month', 'UTC', '2024-02-29T12:00:00Z', '2024-02-01T00:00:00Z', '2024-03-01T00:00:00Z'],
  ['month', 'Europe/Berlin', '2026-03-31T21:59:59Z', '2026-02-28T23:00:00Z', '2026-03-31T22:00:00Z'],
  ['month', 'Europe/Berlin', '2026-12-31T23:00:00Z', '2026-12-31T23:00:00Z', '2027-01-31T23:00:00Z'],
  ['month', 'America/Los_Angeles', '2026-01-01T07:59:59Z', '2025-12-01T08:00:00Z', '2026-01-01T08:00:00Z'],
])('the %s in %s at %s', (every, zone, time, start, end) => {
  test(`is from ${start} to ${end}`, () => {
    const period = { start: at(start), end: at(end) }
    expect(periodAt(every, zone, at(time))).toEqual(period)
    // Its first and its last moment, and those beside.
    expect(periodAt(every, zone, period.start)).toEqual(period)
    expect(periodAt(every, zone, period.end - 1)).toEqual(period)
    expect(periodAt(every, zone, period.end).start).toBe(period.end)
    expect(periodAt(every, zone, period.start - 1).end).toBe(period.start)
  })
})

test('a period for life has no end', () => {
  expect(periodAt('life', 'Europe/Berlin', at('2026-03-29T12:00:00Z'))).toEqual({ start: 0, end: null })
})

test('an unknown zone throws', () => {
  expect(() => periodAt('day', 'Europe/Atlantis', 0)).toThrow(RangeError)
})

test('every moment is in one period, and periods follow each other without a gap', () => {
  const zones = ['UTC', 'Europe/Berlin', 'America/St_Johns', 'Australia/Lord_Howe', 'Africa/Cairo', 'Pacific/Apia']
  const cases = fc.tuple(
    fc.constantFrom(...EVERY.filter(every => every !== 'life')),
    fc.constantFrom(...zones),
    fc.integer({ min: at('2000-01-01T00:00:00Z'), max: at('2040-01-01T00:00:00Z') }),
  )
  fc.assert(
    fc.property(cases, ([every, zone, ms]) => {
      const { start, end } = periodAt(every, zone, ms)
      expect(start).toBeLessThanOrEqual(ms)
      expect(end).toBeGreaterThan(ms)
      expect(periodAt(every, zone, start - 1).end).toBe(start)
      expect(periodAt(every, zone, end!).start).toBe(end)
    }),
    { numRuns: 300 },
  )
})

test.each([
  [at('2026-11-30T23:00:00Z'), 'Europe/Berlin', '2026-12-01 00:00 Europe/Berlin'],
  [at('2026-12-01T00:00:00Z'), 'UTC', '2026-12-01 00:00 UTC'],
])('%i in %s is %s', (ms, zone, text) => {
  expect(showTime(ms, zone)).toBe(text)
})
