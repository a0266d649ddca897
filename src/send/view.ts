/** What a format for clients may know of the exchange: made when its request is read, when the account is known. */
import type { Boxes, InboundView } from '#contract'
import type { Vault } from '../store/store.ts'
import { ExchangeAnswers } from './kept.ts'
import type { Memory } from './memory.ts'
import type { SenderParts, Trip } from './trip.ts'

/** Thoughts in `encrypted_content`; responses at rest have another purpose. */
const THOUGHT = 'thought'

export function viewOf(trip: Trip, { store }: Pick<SenderParts, 'store'>, memory: Memory): InboundView {
  const { exchange, generation, route } = trip
  if (route.config.keepResponsesMs !== null && exchange.account) {
    const { bodyBytes: mostBytes } = generation.configuration.limits
    const { account, bytes } = exchange
    const sizes = { mostBytes, bodyBytes: bytes.length }
    trip.kept ??= new ExchangeAnswers({ store, account: account.id, ...sizes, room: memory.forBody(trip) })
  }
  return {
    exchange: exchange.id,
    createdAt: Math.floor(exchange.startedAt / 1000),
    findModel: generation.catalog.find,
    boxes: new AccountBoxes(store.vault, exchange.account?.id ?? ''),
    kept: trip.kept ?? undefined,
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
