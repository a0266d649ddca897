/** What starting leaves in memory, and how it is given back. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** By then whoever waited for the start has sent something. */
const SETTLED_MS = 3_000

/**
 * Loading all files makes V8's young heap grow to 30 MiB, and it stays so large until a full collection: a fifth of an idle
 * gateway's memory. So one is made, once, when nobody waits: it holds the event loop for 50 ms.
 */
export function releaseStartMemory(isIdle: () => boolean, afterMs = SETTLED_MS): void {
  setTimeout(() => {
    if (!isIdle()) return
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as (how: object) => void
    setFlagsFromString('--no-expose-gc')
    // The others leave the young heap as large as it is.
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
  }, afterMs).unref()
}
