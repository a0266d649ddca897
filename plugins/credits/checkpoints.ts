/**
 * Every five seconds the ledger is told how far each open stream has come, so that after a crash the account is charged
 * for what it got and the operator loses five seconds at most.
 */
import type { Checkpoint, Ledger, Log } from '#contract'

export const CHECKPOINT_EVERY_MS = 5_000

/** A stream under way. */
export interface Followed {
  readonly exchange: string
  /** Output tokens so far; a stream that did not move is not written again. */
  tokens(): number
  sofar(): Checkpoint
}

export interface Checkpoints {
  follow(stream: Followed): () => void
  stop(): void
}

export function startCheckpoints(ledger: Ledger, log: Log, everyMs = CHECKPOINT_EVERY_MS): Checkpoints {
  const streams = new Map<Followed, number>()
  let timer: NodeJS.Timeout | null = null
  const round = () => {
    if (streams.size === 0 && timer) {
      clearInterval(timer)
      timer = null
      return
    }
    const moved: Checkpoint[] = []
    for (const [stream, before] of streams) {
      const tokens = stream.tokens()
      if (tokens === before) continue
      streams.set(stream, tokens)
      moved.push(stream.sofar())
    }
    if (moved.length === 0) return
    // A checkpoint that fails costs nothing now: the settle at the end is what counts.
    ledger
      .checkpoint(moved)
      .catch((error: unknown) => log.warn({ error: String(error) }, 'checkpoints could not be written'))
  }
  return {
    follow(stream) {
      streams.set(stream, 0)
      if (!timer) {
        timer = setInterval(round, everyMs)
        timer.unref()
      }
      return () => streams.delete(stream)
    },
    stop() {
      streams.clear()
      if (timer) clearInterval(timer)
      timer = null
    },
  }
}
