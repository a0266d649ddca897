import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { KeyView, UsageRowView } from '../../src/api/views.ts'
import { dollars, nano } from '../../src/dashboard/lib/format.ts'
import {
  type By,
  chartData,
  coloursOf,
  customRange,
  figure,
  gridOf,
  height,
  keyNames,
  MAX_SERIES,
  type Metric,
  OTHER,
  rangeOf,
  spanName,
  stacked,
  sumsBy,
  tickLabels,
} from '../../src/dashboard/lib/usage.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

function row(at: string, fields: Partial<UsageRowView> = {}): UsageRowView {
  return {
    at,
    key_id: 'key_a',
    model: 'small',
    requests: 1,
    failed: 0,
    prompt_tokens: 10,
    cached_tokens: 4,
    completion_tokens: 5,
    reasoning_tokens: 2,
    charged: '0.000000001',
    ...fields,
  }
}

const query = { step: 'day', metric: 'charged', by: 'model' } as const

describe('chartData', () => {
  test('no rows make no spans without a range, and empty spans with one', () => {
    expect(chartData([], query)).toEqual({ times: [], series: [], totals: [] })
    const data = chartData([], { ...query, from: '2026-11-01T00:00:00Z', to: '2026-11-04T00:00:00Z' })
    expect(data).toMatchObject({ series: [], totals: [0n, 0n, 0n] })
    expect(data.times).toHaveLength(3)
  })

  test('rows outside of the range are left out, and gaps are zeros', () => {
    const rows = [
      row('2026-10-31T00:00:00.000Z', { charged: '5.000000000' }),
      row('2026-11-01T00:00:00.000Z', { charged: '1.000000000' }),
      row('2026-11-03T00:00:00.000Z', { charged: '2.000000000' }),
      row('2026-11-05T00:00:00.000Z', { charged: '7.000000000' }),
    ]
    const data = chartData(rows, { ...query, from: '2026-11-01T00:00:00Z', to: '2026-11-05T00:00:00Z' })
    expect(data.totals).toEqual([1_000_000_000n, 0n, 2_000_000_000n, 0n])
    expect(data.times.map(at => new Date(at).toISOString().slice(0, 10))).toEqual([
      '2026-11-01',
      '2026-11-02',
      '2026-11-03',
      '2026-11-04',
    ])
  })

  test('a range that begins inside a span shows that span whole', () => {
    const rows = [row('2026-11-01T10:00:00.000Z')]
    const data = chartData(rows, { ...query, step: 'hour', from: '2026-11-01T10:59:00Z', to: '2026-11-01T12:00:00Z' })
    expect(data.totals).toEqual([1n, 0n])
  })

  test('the smallest beyond eight are combined behind the others', () => {
    const rows = Array.from({ length: 11 }, (_, index) =>
      row('2026-11-01T00:00:00.000Z', { model: `m${index}`, requests: index + 1 }),
    )
    const { series, totals } = chartData(rows, { ...query, metric: 'requests' })
    expect(series).toHaveLength(MAX_SERIES)
    expect(series.map(({ id }) => id)).toEqual(['m10', 'm9', 'm8', 'm7', 'm6', 'm5', 'm4', OTHER])
    expect(series.at(-1)!.total).toBe(1n + 2n + 3n + 4n)
    expect(totals).toEqual([66n])
  })

  test('exactly eight are not combined', () => {
    const rows = Array.from({ length: 8 }, (_, index) => row('2026-11-01T00:00:00.000Z', { model: `m${index}` }))
    expect(chartData(rows, query).series.map(({ id }) => id)).not.toContain(OTHER)
  })

  test.each<[By, Metric, Record<string, bigint>]>([
    ['none', 'charged', { '': 6n }],
    ['model', 'charged', { large: 4n, small: 2n }],
    ['key', 'requests', { key_a: 3n, key_b: 1n }],
    ['none', 'tokens', { '': 60n }],
  ])('by %s, %s', (by, metric, wanted) => {
    const at = '2026-11-01T00:00:00.000Z'
    const rows = [
      row(at, { charged: '0.000000002', requests: 1 }),
      row(at, { charged: '0.000000003', requests: 2, model: 'large' }),
      row(at, { charged: '0.000000001', requests: 1, model: 'large', key_id: 'key_b', prompt_tokens: 25 }),
    ]
    const { series } = chartData(rows, { step: 'day', by, metric })
    expect(series.map(({ id, total }) => [id, total])).toEqual(Object.entries(wanted))
  })

  test('sums are exact where a floating-point number would not be', () => {
    const rows = ['9007199.254740993', '0.000000001', '0.100000000', '0.200000000'].map(charged =>
      row('2026-11-01T00:00:00.000Z', { charged }),
    )
    expect(dollars(chartData(rows, query).totals[0]!)).toBe('9007199.554740994')
  })

  test('every figure of random rows is in exactly one place', () => {
    const rows = fc.array(
      fc.record({
        hour: fc.integer({ min: 0, max: 100 }),
        model: fc.integer({ min: 0, max: 12 }),
        charged: fc.bigInt({ min: 0n, max: 10n ** 15n }),
      }),
      { maxLength: 60 },
    )
    fc.assert(
      fc.property(rows, fc.constantFrom('hour', 'day'), (given, step) => {
        const views = given.map(({ hour, model, charged }) =>
          row(new Date(Date.UTC(2026, 0, 1) + hour * HOUR).toISOString(), {
            model: `m${model}`,
            charged: dollars(charged),
          }),
        )
        const data = chartData(views, { ...query, step })
        const wanted = given.reduce((sum, { charged }) => sum + charged, 0n)
        expect(data.totals.reduce((sum, value) => sum + value, 0n)).toBe(wanted)
        expect(data.series.reduce((sum, { total }) => sum + total, 0n)).toBe(wanted)
        data.times.slice(1).forEach((at, index) => {
          expect(at - data.times[index]!).toBe(step === 'hour' ? HOUR : DAY)
        })
      }),
    )
  })
})

