/**
 * The clients of the benchmark, started by run.ts, which sends one job after the other. This process also reads the gateway's CPU
 * time, so that the time and the number of answers belong to the same window.
 */
import { Worker } from 'node:worker_threads'
import { type CpuTime, cpuBetween, cpuOf, memoryOf } from './cpu.ts'
import { startCounting } from './instructions.ts'
import { openWire, type Wire } from './wire.ts'

export interface Target {
  readonly port: number
  /** The root of the process tree whose CPU time is read; null for none. */
  readonly pid: number | null
  /** Used in rotation, one per request. */
  readonly keys: readonly string[]
  /** The path of chat requests; default: /v1/chat/completions. */
  readonly path?: string
}

/** `stream-…` and `json-…`: answers of a provider of that dialect, without a pause. */
export type Model = 'json-1k' | 'json-16k' | 'paced' | 'open' | `stream-${string}` | `json-${string}`

export type Job =
  /** Each connection sends its next request as soon as the last is answered. */
  | { readonly kind: 'saturate'; readonly connections: number; readonly countsInstructions?: boolean }
  /** An open loop: a request is sent when it is due, without waiting for the previous ones. */
  | { readonly kind: 'rate'; readonly perSecond: number }
  /** Opens `count` streams at 500 a second; they stay open until the job `close`. */
  | { readonly kind: 'open'; readonly count: number }
  | { readonly kind: 'close' }

export interface JobOptions {
  readonly target: Target
  readonly model: Model
  readonly warmMs: number
  readonly windowMs: number
}

export interface Result {
  readonly seconds: number
  /** Answers completed in the window. */
  readonly answers: number
  /** Stream events received in the window. */
  readonly events: number
  /** Microseconds of the gateway's CPU in the window; null without a process. */
  readonly cpu: CpuTime | null
  /** Instructions of the gateway per answer; null if they are not counted. */
  readonly instructions: number | null
  /** MiB in RAM at the end of the window; null without a process. */
  readonly rss: number | null
  /**
   * Milliseconds to the end of an answer, or for streams at a rate to the first event. At a rate, time begins when the request
   * is due, otherwise when it is sent. Null without an answer.
   */
  readonly latency: Latency | null
}

export interface Latency {
  readonly p50: number
  readonly p99: number
}

/** Latency is measured only after /proc was read, because reading it blocks sending for a few milliseconds. */
const AFTER_READING_MS = 50
const OPENING_PER_SECOND = 500
/** The wait for requests that are still in progress after the window. */
const PATIENCE_MS = 20_000

const NOTHING: Result = { seconds: 0, answers: 0, events: 0, cpu: null, instructions: null, rss: null, latency: null }

const openStreams: Wire[] = []

process.on('disconnect', () => process.exit())
process.on('message', async ({ job, options }: { job: Job; options: JobOptions }) => {
  try {
    process.send!({ result: await run(job, options) })
  } catch (error) {
    process.send!({ error: (error as Error).message })
  }
})

async function run(job: Job, options: JobOptions): Promise<Result> {
  switch (job.kind) {
    case 'saturate':
      return saturate(job, options)
    case 'rate':
      return atRate(job.perSecond, options)
    case 'open':
      return openMany(job.count, options)
    case 'close':
      for (const wire of openStreams.splice(0)) wire.destroy()
      return NOTHING
  }
}

