/**
 * The command `tollgate`, with an ear for SIGUSR2: it collects garbage and logs what the process still holds. For tests of
 * leaks; run as `entry` of `startGateway`, and asked by `resourcesOf`.
 */
import { readFileSync, writeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Gateway } from './gateway.ts'

/** The resources that an idle process holds. */
export interface Resources {
  /** Bytes of the JavaScript heap after a collection. */
  readonly heap: number
  /** Bytes of buffers outside of it. */
  readonly buffers: number
  /** Bytes in RAM, buffers and code included. */
  readonly resident: number
  /** The most bytes that it has ever had in RAM. */
  readonly peak: number
  /** Open handles and requests by their kind: Timeout, TCPSocketWrap, … */
  readonly active: Readonly<Record<string, number>>
}

/** The path of this file, for `entry`. */
export const WATCHED_GATEWAY = import.meta.filename

/** Asks a gateway that was started with `WATCHED_GATEWAY`. */
export async function resourcesOf(gateway: Gateway): Promise<Resources> {
  const seen = gateway.logs().filter(isResources).length
  process.kill(gateway.pid, 'SIGUSR2')
  const line = await gateway.waitForLog(line => isResources(line) && gateway.logs().filter(isResources).length > seen)
  return line as unknown as Resources
}

function isResources(line: Readonly<Record<string, unknown>>): boolean {
  return line['msg'] === 'resources'
}

/** Bytes. Linux counts the process that started this one into `maxRSS` (getrusage(2)), and not into `VmHWM` (proc(5)). */
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
