/** Plays an answer to a handler in time: paced, paused when the handler is full, gone when it gives up. */
import type { AnswerHandler } from '../handler.ts'

/** Runs something after a while; what it returns cancels that. */
export type SetTimer = (run: () => void, ms: number) => () => void

/** An answer with the times between its parts. */
export interface Answer {
  readonly status: number
  readonly headers: Record<string, string>
  /** Before the head. */
  readonly waitMs: number
  readonly pieces: Iterator<{ readonly bytes: Buffer; readonly waitMs: number }>
}

/** How many pieces without a wait are handed on in one go; then others get their turn. */
const BURST = 64

/** The timers of Node. */
export const systemTimer: SetTimer = (run, ms) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** Calls `make` for the answer one turn after `onConnect`, and hands it on as `AnswerHandler` describes. */
export function play(make: () => Answer | Promise<Answer>, handler: AnswerHandler, setTimer: SetTimer): void {
  let over = false
  let paused = false
  let running = false
  let waited = false
  let cancelTimer: (() => void) | null = null
  let answer: Answer | null = null
  let piece: { readonly bytes: Buffer; readonly waitMs: number } | null = null

  handler.onConnect(stop)
  later(0, start)

  function stop(): void {
    over = true
    cancelTimer?.()
    cancelTimer = null
    answer = piece = null
  }

  function later(ms: number, then: () => void): void {
    if (over) return
    cancelTimer = setTimer(() => {
      cancelTimer = null
      running = true
      try {
        then()
      } catch (error) {
        fail(error)
      } finally {
        running = false
      }
    }, ms)
  }

  function start(): void {
    const made = make()
    if (made instanceof Promise) void made.then(begin, fail)
    else begin(made)
  }

  function begin(made: Answer): void {
    if (over) return
    answer = made
    later(answer.waitMs, () => {
      handler.onHeaders(answer!.status, answer!.headers, resume)
      advance()
    })
  }

  function resume(): void {
    if (!paused || over) return
    paused = false
    // From inside a callback the loop below goes on by itself.
    if (!running) later(0, advance)
  }

  function advance(): void {
    for (let burst = 0; answer && !paused; burst++) {
      if (!piece) {
        const next = answer.pieces.next()
        if (next.done) {
          stop()
          handler.onComplete()
          return
        }
        piece = next.value
        waited = piece.waitMs === 0
      }
      if (!waited || burst === BURST) {
        later(waited ? 0 : piece.waitMs, advance)
        waited = true
        return
      }
      hand(piece.bytes)
    }
  }

  function hand(bytes: Buffer): void {
    piece = null
    paused = true
    // `resume` called from inside onData has already cleared the flag; then its false means nothing any more.
    const more = handler.onData(bytes)
    if (more) paused = false
  }

  /** What the making or the handler throws ends the answer; behind its end there is nobody left to tell. */
  function fail(error: unknown): void {
    if (over) throw error
    stop()
    handler.onError(error instanceof Error ? error : new Error(String(error)))
  }
}
