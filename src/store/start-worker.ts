/** Starts a thread of the process: the ledger's thread or a serving thread. */
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { Worker, type WorkerOptions } from 'node:worker_threads'

/** @param entry the thread's module */
export function startWorker(entry: URL, options: WorkerOptions): Worker {
  const cache = getCompileCacheDir()
  return new Worker(entry, {
    ...options,
    // The thread prints nothing. Node's default pipes would make the process's own output non-blocking.
    stdout: true,
    stderr: true,
    // Of the environment the thread needs only the compile cache. Stripping the types again would take 36 MiB.
    env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
  })
}