async function saturate(
  { connections, countsInstructions = false }: Job & { readonly kind: 'saturate' },
  options: JobOptions,
): Promise<Result> {
  const { promise: broken, reject } = Promise.withResolvers<never>()
  const requests = requestsOf(options)
  const wires = Array.from({ length: connections }, () => openWire(options.target.port, fail))
  const isStream = options.model.startsWith('stream-')
  const latencies: number[] = []
  let [answers, events] = [0, 0]
  let [isMeasured, isOver] = [false, false]
  const next = (wire: Wire, place: number): void => {
    if (isOver) return
    const sentMs = now()
    wire.send(requests[place % requests.length]!, {
      ...(isStream && {
        onEvents(count: number) {
          events += count
        },
      }),
      onEnd() {
        answers++
        if (isMeasured) latencies.push(now() - sentMs)
        next(wire, place + connections)
      },
    })
  }
  wires.forEach(next)

  function fail(reason: string): void {
    reject(new Error(reason))
  }
  try {
    await Promise.race([sleep(options.warmMs), broken])
    const { pid } = options.target
    const counting = countsInstructions && pid !== null ? await startCounting(pid) : null
    const countedFrom = answers
    const window = openWindow(pid)
    const before = { answers, events }
    isMeasured = true
    await Promise.race([sleep(options.windowMs), broken])
    isMeasured = false
    const counted = { answers: answers - before.answers, events: events - before.events }
    const read = window.close()
    // perf counts in its own, slightly longer window: it confirms its start and its end.
    const instructions = counting && (await counting.stop())
    const each = instructions === null ? null : instructions / (answers - countedFrom)
    const rss = pid === null ? null : memoryOf(pid).rss / 1024
    return { ...read, ...counted, instructions: each, rss, latency: latencyOf(latencies) }
  } finally {
    isOver = true
    for (const wire of wires) wire.destroy()
  }
}

/** A thread with precise sleeps signals due requests: timers of the event loop have a resolution of a millisecond. */
async function atRate(perSecond: number, options: JobOptions): Promise<Result> {
  const { promise: broken, reject } = Promise.withResolvers<never>()
  const requests = requestsOf(options)
  const free: Wire[] = []
  const all: Wire[] = []
  const latencies: number[] = []
  const isStream = options.model === 'paced'
  let [sent, inProgress, answers, events] = [0, 0, 0, 0]
  let counts = (_plannedMs: number) => false

  const send = (plannedMs: number): void => {
    const wire = free.pop() ?? open()
    let isFirst = true
    inProgress++
    const note = () => {
      if (counts(plannedMs)) latencies.push(now() - plannedMs)
    }
    wire.send(requests[sent++ % requests.length]!, {
      ...(isStream && {
        onEvents(count: number) {
          events += count
          if (isFirst) note()
          isFirst = false
        },
      }),
      onEnd() {
        inProgress--
        answers++
        free.push(wire)
        if (!isStream) note()
      },
    })
  }
  const open = (): Wire => {
    const wire = openWire(options.target.port, reason => reject(new Error(reason)))
    all.push(wire)
    return wire
  }

  const startMs = now() + 100
  const ticker = startTicker(startMs, 1000 / perSecond, () => {
    for (let due = Math.floor(((now() - startMs) / 1000) * perSecond) + 1; sent < due; ) {
      send(startMs + (sent / perSecond) * 1000)
    }
  })
  try {
    await Promise.race([sleep(100 + options.warmMs), broken])
    const window = openWindow(options.target.pid)
    const fromMs = now() + AFTER_READING_MS
    const untilMs = fromMs + options.windowMs
    counts = plannedMs => plannedMs >= fromMs && plannedMs < untilMs
    const before = { answers, events }
    await Promise.race([sleep(untilMs - now()), broken])
    const counted = { answers: answers - before.answers, events: events - before.events }
    const read = window.close()
    ticker.stop()
    const deadline = now() + PATIENCE_MS
    while (inProgress > 0) {
      if (now() > deadline)
        throw new Error(`${inProgress} answers did not end within ${PATIENCE_MS} ms after the window`)
      await Promise.race([sleep(20), broken])
    }
    return { ...read, ...counted, instructions: null, rss: null, latency: latencyOf(latencies) }
  } finally {
    ticker.stop()
    for (const wire of all) wire.destroy()
  }
}

