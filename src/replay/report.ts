/** The result of a replay, sorted and as JSON: the changes with most lines first, then the affected accounts and keys. */
import { formatMoney } from '#contract'
import type { Change, Cost, CountedChange, Side } from './compare.ts'
import type { ReplayResult } from './replay.ts'

/** An account or a key that a change affects. */
export interface AffectedAccounts {
  readonly id: string
  readonly name: string
  readonly lines: number
}

/** The changes, largest first. */
export function changesOf({ found }: ReplayResult): Change[] {
  return [...found.changes.values()].sort((one, other) => other.lines - one.lines)
}

/** Accounts or keys, those with most lines first. */
export function affectedBy(counted: ReadonlyMap<string, CountedChange>): AffectedAccounts[] {
  return [...counted]
    .map(([id, { name, lines }]) => ({ id, name, lines }))
    .sort((one, other) => other.lines - one.lines || (one.id < other.id ? -1 : 1))
}

/** Costs by id, largest difference first. */
export function costsOf<Item extends Cost>(costs: ReadonlyMap<string, Item>): [string, Item][] {
  return [...costs].sort(([, one], [, other]) => {
    const [left, right] = [differenceOf(one), differenceOf(other)]
    return left === right ? 0 : left > right ? -1 : 1
  })
}

function differenceOf({ before, after }: Cost): bigint {
  return after > before ? after - before : before - after
}

/** The whole result for scripts; amounts are strings with 9 decimals. */
export function reportJson(result: ReplayResult, { most }: { readonly most: number }): object {
  const { found, skipped, skippedCount, passedBy, late, twice, span, gaps } = result
  const who = (counted: ReadonlyMap<string, CountedChange>) => {
    const all = affectedBy(counted)
    return { count: all.length, most: all.slice(0, most) }
  }
  return {
    lines: found.lines,
    skipped: skippedCount,
    passed_by: passedBy,
    late,
    twice,
    from: span && new Date(span.from).toISOString(),
    to: span && new Date(span.to).toISOString(),
    changed: found.changed,
    refused: found.refused,
    admitted: found.admitted,
    changes: changesOf(result).map(({ before, after, direction, lines, accounts, keys, examples }) => ({
      before: sideJson(before),
      after: sideJson(after),
      direction,
      lines,
      accounts: who(accounts),
      keys: who(keys),
      examples,
    })),
    cost: costJson(found.cost),
    estimated_lines: found.estimated,
    resized_lines: found.resized,
    accounts: costsOf(found.accounts)
      .slice(0, most)
      .map(([id, cost]) => ({ id, name: cost.name, ...costJson(cost) })),
    models: costsOf(found.models)
      .slice(0, most)
      .map(([id, cost]) => ({ id, ...costJson(cost) })),
    shadow: [...found.shadow.values()],
    unknown: Object.fromEntries(found.unknown),
    gaps,
    skipped_lines: skipped,
  }
}

function sideJson({ status, code, decidedBy, outcome }: Side): object {
  return { status, code, decided_by: decidedBy, outcome }
}

function costJson({ before, after, estimated }: Cost): object {
  return {
    before: formatMoney(before),
    after: formatMoney(after),
    difference: formatMoney(after - before),
    estimated: formatMoney(estimated),
  }
}
