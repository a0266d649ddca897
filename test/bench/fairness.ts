/**
 * `npm run bench -- fairness`: the latency of one account while another one, or clients without a key, fill the event loop. Each
 * row has its own gateway. Ratios are to the quiet row of the same run.
 */
import { spawn } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { FloodKind } from '../gateway/flood.child.ts'
import { createAccount, type Gateway, startGateway } from '../helpers/gateway.ts'
import { markdown } from './report.ts'

const EVERY_MS = 50
/** Unmeasured requests, in which V8 compiles. */
const WARM_REQUESTS = 300

const ROWS: readonly (readonly [title: string, kind: FloodKind | null, connections: number, hasKey: boolean])[] = [
  ['quiet', null, 0, true],
  ['200 connections, chunks of one byte', 'tiny chunks', 200, true],
  ['the same without a key', 'tiny chunks', 200, false],
  ['16 connections, 4 MiB of tiny messages', 'tiny messages', 16, true],
  ['8 connections, 4 MiB of text', 'long texts', 8, true],
  ['100 streams that are not read', 'unread answers', 100, true],
]

/** Requests of one row: sorted milliseconds, and the number not answered with 200. */
export interface FairnessRow {
  readonly title: string
  readonly ms: readonly number[]
  readonly failures: number
}

export async function measureFairness(seconds: number, progress: (text: string) => void): Promise<FairnessRow[]> {
  const rows: FairnessRow[] = []
  for (const [title, kind, connections, hasKey] of ROWS) {
    progress(title)
    const gateway = await startGateway({ yaml: CONFIGURATION, policies: { p: { steps: STEPS } } })
    try {
      const [{ key }, { key: other }] = [await account(gateway), await account(gateway)]
      for (let request = 0; request < WARM_REQUESTS; request++) await ask(gateway, key)
      const script = fileURLToPath(new URL('../gateway/flood.child.ts', import.meta.url))
      const flood =
        kind && spawn(process.execPath, [script, gateway.url, kind, String(connections), hasKey ? other : ''])
      rows.push({ title, ...(await row(gateway, key, seconds)) })
      flood?.kill('SIGKILL')
    } finally {
      await gateway.kill9()
    }
  }
  return rows
}

export function fairnessTable(rows: readonly FairnessRow[]): string {
  const percentile = ({ ms }: FairnessRow, share: number) => ms[Math.min(ms.length - 1, Math.floor(ms.length * share))]!
  const [quiet] = rows
  const cell = (row: FairnessRow, share: number) =>
    `${percentile(row, share).toFixed(0)} ms (${(percentile(row, share) / percentile(quiet!, share)).toFixed(1)} x)`
  return markdown(
    ['another account meanwhile', 'p50', 'p99', 'failed'],
    rows.map(row => [row.title, cell(row, 0.5), cell(row, 0.99), `${row.failures} of ${row.ms.length}`]),
  )
}

const STEPS = ['api-key', 'schema', 'credits', 'route'].map(use => ({ use }))
const MODEL = {
  targets: [{ provider: 'demo', model: 'demo-small' }],
  price: { per: '1M tokens', input: '$1', output: '$2' },
  context: '100M',
  max_output: '1M',
}
const CONFIGURATION = {
  version: 1,
  listen: '127.0.0.1:0',
  providers: { demo: { dialect: 'demo', pace: '0ms' } },
  // `large` is the model of the flood's unread answers.
  models: { m: MODEL, large: MODEL },
  routes: [{ path: '/v1/chat/completions', policy: 'p' }],
}

const account = (gateway: Gateway) => createAccount(gateway, { credit: '10000' })

async function ask({ url }: Gateway, key: string): Promise<boolean> {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', max_completion_tokens: 5, messages: [{ role: 'user', content: 'hi' }] }),
  })
  await answer.arrayBuffer()
  return answer.ok
}

/** Sends requests at an even pace. */
async function row(gateway: Gateway, key: string, seconds: number): Promise<Omit<FairnessRow, 'title'>> {
  const ms: number[] = []
  let failures = 0
  const one = async () => {
    const began = performance.now()
    if (!(await ask(gateway, key).catch(() => false))) failures++
    ms.push(performance.now() - began)
  }
  const requests: Promise<void>[] = []
  const until = performance.now() + seconds * 1000
  while (performance.now() < until) {
    requests.push(one())
    await pause(EVERY_MS)
  }
  await Promise.all(requests)
  return { ms: ms.toSorted((a, b) => a - b), failures }
}
