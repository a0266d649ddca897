/** Kept responses: encrypted here, and readable from memory until they are on disk. */
import { type Clock, type Sliced, waited } from '#contract'
import type { Database } from '../engine/database.ts'
import type { Promised } from '../promised.ts'
import type { KeptOutcome, Responses, Vault } from '../store.ts'
import type { Writer } from '../writer.ts'

/** Maximum size of all responses that wait to be written. */
export const MAX_WAITING_BYTES = 64 * 1024 * 1024

export interface ResponseReads {
  /** One encrypted part. */
  box(id: string, part: string, account: string, nowMs: number): Uint8Array | undefined
  isThere(id: string, account: string, nowMs: number): boolean
  /** Whether any response has expired. */
  isPast(nowMs: number): boolean
}

export interface Parts {
  readonly reads: ResponseReads | Promised<ResponseReads>
  readonly writer: Writer
  readonly vault: Vault
  readonly clock: Clock
}

export function createResponseReads(reader: Database): ResponseReads {
  const boxOf = reader.prepare(`
    SELECT box FROM response JOIN response_box ON response_box.response = response.id
    WHERE id = ? AND part = ? AND account = ? AND expires_at > ?`)
  const isThere = reader.prepare('SELECT 1 FROM response WHERE id = ? AND account = ? AND expires_at > ?')
  const isPast = reader.prepare('SELECT 1 FROM response WHERE expires_at <= ? LIMIT 1')
  return {
    box: (id, part, account, nowMs) => boxOf.get(id, part, account, nowMs)?.['box'] as Uint8Array | undefined,
    isThere: (id, account, nowMs) => isThere.get(id, account, nowMs) !== undefined,
    isPast: nowMs => isPast.get(nowMs) !== undefined,
  }
}

/** @param parts.reads reads committed responses; waiting ones are in memory */
export function createResponses({ reads, writer, vault, clock }: Parts): Responses {
  const waiting = new Map<string, { readonly account: string; readonly parts: ReadonlyMap<string, Buffer> }>()
  let waitingBytes = 0
  let isSweeping = false

  return {
    *read(id, account, part): Sliced<Buffer | undefined> {
      const early = waiting.get(id)
      if (early) return early.account === account ? early.parts.get(part) : undefined
      const found = reads.box(id, part, account, clock.now())
      const box = found instanceof Promise ? yield* waited(found) : found
      return box && ((yield* vault.openInSlices(purposeOf(id, part), account, box)) ?? undefined)
    },
    async keep(response): Promise<KeptOutcome> {
      const { id, account, keepMs, most, used } = response
      const parts = new Map(Object.entries(response.parts).map(([part, text]) => [part, Buffer.from(text)]))
      const bytes = [...parts.values()].reduce((sum, plain) => sum + plain.length, 0)
      if (bytes > most.responseBytes) return 'too_large'
      if (waitingBytes + bytes > MAX_WAITING_BYTES) return 'store_busy'
      waiting.set(id, { account, parts })
      waitingBytes += bytes
      try {
        const boxes = Object.fromEntries(
          [...parts].map(([part, plain]) => [part, vault.seal(purposeOf(id, part), account, plain)]),
        )
        const expiresAt = clock.now() + keepMs
        const operation = { id, account, expiresAt, boxes, mostBytes: most.accountBytes, used }
        for (;;) {
          const outcome = await writer.op('keepResponse', operation)
          if (outcome !== 'again') return outcome
          // A client that deleted it meanwhile must not find it again.
          if (!waiting.has(id)) return 'kept'
        }
      } finally {
        waiting.delete(id)
        waitingBytes -= bytes
      }
    },
    async remove(id, account) {
      const early = waiting.get(id)
      if (early ? early.account !== account : !(await reads.isThere(id, account, clock.now()))) return false
      waiting.delete(id)
      await writer.op('deleteResponse', { id, account })
      return true
    },
    async sweep() {
      if (isSweeping) return
      isSweeping = true
      try {
        while (await reads.isPast(clock.now())) await writer.op('sweepResponses', clock.now())
      } finally {
        isSweeping = false
      }
    },
  }
}

/** The purpose under which a box is encrypted. It has the row, so a box that was moved to another row cannot be opened. */
export const purposeOf = (id: string, part: string): string => `response ${id} ${part}`
