/** The cells of the failure matrix: a fault, a dialect, whole or streamed, with or without a second provider. */
import { hash } from 'node:crypto'
import { DIALECT_NAMES } from '../../src/providers/dialects/dialect-names.ts'
import { VOICES, type Voice } from '../helpers/voices/index.ts'
import { MATRIX_FAULTS, type MatrixFault, MODES } from './matrix-faults.ts'
import { type Cell, isLate, MAX_FALLBACKS } from './matrix-run.ts'
import { expectedOf } from './matrix-table.ts'

export const MATRIX_VOICES: readonly Voice[] = DIALECT_NAMES.flatMap(name => VOICES[name] ?? [])

export function nameOf({ title, mode, voice, spare }: Cell): string {
  return `${title}, ${voice.dialect}, ${mode}${spare ? ` (and ${spare.dialect})` : ''}`
}

function cellOf(fault: MatrixFault, at: number, mode: Cell['mode'], isSpared: boolean): Cell {
  const voice = MATRIX_VOICES[at]!
  // The second provider has another dialect, because the first attempt must not affect the second.
  const spare = isSpared ? MATRIX_VOICES[(at + 1) % MATRIX_VOICES.length]! : null
  return { title: fault.title, fault, mode, voice, spare, expected: expectedOf(fault.title, mode, voice) }
}

export function allCells(): Cell[] {
  return MATRIX_VOICES.flatMap((voice, at) =>
    MATRIX_FAULTS.filter(({ fits }) => fits(voice)).flatMap(fault =>
      MODES.flatMap(mode => [cellOf(fault, at, mode, false), cellOf(fault, at, mode, true)]),
    ),
  )
}

/** Every fault in the dialect `openai`, whole and streamed, and every fault once more in alternating dialects. */
export function moreCells(): Cell[] {
  const openai = MATRIX_VOICES.findIndex(({ dialect }) => dialect === 'openai')
  const itsFaults = MATRIX_FAULTS.filter(({ fits }) => fits(MATRIX_VOICES[openai]!))
  const its = itsFaults.flatMap(fault => MODES.map(mode => cellOf(fault, openai, mode, false)))
  const isIts = ({ voice, spare }: Cell) => voice.dialect === 'openai' && spare === null
  return [...sampleCells().filter(cell => !isIts(cell)), ...its]
}

/** Every fault once, with alternating dialects, modes and second providers. */
export function sampleCells(): Cell[] {
  return MATRIX_FAULTS.map((fault, index) => {
    const fitting = MATRIX_VOICES.flatMap((voice, at) => (fault.fits(voice) ? [at] : []))
    const at = fitting[index % fitting.length]!
    // Pseudo-random with a fixed seed: alternating would correlate with the dialects.
    const lot = hash('sha256', fault.title, 'buffer')[0]!
    return cellOf(fault, at, MODES[lot & 1]!, (lot & 2) === 0)
  })
}

/**
 * Groups cells by whether they have a second provider. Those with the same deadline come together, because they wait at the same
 * time.
 */
export function batchesOf(all: readonly Cell[]): Cell[][] {
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
