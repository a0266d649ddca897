/**
 * The command `tollgate`, with a handler for SIGUSR2. It logs the longest block of its event loop since the last signal, its memory, and
 * changes of shared prototypes. Run as `entry` of `startGateway`.
 */
import { writeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Gateway } from '../helpers/gateway.ts'

export interface Probe {
  /** The longest block of the loop, in milliseconds, including time in which others had the processor. */
  readonly blockedMs: number
  /** The most CPU time, in milliseconds, that the loop's own thread took between two checks of a timer. */
  readonly busyMs: number
  /** Objects and buffers after a full collection, in MiB. The resident memory is larger: the C library keeps freed memory for reuse. */
  readonly heldMib: number
  /** Members of Object.prototype and similar that are new or changed since the first probe. */
  readonly polluted: readonly string[]
  /** Open TCP sockets and listeners. */
  readonly sockets: number
}

/** The path of this file, for `entry`. */
export const PROBED_GATEWAY = import.meta.filename

/** Probes a gateway that was started with `PROBED_GATEWAY`; the figures restart. */
export async function probe(gateway: Gateway): Promise<Probe> {
  const seen = gateway.logs().filter(isProbe).length
  process.kill(gateway.pid, 'SIGUSR2')
  const logged = gateway.waitForLog(line => isProbe(line) && gateway.logs().filter(isProbe).length > seen)
  const line = await Promise.race([logged, gateway.exited])
  if (line === null || typeof line === 'number') throw new Error(`the gateway has ended (${line}): ${gateway.stderr()}`)
  return line as unknown as Probe
}

/** Lines that `keep` of `startGateway` must not drop. */
export function isProbe(line: Readonly<Record<string, unknown>>): boolean {
  return line['msg'] === 'probe'
}

const SHARED = {
  Object: Object.prototype,
  Array: Array.prototype,
  Function: Function.prototype,
  String: String.prototype,
}
const RESOLUTION_MS = 1

function members(): Map<string, unknown> {
  return new Map(
    Object.entries(SHARED).flatMap(([name, prototype]) =>
      Reflect.ownKeys(prototype).map(key => {
        const { value, get, set } = Object.getOwnPropertyDescriptor(prototype, key)!
        return [`${name}.${String(key)}`, value ?? get ?? set] as const
      }),
    ),
  )
}

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

function heldMib(): number {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / (1024 * 1024)
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

if (process.argv[1] === import.meta.filename) {
  let start: Map<string, unknown> | undefined
  let [at, spent, blockedMs, busyMs] = [performance.now(), cpuMs(), 0, 0]
  setInterval(() => {
    const [now, used] = [performance.now(), cpuMs()]
    blockedMs = Math.max(blockedMs, now - at - RESOLUTION_MS)
    busyMs = Math.max(busyMs, used - spent)
    at = now
    spent = used
  }, RESOLUTION_MS).unref()
  process.on('SIGUSR2', () => {
    // Waits one turn of the timer, which notices a block that has just ended.
    setTimeout(() => {
      const now = members()
      start ??= now
      const polluted = [...new Set([...start.keys(), ...now.keys()])].filter(key => start?.get(key) !== now.get(key))
      const sockets = process.getActiveResourcesInfo().filter(kind => kind.startsWith('TCP')).length
      const figures = { msg: 'probe', blockedMs, busyMs, heldMib: heldMib(), polluted, sockets }
      writeSync(1, `${JSON.stringify(figures)}\n`)
      at = performance.now()
      spent = cpuMs()
      blockedMs = busyMs = 0
    }, 3 * RESOLUTION_MS)
  })
  await import(new URL('../../src/cli/tollgate.js', import.meta.url).href)
}