test('stacked: each series is on top of all later ones', () => {
  const series = [{ values: [1n, 2n] }, { values: [10n, 20n] }, { values: [100n, 200n] }]
  expect(stacked(series, 2)).toEqual([
    [111n, 222n],
    [110n, 220n],
    [100n, 200n],
  ])
  expect(stacked([], 2)).toEqual([])
})

describe('sumsBy', () => {
  test('adds up each model, the most expensive first, then those with more requests', () => {
    const sums = sumsBy(
      [
        row('2026-11-01T00:00:00.000Z', { model: 'free', charged: '0.000000000', requests: 9, failed: 2 }),
        row('2026-11-01T00:00:00.000Z', { charged: '0.100000000', failed: 1 }),
        row('2026-11-02T00:00:00.000Z', { charged: '0.200000000', requests: 3 }),
        row('2026-11-02T00:00:00.000Z', { model: 'also-free', charged: '0.000000000', requests: 1 }),
      ],
      'model',
    )
    expect(sums.map(({ id, requests, failed, charged }) => [id, requests, failed, dollars(charged)])).toEqual([
      ['small', 4, 1, '0.300000000'],
      ['free', 9, 2, '0.000000000'],
      ['also-free', 1, 0, '0.000000000'],
    ])
    expect(sums[0]).toMatchObject({ promptTokens: 20, cachedTokens: 8, completionTokens: 10 })
  })

  test('rows without the grouping field become one sum without a name', () => {
    expect(sumsBy([row('2026-11-01T00:00:00.000Z', { model: null })], 'model').map(({ id }) => id)).toEqual([''])
  })
})

describe('ranges', () => {
  const now = Date.parse('2026-11-21T09:11:23.456Z')

  test.each([
    ['24h', '2026-11-20T10:00:00.000Z', '2026-11-21T10:00:00.000Z', 'hour', 24],
    ['7d', '2026-11-15T00:00:00.000Z', '2026-11-22T00:00:00.000Z', 'day', 7],
    ['30d', '2026-10-23T00:00:00.000Z', '2026-11-22T00:00:00.000Z', 'day', 30],
    ['90d', '2026-08-24T00:00:00.000Z', '2026-11-22T00:00:00.000Z', 'day', 90],
  ] as const)('%s ends with the current span', (name, from, to, step, bars) => {
    expect(rangeOf(name, now)).toEqual({ from, to, step })
    expect(chartData([], { ...query, step, from, to }).times).toHaveLength(bars)
  })

  test('a range on the full hour includes the hour that has just begun', () => {
    expect(rangeOf('24h', Date.parse('2026-11-21T10:00:00.000Z')).to).toBe('2026-11-21T11:00:00.000Z')
  })

  test.each([
    ['', '2026-11-02', 'Choose both dates.'],
    ['2026-11-01', '', 'Choose both dates.'],
    ['2026-02-31', '2026-13-01', 'Choose both dates.'],
    ['2026-11-02', '2026-11-01', 'The last day is before the first. Choose a later last day.'],
    ['2025-01-01', '2026-11-01', 'The range has 670 days. Choose at most 400.'],
  ])('from "%s" to "%s" is refused', (first, last, problem) => {
    expect(customRange(first, last)).toEqual({ problem })
  })

  test.each([
    ['2026-11-01', '2026-11-01', '2026-11-02T00:00:00.000Z', 'hour'],
    ['2026-11-01', '2026-11-03', '2026-11-04T00:00:00.000Z', 'hour'],
    ['2026-11-01', '2026-11-04', '2026-11-05T00:00:00.000Z', 'day'],
    ['2025-10-28', '2026-12-01', '2026-12-02T00:00:00.000Z', 'day'],
  ])('from %s to %s includes both days', (first, last, to, step) => {
    expect(customRange(first, last)).toEqual({ from: `${first}T00:00:00.000Z`, to, step })
  })
})

