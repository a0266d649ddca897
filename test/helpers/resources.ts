/**
 * The command `tollgate` with a handler of SIGUSR2, which collects garbage and logs the resources of the process. For tests of leaks:
 * `startGateway` runs it as `entry`, and `resourcesOf` reads it.
 */
import { readFileSync, writeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Gateway } from './gateway.ts'

/** The resources that an idle process holds. */
export interface Resources {
  /** Bytes of the JavaScript heap after a collection. */
  readonly heap: number
  /** Bytes of buffers outside the heap. */
  readonly buffers: number
  /** Bytes in RAM, buffers and code included. */
  readonly resident: number
  /** The maximum of bytes in RAM since the start. */
  readonly peak: number
  /** The number of open handles and requests by kind: Timeout, TCPSocketWrap, … */
  readonly active: Readonly<Record<string, number>>
}

/** The path of this file, for `entry`. */
export const WATCHED_GATEWAY = import.meta.filename

/** The resources of a gateway that was started with `WATCHED_GATEWAY`. */
export async function resourcesOf(gateway: Gateway): Promise<Resources> {
  const seen = gateway.logs().filter(isResources).length
  process.kill(gateway.pid, 'SIGUSR2')
  const line = await gateway.waitForLog(line => isResources(line) && gateway.logs().filter(isResources).length > seen)
  return line as unknown as Resources
}

function isResources(line: Readonly<Record<string, unknown>>): boolean {
  return line['msg'] === 'resources'
}

/** In bytes. On Linux `maxRSS` includes the memory of the parent process (getrusage(2)); `VmHWM` does not (proc(5)). */
function highWater(): number {
  const [, own] =
    process.platform === 'linux' ? (/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []) : []
  return 1024 * (own === undefined ? process.resourceUsage().maxRSS : Number(own))
}

if (process.argv[1] === import.meta.filename) {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  process.on('SIGUSR2', () => {
    collect()
    const active = Object.fromEntries(
      [...Map.groupBy(process.getActiveResourcesInfo(), kind => kind)].map(([kind, all]) => [kind, all.length]),
    )
    const { heapUsed: heap, rss: resident, arrayBuffers: buffers } = process.memoryUsage()
    const peak = highWater()
    writeSync(1, `${JSON.stringify({ msg: 'resources', heap, buffers, resident, peak, active })}\n`)
  })
  await import(new URL('../../src/cli/tollgate.js', import.meta.url).href)
}
