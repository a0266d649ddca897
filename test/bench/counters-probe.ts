/**
 * The probe that counters.ts loads with `--import` into the measured process. SIGUSR2 begins a count; the next SIGUSR2 ends it and
 * writes it to the file in `?out=`. `?mode=` selects one kind of count, because each kind falsifies the others. `calls` wraps
 * functions and allocates, `bytes` only reads a figure of V8, and `owners` samples allocations.
 */
import { createHook } from 'node:async_hooks'
import { EventEmitter } from 'node:events'
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import { Session } from 'node:inspector'
import net from 'node:net'
import { getHeapStatistics } from 'node:v8'
import { isMainThread } from 'node:worker_threads'

export interface Count {
  /** `request` events of Node's server. */
  readonly requests: number
  /** Calls by name, or bytes by owner. */
  readonly counts: Readonly<Record<string, number>>
}

/** The counted functions, each with the name that it is counted under. */
const WRAPPED: readonly (readonly [on: object, method: string, name: string])[] = [
  [JSON, 'parse', 'JSON.parse'],
  [JSON, 'stringify', 'JSON.stringify'],
  [net.Socket.prototype, 'write', 'socket.write'],
  [net.Socket.prototype, 'cork', 'socket.cork'],
  ...['setHeader', 'getHeader', 'getHeaders', 'getHeaderNames', 'hasHeader', 'removeHeader', 'appendHeader'].map(
    method => [http.OutgoingMessage.prototype, method, 'header calls'] as const,
  ),
  [http.ServerResponse.prototype, 'writeHead', 'writeHead'],
  ...['on', 'addListener', 'once', 'prependListener'].map(
    method => [EventEmitter.prototype, method, 'listeners added'] as const,
  ),
  ...['removeListener', 'off'].map(method => [EventEmitter.prototype, method, 'listeners removed'] as const),
  [Date, 'now', 'Date.now'],
  [performance, 'now', 'performance.now'],
]
/** Asynchronous resources by Node's name for their type. */
const RESOURCES: Readonly<Record<string, string>> = {
  PROMISE: 'promises',
  TickObject: 'ticks',
  Timeout: 'timers',
  Immediate: 'immediates',
}
/** Bytes between two samples of allocations. */
const SAMPLE_BYTES = 2048

const url = new URL(import.meta.url)
const [mode, out] = [url.searchParams.get('mode'), url.searchParams.get('out')!]
let requests = 0
let counts: Record<string, number> = {}

function count(name: string): void {
  counts[name] = (counts[name] ?? 0) + 1
}

const { emit } = EventEmitter.prototype
if (isMainThread) {
  EventEmitter.prototype.emit = function (this: EventEmitter, name: string | symbol, ...rest: unknown[]) {
    if (name === 'request' && this instanceof http.Server) requests++
    return emit.call(this, name, ...rest)
  }
  const begin = mode === 'calls' ? beginCalls : mode === 'owners' ? beginOwners : beginBytes
  let end: (() => Promise<void> | void) | null = null
  process.on('SIGUSR2', async () => {
    if (end === null) {
      end = await begin()
      requests = 0
      counts = {}
    } else {
      await end()
      end = null
      writeFileSync(out, JSON.stringify({ requests, counts } satisfies Count))
    }
  })
}

function beginCalls(): () => void {
  const restored = WRAPPED.map(([on, method, name]) => {
    const owner = on as Record<string, (...args: unknown[]) => unknown>
    const original = owner[method]!
    owner[method] = function (this: unknown, ...args: unknown[]) {
      count(name)
      return original.apply(this, args)
    }
    return () => {
      owner[method] = original
    }
  })
  const hook = createHook({
    init(_id, type) {
      const name = RESOURCES[type]
      if (name !== undefined) count(name)
    },
  }).enable()
  return () => {
    hook.disable()
    for (const restore of restored) restore()
  }
}

function beginBytes(): () => void {
  const before = allocated()
  return () => {
    counts = { bytes: allocated() - before }
  }
}

/** Bytes allocated since the start; NaN before Node 26, whose V8 counts them. */
function allocated(): number {
  return (getHeapStatistics() as { total_allocated_bytes?: number }).total_allocated_bytes ?? Number.NaN
}

interface Node {
  readonly callFrame: { readonly url: string }
  readonly selfSize: number
  readonly children: readonly Node[]
}

async function beginOwners(): Promise<() => Promise<void>> {
  const session = new Session()
  session.connect()
  const post = (method: string, options: object = {}) =>
    new Promise<{ profile: { head: Node } }>((resolve, reject) => {
      session.post(method, options, (error, result) => (error ? reject(error) : resolve(result as never)))
    })
  const kept = { includeObjectsCollectedByMajorGC: true, includeObjectsCollectedByMinorGC: true }
  await post('HeapProfiler.startSampling', { samplingInterval: SAMPLE_BYTES, ...kept })
  return async () => {
    const { profile } = await post('HeapProfiler.stopSampling')
    session.disconnect()
    counts = {}
    addOwners(profile.head, 'V8')
  }
}

/** Adds an allocation to the owner of the nearest caller that has a file. */
function addOwners({ callFrame, selfSize, children }: Node, above: string): void {
  const owner = ownerOf(callFrame.url) ?? above
  counts[owner] = (counts[owner] ?? 0) + selfSize
  for (const child of children) addOwners(child, owner)
}

function ownerOf(file: string): string | null {
  if (file === '') return null
  if (file.startsWith('node:')) return 'node'
  return /\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? 'own'
}
