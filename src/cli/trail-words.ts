/** Formats lines of the trail for a terminal. */
import type { TrailEntry } from '#contract'
import { mistakeWords } from '../request/pipeline/step-report.ts'

const DEEDS = { answer: 'answered', edit: 'edited', rewrite: 'rewritten' } as const

/** The remarks of a line besides its verdict and code. The step's own note is the last. */
export function remarksOf({ verdict, why, would, note }: TrailEntry): readonly string[] {
  const deeds = would?.map(({ deed, header }) => (deed === 'set_header' ? `set ${header}` : DEEDS[deed]))
  return [
    // Older receipts have this in the note.
    ...(verdict === 'skipped' && note === undefined ? ['`when` is false'] : []),
    ...(why === undefined
      ? []
      : [why === 'in_answer' ? 'in the middle of the answer' : mistakeWords({ mistake: why })]),
    ...(deeds === undefined ? [] : [`would have: ${deeds.join(', ')}`]),
    ...(note === undefined ? [] : [note]),
  ]
}
