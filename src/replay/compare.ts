/** Counts the effects of a changed configuration: changed verdicts, by account and key, and costs. */
import type { ErrorCode, NanoUsd } from '#contract'
import type { Decision, LogLine } from './line.ts'

/** The verdict of a configuration on a line. */
export interface Verdict extends Decision {
  readonly held: NanoUsd
  readonly charged: NanoUsd
  /** The charge is for an answer that was not recorded. */
  readonly isEstimate: boolean
  /** The charge is for a prompt whose size is estimated, because steps made it longer or shorter than the recorded one. */
  readonly isResized: boolean
  /** Why the verdict is unknown; the other members are invalid then. Null if it is known. */
  readonly unknown: string | null
  /** Refusals of steps in shadow. */
  readonly shadow: readonly { readonly step: string; readonly code: ErrorCode | null }[]
}

/** The compared parts of a verdict. */
export interface Side {
  readonly status: number | null
  readonly code: ErrorCode | null
  readonly decidedBy: string | null
  readonly outcome: Decision['outcome']
}

export type Direction = 'refused' | 'admitted' | 'other'

/** Lines with the same change of verdict. */
export interface Change {
  readonly before: Side
  readonly after: Side
  /** Whether they are now refused, now admitted, or have another verdict. */
  readonly direction: Direction
  lines: number
  /** Lines by account and by key: ids with names. */
  readonly accounts: Map<string, CountedChange>
  readonly keys: Map<string, CountedChange>
  readonly examples: string[]
}

export interface CountedChange {
  readonly name: string
  lines: number
}

/** Charges of the same lines before and after. */
export interface Cost {
  before: NanoUsd
  after: NanoUsd
  /** The part of `after` for answers that were not recorded. */
  estimated: NanoUsd
}

export interface Comparison {
  lines: number
  changed: number
  refused: number
  admitted: number
  estimated: number
  /** Lines charged for a prompt of an estimated size, because steps changed it. */
  resized: number
  /** Lines whose verdict is unknown, by the reason. */
  readonly unknown: Map<string, number>
  readonly changes: Map<string, Change>
  readonly cost: Cost
  readonly accounts: Map<string, Cost & { readonly name: string }>
  readonly models: Map<string, Cost>
  /** Refusals of steps in shadow, by step and code. */
  readonly shadow: Map<string, { readonly step: string; readonly code: ErrorCode | null; lines: number }>
}

const MAX_EXAMPLES = 3

export function emptyComparison(): Comparison {
  return {
    lines: 0,
    changed: 0,
    refused: 0,
    admitted: 0,
    estimated: 0,
    resized: 0,
    unknown: new Map(),
    changes: new Map(),
    cost: noCost(),
    accounts: new Map(),
    models: new Map(),
    shadow: new Map(),
  }
}

/** The recorded verdict, for a comparison with the log. */
export function recorded(line: LogLine): Verdict {
  const { outcome, status, code, decidedBy, charged } = line
  return {
    outcome,
    status,
    code,
    decidedBy,
    held: 0n,
    charged,
    isEstimate: false,
    isResized: false,
    unknown: null,
    shadow: [],
  }
}

/** Counts one line. */
export function compare(into: Comparison, line: LogLine, before: Verdict, after: Verdict): void {
  into.lines++
  for (const { step, code } of after.shadow) {
    const key = `${step} ${code}`
    const seen = into.shadow.get(key)
    if (seen) seen.lines++
    else into.shadow.set(key, { step, code, lines: 1 })
  }
  const unknown = after.unknown ?? before.unknown
  if (unknown !== null) {
    into.unknown.set(unknown, (into.unknown.get(unknown) ?? 0) + 1)
    return
  }
  addCosts(into, line, before, after)
  if (after.isEstimate) into.estimated++
  if (after.isResized && after.charged > 0n) into.resized++
  if (isSame(before, after)) return
  into.changed++
  const change = changeOf(into, before, after)
  change.lines++
  if (change.direction === 'refused') into.refused++
  if (change.direction === 'admitted') into.admitted++
  if (change.examples.length < MAX_EXAMPLES) change.examples.push(line.id)
  count(change.accounts, line.who?.account ?? ANONYMOUS)
  count(change.keys, line.who?.key ?? ANONYMOUS)
}

/** The beginning of the reason why a line is unknown; the id of the step follows. */
export const NOT_RUN = 'not run: '

/** Number of lines that were not compared because a step needs data that is not in the log. The step may refuse them. */
export function mayBeRefusedOf({ unknown }: Comparison): number {
  return [...unknown].reduce((sum, [why, lines]) => sum + (why === 'words' || why.startsWith(NOT_RUN) ? lines : 0), 0)
}

/** Number of lines that were not compared, for any reason. */
export function unknownOf({ unknown }: Comparison): number {
  return [...unknown.values()].reduce((sum, lines) => sum + lines, 0)
}

const ANONYMOUS = { id: '', name: '' }

function isSame(one: Side, other: Side): boolean {
  return (
    one.status === other.status &&
    one.code === other.code &&
    one.decidedBy === other.decidedBy &&
    (one.status !== null || one.outcome === other.outcome)
  )
}

function changeOf({ changes }: Comparison, before: Verdict, after: Verdict): Change {
  const key = `${before.status} ${before.code} ${before.decidedBy} > ${after.status} ${after.code} ${after.decidedBy}`
  let change = changes.get(key)
  if (!change) {
    change = {
      before: sideOf(before),
      after: sideOf(after),
      direction: directionOf(before, after),
      lines: 0,
      accounts: new Map(),
      keys: new Map(),
      examples: [],
    }
    changes.set(key, change)
  }
  return change
}

function sideOf({ status, code, decidedBy, outcome }: Side): Side {
  return { status, code, decidedBy, outcome }
}

function directionOf(before: Side, after: Side): Direction {
  if (before.code === null && after.code !== null) return 'refused'
  return before.code !== null && after.code === null ? 'admitted' : 'other'
}

function count(into: Map<string, CountedChange>, { id, name }: { readonly id: string; readonly name: string }): void {
  const seen = into.get(id)
  if (seen) seen.lines++
  else into.set(id, { name, lines: 1 })
}

function addCosts(into: Comparison, line: LogLine, before: Verdict, after: Verdict): void {
  if (before.charged === 0n && after.charged === 0n) return
  const account = line.who?.account ?? ANONYMOUS
  const model = line.model ?? line.request.model ?? line.route
  let ofAccount = into.accounts.get(account.id)
  if (!ofAccount) into.accounts.set(account.id, (ofAccount = { ...noCost(), name: account.name }))
  let ofModel = into.models.get(model)
  if (!ofModel) into.models.set(model, (ofModel = noCost()))
  for (const cost of [into.cost, ofAccount, ofModel]) {
    cost.before += before.charged
    cost.after += after.charged
    if (after.isEstimate) cost.estimated += after.charged
  }
}

function noCost(): Cost {
  return { before: 0n, after: 0n, estimated: 0n }
}
