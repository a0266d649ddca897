/** `--fail-on`: limits for the findings of a replay, for CI. */
import { formatMoney, type NanoUsd, parseMoney, UnitError } from '../contract/quantities.ts'
import { mayBeRefusedOf, unknownOf } from './compare.ts'
import type { ReplayResult } from './replay.ts'

const WORDS = ['changed', 'refused', 'admitted', 'cost', 'skipped', 'unknown'] as const
type Word = (typeof WORDS)[number]

/** A limit: a number of lines, an amount, or a share of the total before. */
export interface Gate {
  readonly text: string
  readonly word: Word
  readonly most:
    | { readonly unit: 'lines'; readonly lines: number }
    | { readonly unit: 'dollars'; readonly amount: NanoUsd }
    /** In millionths. */
    | { readonly unit: 'share'; readonly millionths: bigint }
}

/** An invalid gate; the message is a sentence. */
export class GateError extends Error {
  override readonly name = 'GateError'
}

const GATE = /^([a-z]+)(?:>(.+))?$/
const SHARE = /^(\d{1,6})(?:\.(\d{1,4}))?%$/

/** `changed`, `refused>10`, `admitted>1%`, `cost>5%`, `cost>$3`, `skipped>0.1%`, `unknown>5`. Throws a `GateError`. */
export function parseGate(text: string): Gate {
  const [, word, most] = GATE.exec(text.replaceAll(' ', '')) ?? []
  if (!WORDS.includes(word as Word)) {
    throw new GateError(`"${text}" is not one of ${WORDS.join(', ')}, with or without a limit: refused>1%, cost>$3.`)
  }
  return { text, word: word as Word, most: mostOf(text, word as Word, most) }
}

function mostOf(text: string, word: Word, most: string | undefined): Gate['most'] {
  if (most === undefined) return word === 'cost' ? { unit: 'dollars', amount: 0n } : { unit: 'lines', lines: 0 }
  const share = SHARE.exec(most)
  if (share) return { unit: 'share', millionths: BigInt(share[1]! + (share[2] ?? '').padEnd(4, '0')) }
  if (word !== 'cost') {
    if (!/^\d{1,12}$/.test(most))
      throw new GateError(`"${text}" needs a number of lines or a share: ${word}>10, ${word}>1%.`)
    return { unit: 'lines', lines: Number(most) }
  }
  try {
    return { unit: 'dollars', amount: parseMoney(most) }
  } catch (error) {
    if (error instanceof UnitError) throw new GateError(`"${text}" needs dollars or a share: cost>$3, cost>5%.`)
    throw error
  }
}

/** The findings that a gate checks. */
export type GateInput = Pick<ReplayResult, 'found' | 'taken' | 'passedBy' | 'skippedCount'>

/**
 * Why the gate fails, or null. A line that is unknown because a step needs its text, or was not run, counts as possibly refused, unless
 * a gate limits unknown lines.
 */
export function exceeds(gate: Gate, gated: GateInput, all: readonly Gate[] = [gate]): string | null {
  const { text, word, most } = gate
  const { found, taken, passedBy, skippedCount } = gated
  const { cost } = found
  if (word === 'cost') {
    const more = cost.after - cost.before
    const isMore =
      most.unit === 'dollars'
        ? more > most.amount
        : most.unit === 'share' && more * 1_000_000n > cost.before * most.millionths
    return isMore ? `cost: $${formatMoney(more)} more than $${formatMoney(cost.before)} (--fail-on "${text}")` : null
  }
  // Unreadable lines may be of any account, so their share is of all lines.
  const [some, of, what] =
    word === 'skipped'
      ? [skippedCount, taken + passedBy + skippedCount, 'lines']
      : [word === 'unknown' ? unknownOf(found) : found[word], found.lines, 'exchanges']
  const mayBe = word === 'refused' && !all.some(each => each.word === 'unknown') ? mayBeRefusedOf(found) : 0
  const isMore =
    most.unit === 'lines'
      ? some + mayBe > most.lines
      : most.unit === 'share' && BigInt(some + mayBe) * 1_000_000n > BigInt(of) * most.millionths
  const more = mayBe > 0 ? `, and ${mayBe} more may be: a step needs text that is not in the log, or was not run` : ''
  return isMore ? `${word}: ${some} of ${of} ${what}${more} (--fail-on "${text}")` : null
}

/**
 * Why the gates fail if most lines were not compared: the comparison has little meaning then. Null if most lines were compared, if there
 * are no gates, or if a gate limits unknown lines.
 */
export function tooLittle(gates: readonly Gate[], { found }: Pick<GateInput, 'found'>): string | null {
  const unknown = unknownOf(found)
  if (gates.length === 0 || gates.some(({ word }) => word === 'unknown') || 2 * unknown <= found.lines) return null
  return `unknown: ${unknown} of ${found.lines} exchanges were not compared, so the gates have little meaning (--fail-on "unknown>N" allows N unknown ones)`
}
