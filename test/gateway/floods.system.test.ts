/**
 * Floods during ordinary requests of another account, which are all answered completely. The process survives and answers /livez;
 * its memory stays bounded and shrinks again. The attacker has its own process.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { ErrorEnvelope } from '#contract'
import { countsOf } from '../helpers/counts.ts'
import { exact, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { createAccount, type Gateway, startGateway } from '../helpers/gateway.ts'
import { PRICE } from '../helpers/in-process.ts'
import { until } from '../helpers/until.ts'
import type { FloodKind } from './flood.child.ts'
import { isProbe, PROBED_GATEWAY, probe } from './loop-probe.ts'

const counts = countsOf('floods')

const SECONDS = counts(2, 60)
const EVERY_MS = counts(20, 10)
const MIB = 1024 * 1024
/** The resident memory that a flood may add. */
const MORE_MIB = 256
/** The memory that may be left in objects and buffers. */
const LEFT_MIB = 32
/**
 * Five times the second within which /livez must answer, as CPU time of the blocked loop. The time of an answer also depends on
 * other work of the machine.
 */
const BUSY_MS = 5_000

const WHOLE = '200 whole'

let provider: FakeProvider
/** Sends answers of 1 MiB. */
let largeProvider: FakeProvider
let gateway: Gateway
let key: string
let hostile: string
const floods: ChildProcess[] = []

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact() })
  largeProvider = await startFakeProvider({ script: exact({ tokens: ['x'.repeat(MIB)] }) })
  const model = { price: PRICE, context: '100M', max_output: '2M' }
  gateway = await startGateway({
    entry: PROBED_GATEWAY,
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      store: 'sqlite:./.tollgate/tollgate.db',
      providers: {
        p: { dialect: 'openai', base_url: provider.baseUrl },
        l: { dialect: 'openai', base_url: largeProvider.baseUrl },
      },
      models: {
        m: { ...model, targets: [{ provider: 'p', model: 'upstream-model' }], default_output: '1k' },
        large: { ...model, targets: [{ provider: 'l', model: 'upstream-model' }], default_output: '1M' },
      },
      routes: [{ path: '/v1/chat/completions', policy: 'test' }],
    },
    policies: { test: { steps: ['api-key', 'schema', 'credits', 'route'].map(use => ({ use })) } },
    keep: line => isProbe(line) || line['level'] === 'error',
  })
  ;({ key } = await createAccount(gateway, { credit: '1000000' }))
  ;({ key: hostile } = await createAccount(gateway, { credit: '1000000' }))
  await ordinary(1)
})
afterEach(() => {
  for (const child of floods.splice(0)) child.kill('SIGKILL')
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
  await largeProvider.close()
})

const percentile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))]!

async function residentMib(): Promise<number> {
  const [, pages] = (await readFile(`/proc/${gateway.pid}/statm`, 'utf8')).split(' ')
  return (Number(pages) * 4096) / MIB
}

/** Sends requests at an even pace; returns their results and times. */
async function ordinary(
  seconds: number,
): Promise<{ readonly statuses: Record<string, number>; readonly ms: number[] }> {
  const statuses: Record<string, number> = {}
  const ms: number[] = []
  const one = async () => {
    const began = performance.now()
    const status = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] }),
    }).then(
      async answer => {
        const text = await answer.text()
        if (!answer.ok) return `${answer.status} ${(JSON.parse(text) as ErrorEnvelope).error.code}`
        return text.includes('"usage"') ? WHOLE : `${answer.status} ${text}`
      },
      (error: Error) => String((error.cause as Error | undefined)?.message ?? error.message),
    )
    statuses[status] = (statuses[status] ?? 0) + 1
    ms.push(performance.now() - began)
  }
  const asked: Promise<void>[] = []
  const until = performance.now() + seconds * 1000
  while (performance.now() < until) {
    asked.push(one())
    await pause(EVERY_MS)
  }
  await Promise.all(asked)
  return { statuses, ms }
}

/** Measures /livez, twenty times a second. */
async function health(over: Promise<unknown>): Promise<number[]> {
  const ms: number[] = []
  let isRunning = true
  void over.finally(() => {
    isRunning = false
  })
  while (isRunning) {
    const began = performance.now()
    expect((await fetch(`${gateway.url}/livez`)).status).toBe(200)
    ms.push(performance.now() - began)
    await pause(50)
  }
  return ms
}

async function largestMib(over: Promise<unknown>): Promise<number> {
  let largest = 0
  let isRunning = true
  void over.finally(() => {
    isRunning = false
  })
  while (isRunning) {
    largest = Math.max(largest, await residentMib())
    await pause(100)
  }
  return largest
}

test.each<[name: string, kind: FloodKind, connections: number, isKnown: boolean]>([
  ['bodies in chunks of one byte, without a key', 'tiny chunks', 3, false],
  ['bodies in chunks of one byte, with a key', 'tiny chunks', 3, true],
  ['250 bodies at once, without a key', 'large bodies', 250, false],
  ['250 bodies at once, of one account', 'large bodies', 250, true],
  ['16 connections with 4 MiB of tiny messages each, of one account', 'tiny messages', 16, true],
  ['8 connections with 4 MiB of text each, of one account', 'long texts', 8, true],
  ['60 connections that pipeline and read nothing, without a key', 'pipelined', 60, false],
  ['60 connections that pipeline and read nothing, with a key', 'pipelined', 60, true],
  ['120 answers that one account does not read', 'unread answers', 120, true],
])('%s', async (name, kind, connections, isKnown) => {
  const { heldMib } = await probe(gateway)
  const before = await residentMib()
  const script = new URL('./flood.child.ts', import.meta.url).pathname
  const child = spawn(
    process.execPath,
    [script, gateway.url, kind, String(connections), ...(isKnown ? [hostile] : [])],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  floods.push(child)
  await once(child.stdout!, 'data')
  const load = ordinary(SECONDS)
  const [{ statuses, ms }, livez, largest] = await Promise.all([load, health(load), largestMib(load)])
  const { busyMs } = await probe(gateway)
  child.kill('SIGKILL')
  const ended = performance.now()
  const left = await until(async () => {
    const leftMib = (await probe(gateway)).heldMib - heldMib
    expect(leftMib).toBeLessThan(LEFT_MIB)
    return leftMib
  })
  const leftS = (performance.now() - ended) / 1000
  console.log(
    `${name}: ${ms.length} ordinary requests, p50 ${percentile(ms, 0.5).toFixed(0)} ms, p99 ${percentile(ms, 0.99).toFixed(0)} ms; ` +
      `/livez p99 ${percentile(livez, 0.99).toFixed(0)} ms; busy at most ${busyMs.toFixed(0)} ms; ${before.toFixed(0)} MiB before, ${largest.toFixed(0)} at most, ` +
      `${(await residentMib()).toFixed(0)} after; ${left.toFixed(1)} MiB held ${leftS.toFixed(1)} s after`,
  )
  const { [WHOLE]: whole = 0, ...others } = statuses
  expect(others).toEqual({})
  expect(whole).toBeGreaterThan(0)
  expect(busyMs).toBeLessThan(BUSY_MS)
  expect(largest - before).toBeLessThan(MORE_MIB)
  expect(gateway.logs().filter(line => !isProbe(line))).toEqual([])
})
