/** Writes the usage of each open stream to the ledger every five seconds. After a crash the operator loses at most five seconds. */
import type { Checkpoint, Ledger, Log } from '#contract'

export const CHECKPOINT_EVERY_MS = 5_000

/** An open stream. */
export interface OpenStream {
  readonly exchange: string
  /** Output tokens so far. A stream whose count has not changed is not written again. */
  tokens(): number
  sofar(): Checkpoint
}

export interface Checkpoints {
  follow(stream: OpenStream): () => void
  stop(): void
}

export function startCheckpoints(ledger: Ledger, log: Log, everyMs = CHECKPOINT_EVERY_MS): Checkpoints {
  const streams = new Map<OpenStream, number>()
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
    // A failed checkpoint does no harm unless the process dies: the settle replaces it.
    ledger
      .checkpoint(moved)
      .catch((error: unknown) => log.warn({ error: String(error) }, 'failed to write checkpoints'))
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
