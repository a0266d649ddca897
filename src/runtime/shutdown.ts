/** The shutdown of the process: signals, the drain, the listeners' last answers, and uncaught errors. */
import type { Logger } from '../observe/log.ts'
import type { ServingEnd } from './serving.ts'

export interface ShutdownParts {
  /** The operators' listener stays open to the end: it serves /readyz and /metrics while streams finish. */
  readonly serving: ServingEnd
  readonly log: Logger
  /** How long streams may continue, and failed writes are retried. */
  drainMs(): number
  readonly undo: readonly (() => unknown)[]
  finish(code: number): void
}

/**
 * Undoes the steps of the start in reverse order. A failure does not stop the others: the store closes, and its lock is released.
 * Resolves with whether all succeeded.
 */
export async function undoAll(undo: readonly (() => unknown)[], { log }: Logger): Promise<boolean> {
  let isOrderly = true
  for (const step of [...undo].reverse()) {
    try {
      await step()
    } catch (error) {
      isOrderly = false
      log.error({ error }, 'the shutdown failed')
    }
  }
  return isOrderly
}

/** How long remaining exchanges may take to settle after the cut. */
const AFTER_CUT_MS = 15_000
/** How long the process may take to release its resources, once no exchange is in progress. */
const UNDO_MS = 20_000

/**
 * The first call refuses new work, and streams continue until they end or `drain` is over. A second call, or the end of that time, sends
 * each stream an error event. Either way everything is settled before the store closes: failed settles are retried as long as streams may
 * continue. The exit code is 1 if that did not succeed.
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
    // A step that hangs before `next()` could hold the process for ever; recovery settles its open hold.
    timer = setTimeout(() => {
      log.log.error({ inflight: serving.inflight() }, 'exchanges did not end after they were cut')
      ended(1)
    }, AFTER_CUT_MS)
  }
  return () => {
    calls++
    // Once all have ended there is nothing to cut, and the rest has its own time.
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
        return Promise.race([serving.flushed(), cutting])
      })
      .then(() => {
        isIdle = true
        clearTimeout(timer)
        timer = setTimeout(() => {
          log.log.error({}, 'every exchange has ended, but some resources were not released in time')
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

/** npm forwards Ctrl-C although the terminal has already sent it: a second one within this time is ignored. */
const SAME_INTERRUPT_MS = 500

/** SIGTERM and SIGINT drain, a second one cuts. A closed terminal (SIGHUP) also ends the gateway; without a terminal SIGHUP reloads. */
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
 * An unhandled rejection is a bug of one plugin, which must not end the answers of all others: it is logged and counted. An uncaught
 * error may have left anything in an inconsistent state: Node ends the process, and recovery settles open holds. Here it is only logged.
 */
export function watchUncaughtErrors(count: () => void, log: Logger, finished: Promise<number>): void {
  listenUntil(finished, {
    unhandledRejection(error) {
      count()
      log.log.error({ error }, 'unhandled promise rejection')
    },
    uncaughtExceptionMonitor(error) {
      log.log.error({ error }, 'uncaught error; the process ends')
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
