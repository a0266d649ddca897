/**
 * The matrix of failures: everything that a provider can do wrong, in the words of every dialect, whole and streamed, with
 * and without another provider behind it. Each cell ends in time, in a well-formed error or in the other's answer, is
 * charged what the table of charges says, and the official SDK raises an error unless the answer is complete.
 */
import { hash } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import { DIALECT_NAMES } from '../../src/config/configuration.ts'
import { full } from '../helpers/counts.ts'
import { VOICES, type Voice } from '../helpers/voices/index.ts'
import { checkBooks, checkCell } from './matrix-checks.ts'
import { MATRIX_FAULTS, type MatrixFault, MODES } from './matrix-faults.ts'
import { matrix } from './matrix-print.ts'
import { type BatchSeen, type Cell, isLate, MAX_FALLBACKS, runBatch } from './matrix-run.ts'
import { expectedOf, TITLES } from './matrix-table.ts'

const voices: readonly Voice[] = DIALECT_NAMES.flatMap(name => VOICES[name] ?? [])
const cells = full ? allCells() : sample()
const batches = batchesOf(cells)
const seenCells = matrix()

describe('the matrix', () => {
  test('has a voice for each dialect, and a row of the table for each fault', () => {
    expect(Object.keys(VOICES).toSorted()).toEqual([...DIALECT_NAMES].toSorted())
    expect([...new Set(MATRIX_FAULTS.map(({ title }) => title))].toSorted()).toEqual(TITLES.toSorted())
  })

  test('has all thirty faults, and all dialects', () => {
    const idsOf = (some: readonly Cell[]) => new Set(some.map(({ title }) => title.slice(0, 3))).size
    expect(idsOf(cells)).toBe(30)
    for (const voice of voices) {
      const its = cells.filter(cell => cell.voice === voice)
      expect(its, voice.dialect).not.toEqual([])
      if (full) expect([voice.dialect, idsOf(its)]).toEqual([voice.dialect, 30])
    }
  })
})

for (const [index, batch] of batches.entries()) {
  describe(`batch ${index}`, () => {
    let running: Promise<BatchSeen> | null = null
    const seen = () => {
      running ??= runBatch(batch)
      return running
    }

    for (const cell of batch) {
      test(nameOf(cell), async () => {
        const found = (await seen()).cells.get(cell)!
        seenCells.add(cell, found)
        checkCell(cell, found)
      })
    }

    test('the books are right, and nothing is left open', async () => {
      checkBooks(await seen())
      running = null
    })
  })
}

afterAll(() => {
  console.log(`the matrix of failures, ${cells.length} cells\n${full ? seenCells.table() : seenCells.lines()}`)
})

function nameOf({ title, mode, voice, spare }: Cell): string {
  return `${title}, ${voice.dialect}, ${mode}${spare ? ` (and ${spare.dialect})` : ''}`
}

function cellOf(fault: MatrixFault, at: number, mode: Cell['mode'], isSpared: boolean): Cell {
  const voice = voices[at]!
  // Another dialect behind it: the second attempt must not be coloured by the first.
  const spare = isSpared ? voices[(at + 1) % voices.length]! : null
  return { title: fault.title, fault, mode, voice, spare, expected: expectedOf(fault.title, mode, voice) }
}

function allCells(): Cell[] {
  return voices.flatMap((voice, at) =>
    MATRIX_FAULTS.filter(({ fits }) => fits(voice)).flatMap(fault =>
      MODES.flatMap(mode => [cellOf(fault, at, mode, false), cellOf(fault, at, mode, true)]),
    ),
  )
}

/** Every fault once; dialects, modes and the second provider take turns. */
function sample(): Cell[] {
  return MATRIX_FAULTS.map((fault, index) => {
    const fitting = voices.flatMap((voice, at) => (fault.fits(voice) ? [at] : []))
    const at = fitting[index % fitting.length]!
    // By lot, but the same one each time: turns of two would go together with those of the dialects.
    const lot = hash('sha256', fault.title, 'buffer')[0]!
    return cellOf(fault, at, MODES[lot & 1]!, (lot & 2) === 0)
  })
}

/** With or without a second provider, and those that meet a deadline together: they wait at the same time. */
function batchesOf(all: readonly Cell[]): Cell[][] {
  const groups = [true, false].flatMap(isSpared => [
    all
      .filter(({ spare }) => (spare !== null) === isSpared)
      .toSorted((one, other) => Number(isLate(other)) - Number(isLate(one))),
  ])
  return groups.flatMap(group =>
    Array.from({ length: Math.ceil(group.length / MAX_FALLBACKS) }, (_, index) =>
      group.slice(index * MAX_FALLBACKS, (index + 1) * MAX_FALLBACKS),
    ),
  )
}