test('figures and heights', () => {
  expect(figure(nano('1.250000000'), 'charged')).toBe('$1.25')
  expect(figure(12_345n, 'tokens')).toBe('12.3k')
  expect(figure(3n, 'requests')).toBe('3')
  expect(height(nano('1.250000000'), 'charged')).toBe(1.25)
  expect(height(12n, 'tokens')).toBe(12)
})

describe('names', () => {
  const key = (id: string, name: string, last4?: string) =>
    ({ id, name, secrets: last4 === undefined ? [] : [{ last4, expires_at: null }] }) as unknown as KeyView

  test('keys with equal names also show the end of their secret, or of their id', () => {
    const keys = [key('key_1', 'laptop', 'aaaa'), key('key_2', 'ci', 'bbbb'), key('key_3rd4', 'laptop')]
    expect(keyNames(keys)).toEqual({
      key_1: 'laptop (…aaaa)',
      key_2: 'ci',
      key_3rd4: 'laptop (…rd4)'.replace('…', '…3'),
    })
  })

  test('a day is a day of UTC', () => {
    expect(spanName(Date.parse('2026-11-21T00:00:00Z'), 'day')).toBe('21 Nov 2026')
  })

  test.each([
    [7, 10, 7],
    [7, 4, 4],
    [30, 10, 10],
    [90, 12, 7],
    [400, 5, 5],
  ])('%i days with room for %i labels have %i, one of them at the last day', (days, most, wanted) => {
    const times = Array.from({ length: days }, (_, index) => index * DAY)
    const labels = tickLabels(times, 'day', most)
    expect(labels).toHaveLength(wanted)
    expect(labels.length).toBeLessThanOrEqual(most)
    expect(labels.at(-1)!.at).toBe(times.at(-1))
  })

  test('hours have round labels, evenly', () => {
    const times = Array.from({ length: 24 }, (_, index) => Date.parse('2026-11-20T10:00:00Z') + index * HOUR)
    const labels = tickLabels(times, 'hour', 7)
    expect(labels).toHaveLength(6)
    expect(new Set(labels.slice(1).map(({ at }, index) => at - labels[index]!.at))).toEqual(new Set([4 * HOUR]))
  })
})

describe('the grid lines', () => {
  test.each([
    ['charged', 0, [0, 1]],
    ['charged', 0.0000362, [0, 0.00001, 0.00002, 0.00003, 0.00004]],
    ['charged', 0.3, [0, 0.1, 0.2, 0.3]],
    ['charged', 4.1, [0, 2, 4, 6]],
    ['requests', 1, [0, 1]],
    ['requests', 5, [0, 2, 4, 6]],
    ['tokens', 123_456, [0, 50_000, 100_000, 150_000]],
  ] as const)('%s up to %d', (metric, most, lines) => {
    expect(gridOf(most, metric)).toEqual(lines)
  })

  test('no bar is higher than the last line, and its value as the maximum gives the same lines', () => {
    const metrics = fc.constantFrom('charged', 'requests', 'tokens')
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2 ** 31 }),
        fc.integer({ min: 0, max: 9 }),
        metrics,
        (size, power, metric) => {
          const most = metric === 'charged' ? size / 10 ** power : size
          const lines = gridOf(most, metric)
          expect(lines.length).toBeLessThanOrEqual(5)
          expect(lines.at(-1)!).toBeGreaterThanOrEqual(most * (1 - 1e-9))
          expect(lines.at(-1)!).toBeLessThanOrEqual(most * 2.5 + (metric === 'charged' ? 0 : 1))
          expect(gridOf(lines.at(-1)!, metric)).toEqual(lines)
        },
      ),
    )
  })
})

describe('colours', () => {
  const LIST = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j']
  const of = (...ids: string[]) => Object.fromEntries(coloursOf(ids, LIST))

  test('depend on the place in the list, not on other series or their order', () => {
    expect(of('c', 'a', OTHER)).toEqual({ a: 1, c: 3 })
    expect(of('c')).toEqual({ c: 3 })
    expect(of('h', 'b', 'c')).toEqual({ b: 2, c: 3, h: 8 })
    expect(coloursOf([''], [''])).toEqual(new Map([['', 1]]))
  })

  test('differ also for ids beyond the colours, and for ids that are not in the list', () => {
    // The ninth begins again at the first colour; beside the first it has the next one.
    expect(of('i')).toEqual({ i: 1 })
    expect(of('i', 'a')).toEqual({ a: 1, i: 2 })
    const many = of('a', 'b', 'i', 'j', 'x', 'y', 'removed/model', 'h')
    expect(new Set(Object.values(many))).toEqual(new Set([1, 2, 3, 4, 5, 6, 7, 8]))
    expect(of('x')).toEqual(of('x'))
  })
})
