/** Passes an answer to a handler over time: paced, paused while the handler is full, stopped when it aborts. */
import type { AnswerHandler } from '../handler.ts'

/** Runs a function after `ms`. The returned function cancels it. */
export type SetTimer = (run: () => void, ms: number) => () => void

/** An answer with the delays between its pieces. */
export interface Answer {
  readonly status: number
  readonly headers: Record<string, string>
  /** Delay before the head. */
  readonly waitMs: number
  readonly pieces: Iterator<{ readonly bytes: Buffer; readonly waitMs: number }>
}

/** Number of pieces without a delay that are passed on in one turn of the event loop. */
const BURST = 64

export const systemTimer: SetTimer = (run, ms) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** Calls `make` one turn after `onConnect` and passes the answer on as `AnswerHandler` describes. */
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
    // Inside a callback, the loop in `advance` continues by itself.
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
      deliver(piece.bytes)
    }
  }

  function deliver(bytes: Buffer): void {
    piece = null
    paused = true
    // `resume`, called inside onData, has already cleared the flag. The result of onData is then ignored if it is false.
    const more = handler.onData(bytes)
    if (more) paused = false
  }

  /** An error of `make` or of the handler ends the answer. After the end it is thrown, because no receiver is left. */
  function fail(error: unknown): void {
    if (over) throw error
    stop()
    handler.onError(error instanceof Error ? error : new Error(String(error)))
  }
}
