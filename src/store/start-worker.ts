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
    // The thread gets nothing of the environment but the compile cache, which saves stripping the types again: 36 MiB.
    env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
  })
}
