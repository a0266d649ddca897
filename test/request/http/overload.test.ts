import { describe, expect, test } from 'vitest'
import { createOverload, type Overload } from '../../../src/request/http/overload.ts'

const MAX_MS = 100

/** An overload under a clock of its own: `rounds(n, busyMs)` lets n rounds pass in which the thread worked so long. */
function create(chance = 0.5) {
  let cpuMs = 0
  const told: boolean[] = []
  const overload = createOverload({
    mostMs: () => MAX_MS,
    cpuMs: () => cpuMs,
    random: () => chance,
    refused: () => {},
    changed: isOverloaded => void told.push(isOverloaded),
  })
  const rounds = (count: number, busyMs: number) => {
    for (let round = 0; round < count; round++) {
      cpuMs += busyMs
      overload.round()
    }
  }
  return { overload, told, rounds }
}

const refuses = (overload: Overload) => overload.refusesRequest()

test.each<[name: string, rounds: number, busyMs: number, chance: number, expected: boolean]>([
  ['nothing at rest', 1000, 0, 0, false],
  ['nothing at full load without a queue', 1000, MAX_MS, 0, false],
  ['nothing for four busy rounds', 4, MAX_MS + 1, 0, false],
  ['some requests after five', 5, MAX_MS + 1, 0.09, true],
  ['not yet most of them', 5, MAX_MS + 1, 0.11, false],
  ['most requests after fifteen', 15, MAX_MS + 1, 0.94, true],
  ['never all requests', 1000, MAX_MS + 1, 0.96, false],
])('refuses %s', (_name, rounds, busyMs, chance, expected) => {
  const { overload, rounds: pass } = create(chance)
  pass(rounds, busyMs)
  expect(refuses(overload)).toBe(expected)
})

describe('a quiet time', () => {
  test('ends it, and both are told once', () => {
    const { overload, told, rounds } = create(0)
    rounds(30, MAX_MS + 1)
    rounds(19, 10)
    expect(refuses(overload)).toBe(false)
    rounds(30, 10)
    expect(told).toEqual([true, false])
  })

  test('between busy rounds keeps it from beginning', () => {
    const { told, rounds } = create(0)
    for (let at = 0; at < 100; at++) {
      rounds(4, MAX_MS + 1)
      rounds(1, 0)
    }
    expect(told).toEqual([])
  })
})
