import { describe, expect, test } from 'vitest'
import { WorkOwner } from '#contract'
import { createOverload } from '../../../src/request/http/overload.ts'

const MAX_MS = 50
const ROUND_MS = 50

/** Overload detection with a test clock. `rounds` runs rounds that are late by own CPU time and by that of other processes. */
function create() {
  let cpuMs = 0
  let nowMs = 0
  let delayMs = 0
  let waitMs = 0
  const changes: boolean[] = []
  const light = new WorkOwner()
  const heavy = new WorkOwner()
  const overload = createOverload({
    mostMs: () => MAX_MS,
    roundMs: ROUND_MS,
    cpuMs: () => cpuMs,
    slices: { delay: () => delayMs, isHeavy: owner => owner === heavy, waitOf: () => waitMs },
    refused: () => {},
    changed: isOverloaded => void changes.push(isOverloaded),
  })
  overload.round(nowMs)
  return {
    heavy,
    light,
    overload,
    changes,
    rounds(count: number, lateMs: number, queueDelayMs = 0, othersMs = 0) {
      delayMs = queueDelayMs
      for (let round = 0; round < count; round++) {
        cpuMs += ROUND_MS + lateMs
        nowMs += ROUND_MS + Math.max(0, lateMs) + othersMs
        overload.round(nowMs)
      }
    },
    wait: (ms: number) => (waitMs = ms),
    refusedOf: (owner: WorkOwner, requests: number) =>
      Array.from({ length: requests }, () => overload.refuses({}, owner)).filter(Boolean).length,
  }
}

describe('of a hundred requests of the owner with the most work', () => {
  test.each<[name: string, rounds: number, lateMs: number, delayMs: number, refused: number]>([
    ['none are refused at rest', 1000, -ROUND_MS, 0, 0],
    ['none at full load without a delay', 1000, MAX_MS, 0, 0],
    ['none after nine late rounds', 9, MAX_MS + 1, 0, 0],
    ['a tenth after ten', 10, MAX_MS + 1, 0, 10],
    ['a tenth after ten in which the queue was late', 10, 0, MAX_MS + 1, 10],
    ['most after twenty', 20, MAX_MS + 1, 0, 95],
    ['never all', 1000, MAX_MS + 1, 0, 95],
  ])('%s', (_name, rounds, lateMs, delayMs, refused) => {
    const { rounds: pass, refusedOf, heavy, light } = create()
    pass(rounds, lateMs, delayMs)
    expect(refusedOf(heavy, 100)).toBeCloseTo(refused, -0.5)
    expect(refusedOf(light, 100)).toBe(0)
  })
})

test('a queue that is late because others have the processor does not count as an overload', () => {
  const { changes, rounds } = create()
  rounds(100, 0, 3 * MAX_MS, 2 * ROUND_MS)
  expect(changes).toEqual([])
  rounds(100, 0, 3 * MAX_MS + 1, 2 * ROUND_MS)
  expect(changes).toEqual([true])
})

test('an owner whose work has waited for seconds gets no new work, whether or not the loop is overloaded', () => {
  const { wait, refusedOf, light } = create()
  wait(2000)
  expect(refusedOf(light, 10)).toBe(0)
  wait(2001)
  expect(refusedOf(light, 10)).toBe(10)
})

describe('a quiet period', () => {
  test('ends an overload; its beginning and end are reported once', () => {
    const { heavy, refusedOf, changes, rounds } = create()
    rounds(30, MAX_MS + 1)
    rounds(19, 0)
    expect(refusedOf(heavy, 10)).toBe(0)
    rounds(30, 0)
    expect(changes).toEqual([true, false])
  })

  test('between late rounds prevents an overload', () => {
    const { changes, rounds } = create()
    for (let at = 0; at < 100; at++) {
      rounds(9, MAX_MS + 1)
      rounds(1, 0)
    }
    expect(changes).toEqual([])
  })
})
