/** Starts a thread of the process: the ledger's, and those that serve. */
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { Worker, type WorkerOptions } from 'node:worker_threads'

/** @param entry the thread's module */
export function startWorker(entry: URL, options: WorkerOptions): Worker {
  const cache = getCompileCacheDir()
  return new Worker(entry, {
    ...options,
    // It writes nothing there; and the pipes that it would get otherwise make the process's own output non-blocking.
    stdout: true,
    stderr: true,
    // Nothing of the process's environment is its affair. With the cache it need not strip the types of its files again: 36 MiB.
    env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
  })
}
