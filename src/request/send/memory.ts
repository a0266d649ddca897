/** The memory of bodies and whole answers: who has how much of it, and who gets more. */
import { type Account, addressGroup, type Chat, refuse } from '#contract'
import { freeShare, type Room, type ShareLimits, Shares } from '../http/shares.ts'

/** What a whole answer is taken for before it is there. */
const MIN_ANSWER_BYTES = 16 * 1024
const BYTES_A_TOKEN = 8
/** Most answers are far shorter than their cap: 512 at once have room in an account's half of 256 MiB. */
const MAX_GUESSED_BYTES = 256 * 1024

/** What an exchange says and keeps of its memory. */
export interface MemoryUser {
  readonly account: Account | undefined
  readonly chat: Chat | undefined
  readonly address: string
  /** Bytes that are counted for its whole answer: a guess before it is asked for, and what it is once it is there. */
  answerBytes: number
  /** The group of its address, while the account is unknown; null until it is asked for. */
  network: string | null
}

export interface Memory {
  /** Where the body of a request is counted. */
  forBody(exchange: MemoryUser): Room
  /** Counts a whole answer before it is asked for; throws the refusal `overloaded`. Before the dispatch it costs nothing. */
  reserveAnswer(exchange: MemoryUser): void
  /** Counts what has been collected of an answer, where that is more than was counted for it. @returns false: no room */
  growAnswer(exchange: MemoryUser, bytes: number): boolean
  /** Counts what the answer really is; 0 when its client has it, or has gone. */
  countAnswer(exchange: MemoryUser, bytes: number): void
}

/** @param limits those of the configuration that serves now */
export function createMemory(limits: () => { readonly bodyBytes: number; readonly bodyBytesInflight: number }): Memory {
  const share = freeShare(() => limits().bodyBytes)
  const shares: ShareLimits = { total: () => limits().bodyBytesInflight, share }
  const bodies = new Shares({ total: () => shares.total() - strangersBodies.bytes, share })
  /** Of clients that are not known yet. They have a quarter at most: whatever they send, the others keep their room. */
  const strangersBodies = new Shares({
    total: () => Math.min(Math.max(shares.total() / 4, limits().bodyBytes), shares.total() - bodies.bytes),
    share,
  })
  /** Whole answers that are to come, and those that wait for their clients. */
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
        // The first one has room in any case: whatever others do not read.
        if (answers.held(owner) > 0) {
          throw refuse('overloaded', { retryAfterMs: 1000, detail: 'too many bytes of answers wait for their clients' })
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

/** Whose memory an exchange uses: the account's, or while that is not known, the address's. */
export function ownerOf(exchange: MemoryUser): string {
  const { account, address } = exchange
  if (account) return account.id
  exchange.network ??= addressGroup(address)
  return exchange.network
}
