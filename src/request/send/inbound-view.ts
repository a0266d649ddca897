/** The exchange as a client format sees it: created when the request is read, after the account is known. */

import { type Boxes, type InboundView, isRefusal, slices } from '#contract'
import type { Vault } from '../../store/store.ts'
import { promptEstimate } from '../answer/meter.ts'
import { AnswerHistory } from './answer-history.ts'
import type { LiveExchange } from './live-exchange.ts'

/** The purpose of sealed reasoning in `encrypted_content`; stored responses have another one. */
const THOUGHT = 'thought'

export function viewOf(exchange: LiveExchange): InboundView {
  const { generation, account, host } = exchange
  const promptTokens = () => (exchange.chat ? promptEstimate(exchange.chat) : 0)
  return {
    exchange: exchange.id,
    createdAt: Math.floor(exchange.startedAt / 1000),
    findModel: generation.catalog.find,
    promptTokens,
    boxes: new AccountBoxes(host.store.vault, account?.id ?? ''),
    kept: keptOf(exchange) ?? undefined,
  }
}

/** Null: the route keeps no answers, or the account is unknown. */
function keptOf(exchange: LiveExchange): AnswerHistory | null {
  const { generation, live, account, bytes, host } = exchange
  if (live.config.keepResponsesMs === null || !account) return null
  const { bodyBytes: mostBytes } = generation.configuration.limits
  const sizes = { mostBytes, bodyBytes: bytes.length }
  const room = host.memory.forBody(exchange)
  exchange.kept ??= new AnswerHistory({ store: host.store, account: account.id, ...sizes, room })
  return exchange.kept
}

/**
 * Reads the kept answers that a request refers to, in turns of the event loop, before a step asks for the request. If no step has
 * identified the account yet, they are read on demand.
 */
export async function readKeptAhead(exchange: LiveExchange): Promise<void> {
  const { format } = exchange
  const kept = format?.readAhead ? keptOf(exchange) : null
  if (kept === null) return
  try {
    await slices.run(format!.readAhead!(exchange.json(), kept), exchange.signal)
  } catch (error) {
    // The step that reads the request gets the refusal again.
    if (!isRefusal(error)) throw error
  }
}

/** Seals texts for an account. On a route without keys all clients share the empty account. */
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