async function openMany(count: number, options: JobOptions): Promise<Result> {
  const { promise: broken, reject } = Promise.withResolvers<never>()
  const requests = requestsOf(options)
  let begun = 0
  const begin = (place: number): void => {
    const wire = openWire(options.target.port, reason => reject(new Error(reason)))
    let isFirst = true
    openStreams.push(wire)
    wire.send(requests[place % requests.length]!, {
      onEvents() {
        if (isFirst) begun++
        isFirst = false
      },
      onEnd: () => reject(new Error('a stream ended although it should stay open')),
    })
  }
  for (let place = 0; place < count; place++) {
    begin(place)
    if (place % 5 === 4) await Promise.race([sleep(5000 / OPENING_PER_SECOND), broken])
  }
  const deadline = now() + PATIENCE_MS
  while (begun < count) {
    if (now() > deadline) throw new Error(`only ${begun} of ${count} streams began within ${PATIENCE_MS} ms`)
    await Promise.race([sleep(20), broken])
  }
  await Promise.race([sleep(options.windowMs), broken])
  broken.catch(() => {})
  return NOTHING
}

function latencyOf(latencies: number[]): Latency | null {
  if (latencies.length === 0) return null
  const sorted = Float64Array.from(latencies).sort()
  const at = (part: number) => sorted[Math.floor(sorted.length * part)]!
  return { p50: at(0.5), p99: at(0.99) }
}

function openWindow(pid: number | null): { close(): Pick<Result, 'seconds' | 'cpu'> } {
  const from = pid === null ? null : cpuOf(pid)
  const fromMs = now()
  return {
    close() {
      const seconds = (now() - fromMs) / 1000
      return { seconds, cpu: pid === null || from === null ? null : cpuBetween(from, cpuOf(pid)) }
    },
  }
}

/** Calls `onTick` at startMs and every stepMs after it, accurate to 0.1 ms. */
function startTicker(startMs: number, stepMs: number, onTick: () => void): { stop(): void } {
  const ticks = new Int32Array(new SharedArrayBuffer(8))
  let isOver = false
  const worker = new Worker(
    `const { workerData: { ticks, startAt, stepMs } } = require('node:worker_threads')
     const now = () => performance.timeOrigin + performance.now()
     for (let due = startAt; Atomics.load(ticks, 1) === 0; due += stepMs) {
       const left = due - now()
       if (left > 0) Atomics.wait(ticks, 1, 0, left)
       Atomics.add(ticks, 0, 1)
       Atomics.notify(ticks, 0)
     }`,
    { eval: true, workerData: { ticks, startAt: performance.timeOrigin + startMs, stepMs } },
  )
  worker.unref()
  const listen = (): void => {
    while (!isOver) {
      const count = Atomics.load(ticks, 0)
      if (count > 0) onTick()
      const change = Atomics.waitAsync(ticks, 0, count)
      if (change.async) return void change.value.then(listen)
    }
  }
  listen()
  return {
    stop() {
      isOver = true
      Atomics.store(ticks, 1, 1)
      Atomics.notify(ticks, 1)
    },
  }
}

/** Returns a complete request for each key, as an SDK sends it. */
function requestsOf({ target, model }: JobOptions): readonly Buffer[] {
  const body = bodyOf(model)
  return target.keys.map(key =>
    Buffer.from(
      [
        `POST ${target.path ?? '/v1/chat/completions'} HTTP/1.1`,
        `host: 127.0.0.1:${target.port}`,
        'connection: keep-alive',
        'accept: application/json',
        'accept-language: *',
        'content-type: application/json',
        'user-agent: OpenAI/JS 7.55.0',
        'x-stainless-lang: js',
        'x-stainless-package-version: 7.55.0',
        'x-stainless-os: Linux',
        'x-stainless-runtime: node',
        'x-stainless-retry-count: 0',
        `authorization: Bearer ${key}`,
        `content-length: ${body.length}`,
        '',
        body,
      ].join('\r\n'),
    ),
  )
}

function isStreamed(model: Model): boolean {
  return model === 'paced' || model === 'open' || model.startsWith('stream-')
}

function bodyOf(model: Model): string {
  const bytes = model === 'json-16k' ? 16_384 : 1024
  const of = (question: string) =>
    JSON.stringify({
      model,
      ...(isStreamed(model) ? { stream: true } : {}),
      max_tokens: 400,
      temperature: 0.7,
      messages: [
        { role: 'system', content: 'You answer in one short sentence.' },
        { role: 'user', content: question },
      ],
    })
  return of('And why, or not? '.repeat((bytes - of('').length) / 17))
}

function now(): number {
  return performance.now()
}

function sleep(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}
