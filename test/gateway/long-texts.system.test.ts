/**
 * Bodies of 4 MB through nine rules of a guard, four per second, during ordinary requests. The event loop is never blocked for long, so
 * the others do not wait.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { countsOf } from '../helpers/counts.ts'
import { type FakeProvider, startFakeProvider, whole } from '../helpers/fake-provider.ts'
import type { Gateway } from '../helpers/gateway.ts'
import { probe } from './loop-probe.ts'
import { startProbed } from './probed.ts'

const counts = countsOf('floods')

/** How long a body may block the loop, in milliseconds: a slice, or work that cannot be sliced (JSON). Five times as much fails. */
const MAX_MS = 10
const A_SECOND = 4
const SECONDS = counts(1, 5)
const ORDINARY = 4

const NINE = [
  { detect: 'email' },
  { detect: 'phone' },
  { detect: 'credit-card' },
  { detect: 'iban' },
  { detect: 'ipv4' },
  { detect: 'aws-key' },
  { detect: 'openai-key' },
  { detect: 'github-token' },
  { name: 'project', pattern: '\\bproject (?:zeus|hera)\\b', ignore_case: true },
]
const STEPS = [
  { use: 'api-key' },
  { use: 'schema' },
  { use: 'guard', with: { rules: NINE } },
  { use: 'credits' },
  { use: 'route', with: { attempts: 1 } },
]

let provider: FakeProvider
let gateway: Gateway
let key: string

beforeAll(async () => {
  provider = await startFakeProvider({ script: whole() })
  ;({ gateway, key } = await startProbed(provider, {
    yaml: { store: 'sqlite:./tollgate.db' },
    context: '100M',
    steps: STEPS,
  }))
})
afterAll(() => provider.close())

const bodyOf = (content: string) => JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] })
const HELLO = bodyOf('Hello, this is an ordinary question.')

/** Milliseconds until the answer. */
async function ask(body: string): Promise<number> {
  const began = performance.now()
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body,
  })
  expect(answer.status, await answer.text()).toBe(200)
  return performance.now() - began
}

/** Sends one request after the other until `isOver`; milliseconds of each. */
async function askOften(isOver: () => boolean): Promise<number[]> {
  const took: number[] = []
  while (!isOver()) {
    took.push(await ask(HELLO))
    await pause(5)
  }
  return took
}

function quantile(values: readonly number[], share: number): string {
  const sorted = values.toSorted((one, other) => one - other)
  return `${sorted[Math.floor((sorted.length - 1) * share)]!.toFixed(1)} ms`
}

test.each([
  ['plain words', 'Some plain words, and more of them. '],
  ['digits', '1234 '],
  ['addresses', 'ada@example.org '],
])(`${A_SECOND} bodies a second of %s`, async (name, unit) => {
  const long = bodyOf(unit.repeat(4_000_000 / unit.length))
  for (const body of [HELLO, long, HELLO]) await ask(body)
  let isOver = false
  const alone = askOften(() => isOver)
  await pause(500)
  isOver = true
  const before = await alone

  isOver = false
  await probe(gateway)
  const others = Array.from({ length: ORDINARY }, () => askOften(() => isOver))
  const longs = await Promise.all(
    Array.from({ length: A_SECOND * SECONDS }, async (_, i) => {
      await pause((i * 1000) / A_SECOND)
      return ask(long)
    }),
  )
  isOver = true
  const took = (await Promise.all(others)).flat()
  const { blockedMs, busyMs } = await probe(gateway)
  console.log(
    `${longs.length} bodies of 4 MB (${name}): ${quantile(longs, 0.5)} each; others: ${took.length}, p50 ${quantile(took, 0.5)}, ` +
      `p99 ${quantile(took, 0.99)} (alone ${quantile(before, 0.5)} and ${quantile(before, 0.99)}); ` +
      `longest stall of the loop ${blockedMs.toFixed(1)} ms, in processor time ${busyMs.toFixed(1)} ms`,
  )
  // In CPU time: time of other processes does not count.
  expect(busyMs).toBeLessThan(5 * MAX_MS)
  expect(took.length).toBeGreaterThan(longs.length)
})
