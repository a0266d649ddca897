/** The tests of some cells of the failure matrix, with one client. */
import { afterAll, describe, expect, test } from 'vitest'
import { DIALECT_NAMES } from '../../src/providers/dialects/dialect-names.ts'
import { VOICES } from '../helpers/voices/index.ts'
import { batchesOf, MATRIX_VOICES, nameOf } from './matrix-cells.ts'
import { checkBooks, checkCell } from './matrix-checks.ts'
import { MATRIX_FAULTS } from './matrix-faults.ts'
import { matrix } from './matrix-print.ts'
import { type BatchResult, type Cell, runBatch } from './matrix-run.ts'
import { TITLES } from './matrix-table.ts'
import type { ChatClient } from './plain-client.ts'

/**
 * Each cell ends in a well-formed error or in the second provider's answer. It is charged by the table, and the client raises an error
 * unless the answer is complete.
 * @param isAll whether these are all cells, so that the whole table is printed
 */
export function testMatrix(cells: readonly Cell[], client: ChatClient, isAll = false): void {
  const print = matrix()

  describe('the matrix', () => {
    test('has a provider for each dialect, and a row of the table for each fault', () => {
      expect(Object.keys(VOICES).toSorted()).toEqual([...DIALECT_NAMES].toSorted())
      expect([...new Set(MATRIX_FAULTS.map(({ title }) => title))].toSorted()).toEqual(TITLES.toSorted())
    })

    test('has all thirty faults, and all dialects', () => {
      const idsOf = (some: readonly Cell[]) => new Set(some.map(({ title }) => title.slice(0, 3))).size
      expect(idsOf(cells)).toBe(30)
      for (const voice of MATRIX_VOICES) {
        const its = cells.filter(cell => cell.voice === voice)
        expect(its, voice.dialect).not.toEqual([])
        if (isAll) expect([voice.dialect, idsOf(its)]).toEqual([voice.dialect, 30])
      }
    })
  })

  for (const [index, batch] of batchesOf(cells).entries()) {
    describe(`batch ${index}`, () => {
      let running: Promise<BatchResult> | null = null
      const seen = () => {
        running ??= runBatch(batch, client)
        return running
      }

      for (const cell of batch) {
        test(nameOf(cell), async () => {
          const result = (await seen()).cells.get(cell)!
          print.add(cell, result)
          checkCell(cell, result)
        })
      }

      test('the ledger is correct, and no connection stays open', async () => {
        checkBooks(await seen())
        running = null
      })
    })
  }

  afterAll(() => {
    console.log(`the matrix of failures, ${cells.length} cells\n${isAll ? print.table() : print.lines()}`)
  })
}
