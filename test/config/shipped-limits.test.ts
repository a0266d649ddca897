/** The shipped policies limit the requests of a customer, however many keys the customer has. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import type { BenchRequest } from '../../src/simulate/visit.ts'
import { openBench } from '../../src/testing/bench.ts'

const FOLDER = fileURLToPath(new URL('../../policies', import.meta.url))
/** The most keys of an account. The bench has created the first one. */
const KEYS = 100

interface Case {
  readonly request: BenchRequest
  /** Default: the chat route. */
  readonly route?: object
  readonly plan?: string
  /** The number of admitted requests. */
  readonly most: number
  /** Clients have no key, so the address is the customer. */
  readonly isPublic?: boolean
}

const body = { model: 'm', max_tokens: 8, messages: [{ role: 'user', content: 'Hi' }] }
const chat = { body }
const CASES: Readonly<Record<string, readonly Case[]>> = {
  standard: [{ request: chat, most: 20 }],
  'free-tier': [
    { request: chat, plan: 'free', most: 5 },
    { request: chat, plan: 'pro', most: 60 },
  ],
  raw: [
    {
      request: { path: '/v1/embeddings', body: { model: 'x', input: 'Hi' } },
      route: { path: '/v1/embeddings', kind: 'raw', provider: 'p', price: { request: '$0.001' } },
      most: 20,
    },
  ],
  catalog: [
    {
      request: { path: '/v1/models', method: 'GET', body: undefined },
      route: { path: '/v1/models', kind: 'models' },
      most: 30,
    },
  ],
  open: [
    {
      request: { ...chat, address: '203.0.113.7' },
      route: { path: '/v1/chat/completions', public: true, unmetered: true },
      isPublic: true,
      most: 5,
    },
  ],
}

const names = readdirSync(FOLDER).flatMap(file => /^([^.]+)\.yaml$/.exec(file)?.[1] ?? [])

test('every shipped policy has a case', () => {
  expect(Object.keys(CASES).sort()).toEqual(names.sort())
})

describe.each(Object.entries(CASES).flatMap(([name, all]) => all.map(each => ({ name, ...each }))))(
  'the policy $name ($plan)',
  ({ name, request, route, plan, most, isPublic = false }) => {
    test(`${KEYS} keys of one account have ${most} requests together, as many as one key`, async () => {
      const { steps } = parse(readFileSync(join(FOLDER, `${name}.yaml`), 'utf8')) as { steps: object[] }
      await using bench = await openBench({
        steps,
        ...(plan ? { plan } : {}),
        ...(route ? { yaml: { routes: [{ policy: 'bench', ...route }] } } : {}),
      })
      const [account] = bench.store.reads.listAccounts()
      const tokens = [bench.key]
      while (tokens.length < KEYS) {
        const { token } = await bench.store.createKey({ account: account!.id, name: `key ${tokens.length}` })
        tokens.push(token)
      }
      const statuses: (number | null)[] = []
      for (const key of tokens) statuses.push((await bench.send({ ...request, key: isPublic ? null : key })).status)
      const counted = Object.fromEntries(
        [...Map.groupBy(statuses, String)].map(([status, all]) => [status, all.length]),
      )
      expect(counted).toEqual({ 200: most, 429: KEYS - most })
    })
  },
)
