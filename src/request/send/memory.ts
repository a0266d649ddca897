/** The memory of bodies and whole answers: the share of each account, and how it grows. */
import { type Account, addressGroup, type Chat, refuse } from '#contract'
import { freeShare, type Room, type ShareLimits, Shares } from '../http/shares.ts'

/** The assumed size of a whole answer before it arrives: a fixed part, and bytes for each token of its cap. */
const MIN_ANSWER_BYTES = 16 * 1024
const BYTES_A_TOKEN = 8
/** Limits the guess, because most answers stay far below their token cap; 512 such guesses fill half of 256 MiB, one account's share. */
const MAX_GUESSED_BYTES = 256 * 1024

/** The fields of an exchange that memory accounting uses. */
export interface MemoryUser {
  readonly account: Account | undefined
  readonly chat: Chat | undefined
  readonly address: string
  /** Bytes that are reserved for its whole answer: an estimate before the request is sent, the real size once it is known. */
  answerBytes: number
  /** The group of its address, while the account is unknown; null until needed. */
  network: string | null
}

export interface Memory {
  /** The room that counts the body of a request. */
  forBody(exchange: MemoryUser): Room
  /** Reserves memory for a whole answer before the request is sent, when a refusal costs nothing yet. Throws the refusal `overloaded`. */
  reserveAnswer(exchange: MemoryUser): void
  /** Counts the collected part of an answer if it exceeds the reservation. @returns false: no room */
  growAnswer(exchange: MemoryUser, bytes: number): boolean
  /** Sets the real size of an answer; 0 once it was delivered or the client disconnected. */
  countAnswer(exchange: MemoryUser, bytes: number): void
}

/** @param limits those of the serving configuration */
export function createMemory(limits: () => { readonly bodyBytes: number; readonly bodyBytesInflight: number }): Memory {
  const share = freeShare(() => limits().bodyBytes)
  const shares: ShareLimits = { total: () => limits().bodyBytesInflight, share }
  const bodies = new Shares({ total: () => shares.total() - strangersBodies.bytes, share })
  /** Bodies of unidentified clients. They have at most a quarter, so that the others always have room. */
  const strangersBodies = new Shares({
    total: () => Math.min(Math.max(shares.total() / 4, limits().bodyBytes), shares.total() - bodies.bytes),
    share,
  })
  /** Whole answers that are awaited, and those that wait for their clients. */
  const answers = new Shares(shares)

  return {
    forBody(exchange) {
      const { account } = exchange
      return account ? bodies.of(account.id) : strangersBodies.of(ownerOf(exchange))
    },
    reserveAnswer(exchange) {
      const { chat } = exchange
      const tokens = chat ? chat.cap * chat.choices : 0
      const bytes = Math.min(MIN_ANSWER_BYTES + tokens * BYTES_A_TOKEN, MAX_GUESSED_BYTES)
      const owner = ownerOf(exchange)
      if (!answers.take(owner, bytes)) {
        // An owner's first answer always has room, whatever others leave unread.
        if (answers.held(owner) > 0) {
          throw refuse('overloaded', { retryAfterMs: 1000, detail: 'too many bytes of unread answers' })
        }
        answers.add(owner, bytes)
      }
      exchange.answerBytes = bytes
    },
    growAnswer(exchange, bytes) {
      const more = bytes - exchange.answerBytes
      if (more <= 0) return true
      const owner = ownerOf(exchange)
      if (!answers.take(owner, more)) {
        if (answers.held(owner) > exchange.answerBytes) return false
        answers.add(owner, more)
      }
      exchange.answerBytes = bytes
      return true
    },
    countAnswer(exchange, bytes) {
      answers.add(ownerOf(exchange), bytes - exchange.answerBytes)
      exchange.answerBytes = bytes
    },
  }
}

/** The owner of an exchange's memory: the account or, while it is unknown, the address group. */
export function ownerOf(exchange: MemoryUser): string {
  const { account, address } = exchange
  if (account) return account.id
  exchange.network ??= addressGroup(address)
  return exchange.network
}
