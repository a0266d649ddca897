/** Finds an ended exchange for operators: in the memory of the gateway, else by its receipt. */
import type { Receipt } from '#contract'
import type { Store } from '../store/store.ts'
import type { RecentTrails } from './api-parts.ts'
import { namesOf, showReceipt, showTime } from './show.ts'
import type { PastExchangeView } from './views.ts'

/** Undefined: it is not in memory and has no receipt. @param past null: no gateway runs */
export async function findExchange(
  store: Store,
  past: RecentTrails | undefined,
  id: string,
): Promise<PastExchangeView | undefined> {
  const remembered = await past?.exchange(id)
  const receipt = await store.findReceipt(id)
  if (remembered) return { ...remembered, receipt: receipt ? showReceipt(receipt) : null }
  return receipt && fromReceipt(store, receipt)
}

async function fromReceipt(store: Store, kept: Receipt): Promise<PastExchangeView> {
  const receipt = showReceipt(kept)
  return {
    id: kept.id,
    kept: 'receipt',
    trace_id: null,
    started_at: showTime(kept.createdAt),
    ms: null,
    route: null,
    policy: null,
    method: null,
    account_id: kept.accountId,
    account: (await namesOf(store, [kept.accountId]))(kept.accountId),
    key_id: kept.keyId,
    key: (await store.findKey(kept.keyId))?.name ?? null,
    tags: receipt.tags,
    model: kept.model,
    stream: null,
    status: null,
    outcome: kept.outcome,
    code: kept.code,
    decided_by: deciderOf(kept),
    trail: receipt.trail,
    attempts: receipt.attempts,
    receipt,
  }
}

/** As far as the trail shows it: the upstream call has no line there. */
function deciderOf({ trail, code, outcome }: Receipt): string | null {
  if (outcome === 'answered') return trail.find(({ verdict }) => verdict === 'answered')?.step ?? null
  if (code === null) return null
  return trail.find(entry => entry.verdict === 'refused' && entry.code === code)?.step ?? null
}

/** The message for an exchange that was not found. @param most null: no gateway runs */
export function notRemembered(id: string, most: number | null): string {
  const remembered =
    most === null
      ? 'Without a running gateway its last requests are not known'
      : `The gateway remembers the last ${most.toLocaleString('en')} since its start`
  return `Nothing is known of ${id}. ${remembered}. Requests with a hold have a receipt, which is kept for ever.`
}
