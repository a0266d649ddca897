import { describe, expect, test } from 'vitest'
import { emptyComparison } from '../../src/replay/compare.ts'
import { exceeds, type GateInput, parseGate, tooLittle } from '../../src/replay/gate.ts'

test.each([
  ['', 'not one of changed, refused, admitted, cost, skipped, unknown'],
  ['verdicts', 'not one of changed'],
  ['refused>', 'not one of changed'],
  ['refused>many', 'a number of lines or a share'],
  ['refused>$3', 'a number of lines or a share'],
  ['refused>1.5', 'a number of lines or a share'],
  ['cost>cheap', 'dollars or a share'],
  ['cost>-5%', 'dollars or a share'],
  ['skipped>$1', 'a number of lines or a share'],
  ['unknown>$1', 'a number of lines or a share'],
  ['refused<5', 'not one of changed'],
])('%j is not a valid gate', (text, sentence) => {
  expect(() => parseGate(text)).toThrow(sentence)
})

describe('a gate', () => {
  const comparison = {
    ...emptyComparison(),
    lines: 1_000,
    changed: 20,
    refused: 10,
    unknown: new Map([
      ['who', 20],
      ['unfinished', 10],
    ]),
    cost: { before: 100_000_000_000n, after: 105_000_000_000n, estimated: 0n },
  }
  const found: GateInput = { found: comparison, taken: 1_000, passedBy: 980, skippedCount: 20 }
  test.each([
    ['changed', true],
    ['admitted', false],
    ['refused>9', true],
    ['refused>10', false],
    ['refused>0.9%', true],
    ['refused > 1%', false],
    ['cost', true],
    ['cost>5%', false],
    ['cost>4.9999%', true],
    ['cost>$5', false],
    ['cost>$4.999999999', true],
    ['skipped', true],
    ['skipped>19', true],
    ['skipped>20', false],
    ['skipped>1%', false],
    ['skipped>0.9999%', true],
    ['unknown', true],
    ['unknown>29', true],
    ['unknown>30', false],
    ['unknown>3%', false],
    ['unknown>2.9999%', true],
  ])('%s', (text, closed) => {
    const reason = exceeds(parseGate(text), found)
    if (closed) expect(reason).toContain(`--fail-on "${text}"`)
    else expect(reason).toBe(null)
  })

  test('reports the figure that exceeds it', () => {
    expect(exceeds(parseGate('refused>1'), found)).toBe('refused: 10 of 1000 exchanges (--fail-on "refused>1")')
    expect(exceeds(parseGate('skipped'), found)).toBe('skipped: 20 of 2000 lines (--fail-on "skipped")')
    expect(exceeds(parseGate('cost'), found)).toBe('cost: $5.000000000 more than $100.000000000 (--fail-on "cost")')
  })

  test.each<[string, readonly string[], number, boolean]>([
    ['half of them is enough', ['changed', 'cost'], 500, false],
    ['less than half is not', ['cost'], 501, true],
    ['zero is not', ['refused>5%'], 1_000, true],
    ['as many as an `unknown` gate allows', ['cost', 'unknown>99%'], 990, false],
    ['without a gate any number suffices', [], 1_000, false],
  ])('the minimum of compared lines: %s', (_name, gates, unknown, isTooLittle) => {
    const few = { found: { ...comparison, unknown: new Map([['unfinished', unknown]]) } }
    const reason = tooLittle(gates.map(parseGate), few)
    if (isTooLittle) expect(reason).toContain(`unknown: ${unknown} of 1000 exchanges were not compared`)
    else expect(reason).toBe(null)
  })

  test('a cost that was 0 before exceeds every share', () => {
    const cost = { before: 0n, after: 1n, estimated: 0n }
    expect(exceeds(parseGate('cost>500%'), { ...found, found: { ...comparison, cost } })).not.toBe(null)
  })
})

test.each([
  ['refused', 'refused: 0 of 10 exchanges, and 4 more may be'],
  ['refused>3', 'refused: 0 of 10'],
  ['refused>30%', 'refused: 0 of 10'],
  ['refused>4', null],
  ['refused>40%', null],
  ['admitted', null],
  ['refused,unknown>4', null],
])('verdicts that are unknown because the log has no message text count as refusals: %s', (text, sentence) => {
  const found = { ...emptyComparison(), lines: 10, unknown: new Map([['words', 4]]) }
  const gates = text.split(',').map(parseGate)
  const reasons = gates.map(gate => exceeds(gate, { found, taken: 10, passedBy: 0, skippedCount: 0 }, gates))
  if (sentence === null) expect(reasons.every(reason => reason === null)).toBe(true)
  else expect(reasons[0]).toContain(sentence)
})
