import { describe, expect, test } from 'vitest'
import type { TrailEntry } from '#contract'
import { createRecent } from '../../src/observe/recent.ts'
import type { ExchangeSummary } from '../../src/observe/summary.ts'
import { countsOf } from '../helpers/counts.ts'
import { summary } from './summary.ts'

const counts = countsOf('corpus')

describe('limits', () => {
  test('on the number: the oldest exchange is dropped', () => {
    const recent = createRecent({ exchanges: 3, bytes: 1_000_000 })
    for (let nth = 1; nth <= 8; nth++) {
      recent.add(anExchange(`req_${nth}`))
      expect(recent.size).toBe(Math.min(nth, 3))
    }
    expect(keptIds(recent, 8)).toEqual(['req_6', 'req_7', 'req_8'])
  })

  test('on the bytes: the oldest are dropped, and an exchange above the limit is not kept', () => {
    const note = 'x'.repeat(1000)
    const large = (id: string) => anExchange(id, [{ step: 'a', verdict: 'passed', note }])
    const recent = createRecent({ exchanges: 100, bytes: 10_000 })
    for (let nth = 1; nth <= 20; nth++) recent.add(large(`req_${nth}`))
    expect(recent.size).toBe(3)
    expect(recent.bytes).toBeLessThanOrEqual(10_000)
    expect(keptIds(recent, 20)).toEqual(['req_18', 'req_19', 'req_20'])
    const many = Array.from({ length: 10 }, () => ({ step: 'a', verdict: 'passed' as const, note }))
    recent.add(anExchange('req_21', many))
    expect([recent.size, recent.bytes]).toEqual([0, 0])
    // The next exchange is kept again.
    recent.add(anExchange('req_22'))
    expect(keptIds(recent, 22)).toEqual(['req_22'])
  })

  test('header changes of a step in shadow count as bytes', () => {
    const deeds = (header: string) => Array.from({ length: 10 }, () => ({ deed: 'set_header' as const, header }))
    const [none, short, long] = [undefined, deeds('x'), deeds('x'.repeat(101))].map(would => {
      const recent = createRecent()
      recent.add(anExchange('req_1', [{ step: 'a', verdict: 'passed', ...(would && { would }) }]))
      return recent.bytes
    })
    expect(short! - none!).toBeGreaterThan(500)
    expect(long! - short!).toBe(1000)
  })

  test('the detail of a failed attempt counts as bytes, and is cut at a word boundary', () => {
    const recent = createRecent()
    recent.add(summary({ attemptDetails: [null] }))
    const before = recent.bytes
    recent.add(summary({ id: 'req_2', attemptDetails: [null, `${'y'.repeat(990)} ${'z'.repeat(100)}`] }))
    expect(recent.find('req_2')!.attemptDetails).toEqual([null, `${'y'.repeat(990)} …`])
    expect(recent.bytes - before).toBeGreaterThan(before + 1900)
  })

  test('a note is cut in a copy; the trail of the exchange is unchanged', () => {
    const trail: TrailEntry[] = [
      { step: 'a', verdict: 'passed' },
      { step: 'b', verdict: 'refused', code: 'forbidden', note: 'y'.repeat(100_000) },
    ]
    const recent = createRecent()
    recent.add(anExchange('req_1', trail))
    const [first, second] = recent.find('req_1')!.trail
    expect(first).toBe(trail[0])
    expect(second).toEqual({ step: 'b', verdict: 'refused', code: 'forbidden', note: `${'y'.repeat(1000)}…` })
    expect(trail[1]!.note).toHaveLength(100_000)
  })
})

test('an unknown id is not found', () => {
  const recent = createRecent()
  expect(recent.find('req_1')).toBeUndefined()
  recent.add(anExchange('req_1'))
  expect(recent.find('req_2')).toBeUndefined()
  expect(recent.find('req_1')).toMatchObject({ id: 'req_1', decidedBy: 'burst' })
})

test('keeping an exchange is fast, and takes no more memory than reported', () => {
  const recent = createRecent()
  const total = counts(30_000, 300_000)
  // The measurement does not include the creation of the exchanges.
  const exchanges = Array.from({ length: total }, (_, nth) => anExchange(`req_${nth}`, fiveSteps()))
  const began = process.hrtime.bigint()
  for (const exchange of exchanges) recent.add(exchange)
  const each = Number(process.hrtime.bigint() - began) / total
  expect(recent.size).toBe(10_000)
  // Measured: 0.1 to 0.3 µs.
  expect(each).toBeLessThan(100_000)
  // Measured on the heap: 1,242 bytes.
  expect(recent.bytes / recent.size).toBeGreaterThan(1200)
  expect(recent.bytes / recent.size).toBeLessThan(1400)
})

function fiveSteps(): TrailEntry[] {
  const steps: TrailEntry[] = ['api-key', 'schema', 'burst', 'credits'].map(step => ({ step, verdict: 'passed' }))
  return [...steps, { step: 'route', verdict: 'passed', note: 'free' }]
}

const keptIds = (recent: ReturnType<typeof createRecent>, upTo: number) =>
  Array.from({ length: upTo }, (_, nth) => recent.find(`req_${nth + 1}`)?.id).filter(id => id !== undefined)

function anExchange(id: string, trail: readonly TrailEntry[] = []): ExchangeSummary {
  return summary({ id, trail, outcome: 'refused', status: 429, code: 'rate_limit_exceeded', decidedBy: 'burst' })
}
