/** The end of the process: signals, the drain, the listeners' last answers, and what nobody has caught. */
import type { Logger } from '../observe/log.ts'
import type { ServingEnd } from './serving.ts'

export interface ShutdownParts {
  /** The operators' listener stays to the end: it tells /readyz and /metrics while streams finish. */
  readonly serving: ServingEnd
  readonly log: Logger
  /** How long streams may go on, and what could not be written is tried again. */
  drainMs(): number
  readonly undo: readonly (() => unknown)[]
  finish(code: number): void
}

/**
 * Undoes what was done, the last first. One that fails keeps none of the others: the store closes, and its lock is given
 * back. Answers whether all went well.
 */
export async function undoAll(undo: readonly (() => unknown)[], { log }: Logger): Promise<boolean> {
  let isOrderly = true
  for (const step of [...undo].reverse()) {
    try {
      await step()
    } catch (error) {
      isOrderly = false
      log.error({ error }, 'the end was not orderly')
    }
  }
  return isOrderly
}

/** What is left after the cut has this long to settle. */
const AFTER_CUT_MS = 15_000
/** What the process holds has this long to be let go of, once no exchange is under way. */
const UNDO_MS = 20_000

/**
 * First call: no new work, streams go on until they are done or `drain` is over. Second call, or time over: each gets an
 * error event. Either way everything is settled before the store closes: settles that could not be written are waited for
 * as long as streams are. The exit code is 1 when that did not succeed.
 */
export function createShutdown({ serving, log, drainMs, undo, finish }: ShutdownParts): () => void {
  const { promise: cutting, resolve: startCut } = Promise.withResolvers<void>()
  let calls = 0
  let isIdle = false
  let timer: NodeJS.Timeout
  const ended = (exitCode: number) => {
    clearTimeout(timer)
    log.flush()
    finish(exitCode)
  }
  const cut = () => {
    clearTimeout(timer)
    startCut()
    serving.cut()
    // A step that hangs before it went on could hold the process for ever; recovery settles what it leaves open.
    timer = setTimeout(() => {
      log.log.error({ inflight: serving.inflight() }, 'exchanges did not end after they were cut')
      ended(1)
    }, AFTER_CUT_MS)
  }
  return () => {
    calls++
    // Once all are over there is nothing to cut, and the rest has its own time.
    if (calls === 2 && !isIdle) cut()
    if (calls > 1) return
    log.log.info({ inflight: serving.inflight(), drain_ms: drainMs() }, 'shutting down')
    serving.drain()
    timer = setTimeout(cut, drainMs())
    void serving
      .idle()
      .then(() => serving.waiting())
      .then(waiting => {
        if (waiting > 0)
          log.log.warn({ settles: waiting }, 'every exchange has ended; waiting for settles to be written')
        return Promise.race([serving.safe(), cutting])
      })
      .then(() => {
        isIdle = true
        clearTimeout(timer)
        timer = setTimeout(() => {
          log.log.error({}, 'every exchange has ended, but what the gateway holds was not let go of in time')
          ended(1)
        }, UNDO_MS)
        return undoAll(undo, log)
      })
      .then(isOrderly => {
        if (isOrderly) log.log.info({}, 'ended')
        ended(isOrderly ? 0 : 1)
      })
  }
}

/** npm passes Ctrl-C on although the terminal has told us already: so soon after the first it is the same one. */
const SAME_INTERRUPT_MS = 500

/**
 * SIGTERM and SIGINT drain, a second one cuts. A closed terminal (SIGHUP) is an end too; without a terminal SIGHUP asks
 * for a reload.
 */
export function followSignals(end: () => void, reload: () => void, finished: Promise<number>): void {
  let interruptedAt = Number.NEGATIVE_INFINITY
  listenUntil(finished, {
    SIGTERM: end,
    SIGINT() {
      const now = performance.now()
      if (now - interruptedAt < SAME_INTERRUPT_MS) return
      interruptedAt = now
      end()
    },
    SIGHUP() {
      if (process.stdin.isTTY) end()
      else reload()
    },
  })
}

/**
 * A promise that nobody waited for is a bug of one plugin, and no reason to end the answers of all the others: it is
 * told and counted. An error that nobody caught may have left anything half done: Node ends the process, and recovery
 * settles what is open; here it only gets its line in the log.
 */
export function followMistakes(count: () => void, log: Logger, finished: Promise<number>): void {
  listenUntil(finished, {
    unhandledRejection(error) {
      count()
      log.log.error({ error }, 'a rejection that nobody handled')
    },
    uncaughtExceptionMonitor(error) {
      log.log.error({ error }, 'an error that nobody caught; the process ends')
      log.flush()
    },
  })
}

/** Listens to the process until the gateway has ended. */
function listenUntil(finished: Promise<number>, listeners: Readonly<Record<string, (reason: unknown) => void>>): void {
  for (const [name, listener] of Object.entries(listeners)) process.on(name, listener)
  void finished.then(() => {
    for (const [name, listener] of Object.entries(listeners)) process.off(name, listener)
  })
}
