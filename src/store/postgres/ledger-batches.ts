/**
 * The ledger's operations of a whole group as one statement (`write_many` in the schema), for a server that is a way off. What
 * is not plain is done by the operation itself (ledger.ts), in its place in the order.
 */
import type { Checkpoint, Clock, HoldRequest, HoldResult, NanoUsd } from '#contract'
import type { Database } from '../database.ts'
import type { LedgerOperations } from '../ledger.ts'
import type { OpenHolds } from '../open-holds.ts'
import type { SettleRecord } from '../settle-record.ts'
import type { UsageWriter } from '../usage.ts'
import { WRITE_LOCK } from './postgres-schema.ts'

/** As it waits in a group: one of the ledger's by name, or any other. */
export interface NamedOperation {
  readonly name: string
  readonly request: unknown
}

export interface BatchParts {
  readonly ledger: LedgerOperations
  readonly open: OpenHolds
  readonly usage: UsageWriter
  readonly clock: Clock
}

type Kind = 'hold' | 'settle' | 'checkpoint'

/** One thing that `write_many` does, as it takes it, and what to do when it was done. */
interface Line {
  readonly index: number
  readonly fields: Readonly<Record<string, unknown>>
}

type Done = {
  readonly available: NanoUsd | null
  readonly account: string
  readonly key: string
  readonly model: string
}

/** How often keys or accounts were changed, in `meta`; and the channel on which a change is told. */
export const KEY_CHANGES = 'key_changes'
/** What a key may do is read again after these. */
const CHANGES_KEYS: ReadonlySet<string> = new Set(['changeKey', 'rotateKey', 'revokeKey', 'freeze', 'setPlan'])
/** These write what only their replica does. */
const OF_REPLICA: ReadonlySet<string> = new Set(['renewLease', 'takeOver', 'forgetReplica', 'probe', 'detach', 'last'])

const isBatched = ({ name }: NamedOperation): boolean => name === 'hold' || name === 'settle' || name === 'checkpoint'

/** @param apply does one operation by itself */
export function createBatches(
  database: Database,
  { ledger, open, usage, clock }: BatchParts,
  apply: (operation: NamedOperation) => unknown,
): (operations: readonly NamedOperation[]) => unknown[] {
  const write = database.prepareMoney('SELECT * FROM write_many(CAST(? AS JSON), ?)')
  // One writer at a time, as in SQLite: these operations look before they write.
  const lock = database.prepare('SELECT pg_advisory_xact_lock(?)')
  const tell = database.prepare(`
    INSERT INTO meta (name, value) VALUES ('${KEY_CHANGES}', '1')
    ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS BIGINT) + 1 AS TEXT)
    RETURNING pg_notify('${KEY_CHANGES}', '')`)

  /** From one place on, as far as it goes; the index of the first operation that is not done. */
  function writeFrom(operations: readonly NamedOperation[], first: number, end: number, results: unknown[]): number {
    const now = clock.now()
    const lines = operations.slice(first, end).flatMap((operation, index) => linesOf(operation, first + index))
    const done = write.all(
      JSON.stringify(
        lines.map(line => line.fields),
        text,
      ),
      now,
    ) as unknown as Done[]
    for (const [place, row] of done.entries()) take(operations, lines[place]!.index, row, now, results)
    return done.length === lines.length ? end : lines[done.length]!.index
  }

  function take(
    operations: readonly NamedOperation[],
    index: number,
    row: Done,
    now: number,
    results: unknown[],
  ): void {
    const { name, request } = operations[index]!
    if (name === 'hold') {
      open.opened((request as HoldRequest).exchange)
      results[index] = { held: true, available: row.available! } satisfies HoldResult
    } else if (name === 'settle') {
      const settle = request as SettleRecord
      open.closed(settle.exchange)
      usage.add(row, settle, now)
      results[index] = 'settled'
    }
  }

  return operations => {
    const results: unknown[] = new Array(operations.length).fill(undefined)
    // Before anything else is locked, so that no two wait for each other.
    if (operations.some(operation => !isBatched(operation) && !OF_REPLICA.has(operation.name))) lock.get(WRITE_LOCK)
    if (operations.some(({ name }) => CHANGES_KEYS.has(name))) tell.get()
    for (let index = 0; index < operations.length; ) {
      let end = index
      while (end < operations.length && isBatched(operations[end]!)) end++
      if (end > index) index = writeFrom(operations, index, end, results)
      if (index === operations.length) break
      // Another one than the ledger's, or one that is refused or repeated.
      const operation = operations[index]!
      results[index] = isBatched(operation)
        ? ledger[operation.name as Kind](operation.request as never)
        : apply(operation)
      index++
    }
    return results
  }
}

/** 64 bits are more than a number of JSON has. */
function text(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

function linesOf({ name, request }: NamedOperation, index: number): Line[] {
  if (name === 'hold') return [{ index, fields: holdFields(request as HoldRequest) }]
  if (name === 'settle') return [{ index, fields: settleFields(request as SettleRecord) }]
  return (request as readonly Checkpoint[]).map(({ exchange, amount, promptTokens, completionTokens }) => ({
    index,
    fields: { what: 2, exchange, amount, prompt_tokens: promptTokens, completion_tokens: completionTokens },
  }))
}

function holdFields({ exchange, accountId, amount, keyId, model, price, capTokens, idempotencyKey }: HoldRequest) {
  return {
    what: 0,
    exchange,
    account: accountId,
    amount,
    key: keyId,
    model,
    price_input: price.input,
    price_cached_input: price.cachedInput,
    price_cache_write: price.cacheWrite,
    price_output: price.output,
    price_request: price.request,
    price_search: price.search ?? null,
    cap_tokens: capTokens,
    idempotency_key: idempotencyKey,
  }
}

function settleFields(settle: SettleRecord) {
  return {
    what: 1,
    exchange: settle.exchange,
    amount: settle.amount,
    overrun: settle.overrun,
    source: settle.source,
    outcome: settle.outcome,
    code: settle.code,
    prompt_tokens: settle.promptTokens,
    cached_tokens: settle.cachedTokens,
    cache_write_tokens: settle.cacheWriteTokens,
    completion_tokens: settle.completionTokens,
    reasoning_tokens: settle.reasoningTokens,
    searches: settle.searches || null,
    attempts: settle.attempts,
    trail: settle.trail,
  }
}
