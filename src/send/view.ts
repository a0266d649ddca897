/** What a format for clients may know of the exchange: made when its request is read, when the account is known. */
import { type Boxes, type InboundDialect, type InboundView, isRefusal, slices } from '#contract'
import type { Vault } from '../store/store.ts'
import { ExchangeAnswers } from './kept.ts'
import type { Memory } from './memory.ts'
import type { SenderParts, Trip } from './trip.ts'

/** Thoughts in `encrypted_content`; responses at rest have another purpose. */
const THOUGHT = 'thought'

export function viewOf(trip: Trip, { store }: Pick<SenderParts, 'store'>, memory: Memory): InboundView {
  const { exchange, generation } = trip
  return {
    exchange: exchange.id,
    createdAt: Math.floor(exchange.startedAt / 1000),
    findModel: generation.catalog.find,
    boxes: new AccountBoxes(store.vault, exchange.account?.id ?? ''),
    kept: keptOf(trip, store, memory) ?? undefined,
  }
}

/** Null: the route keeps no answers, or nobody knows whose they would be. */
function keptOf(trip: Trip, store: SenderParts['store'], memory: Memory): ExchangeAnswers | null {
  const { exchange, generation, route } = trip
  if (route.config.keepResponsesMs === null || !exchange.account) return null
  const { bodyBytes: mostBytes } = generation.configuration.limits
  const { account, bytes } = exchange
  const sizes = { mostBytes, bodyBytes: bytes.length }
  trip.kept ??= new ExchangeAnswers({ store, account: account.id, ...sizes, room: memory.forBody(trip) })
  return trip.kept
}

/**
 * Reads the kept answers that a request names, in turns of the event loop, before the first step asks for the request. Where
 * no step has said yet whose it is, they are read when it is asked for.
 */
export async function readKeptAhead(
  trip: Trip,
  inbound: InboundDialect | undefined,
  { store }: Pick<SenderParts, 'store'>,
  memory: Memory,
): Promise<void> {
  const kept = inbound?.readAhead ? keptOf(trip, store, memory) : null
  if (kept === null) return
  try {
    await slices.run(inbound!.readAhead!(trip.exchange.json(), kept), trip.exchange.signal)
  } catch (error) {
    // The step that asks for the request is the one that refuses it.
    if (!isRefusal(error)) throw error
  }
}

/** On a route without keys nobody is anybody: what is sealed there opens there. */
class AccountBoxes implements Boxes {
  readonly #vault: Vault
  readonly #account: string

  constructor(vault: Vault, account: string) {
    this.#vault = vault
    this.#account = account
  }

  seal(text: string): string {
    return this.#vault.seal(THOUGHT, this.#account, Buffer.from(text)).toString('base64url')
  }

  open(box: string): string | null {
    return this.#vault.open(THOUGHT, this.#account, Buffer.from(box, 'base64url'))?.toString('utf8') ?? null
  }
}
