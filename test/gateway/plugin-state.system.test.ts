/** A plugin's state in services survives a reload and a change of its file. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Gateway, startGateway, temporaryDirectory } from '../helpers/gateway.ts'
import { describeWith } from '../helpers/missing.ts'
import { startRedis, WITHOUT_REDIS } from '../helpers/redis.ts'

/** Counts in `kv` and takes one of a bucket's ten units; each request that never ends holds a slot. */
const plugin = (version: number) => `import { definePlugin } from 'tollgate/plugin'
export default definePlugin({
  name: 'counts',
  uses: ['kv', 'buckets', 'slots'],
  needsBody: false,
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: (_settings, { kv, buckets, slots }, { policy, id }) => async (ctx, next) => {
    const name = policy + '/' + id
    const count = Number((await kv.get(name)) ?? 0) + 1
    kv.set(name, String(count), 60_000)
    const grant = await buckets.take(name, { capacity: 10, refillPerMs: 0 }, 1)
    const slot = await slots.enter(name, 10)
    ctx.set('x-counts', ['version ${version}', count, grant.remaining, slot.inside].join(', '))
    await next()
  },
})
`

const YAML = {
  version: 1,
  listen: '127.0.0.1:0',
  store: 'memory',
  providers: { p: { dialect: 'demo' } },
  models: { m: { targets: [{ provider: 'p', model: 'm' }], price: 'free', context: '8Ki', max_output: '1Ki' } },
  routes: [{ path: '/v1/chat/completions', policy: 'main', public: true }],
}

/** Starts a gateway whose policy begins with this plugin. */
async function startWith(file: string, text: string, yaml: object = {}) {
  const dir = await temporaryDirectory()
  await mkdir(join(dir, 'policies'))
  await writeFile(join(dir, `policies/${file}`), text)
  const steps = `steps:\n  - use: ./${file}\n  - use: schema\n  - use: route\n`
  return startGateway({ dir, yaml: { ...YAML, ...yaml }, policies: { main: steps } })
}

/** On its own connection, so that each thread gets requests. Returns a header of the answer. */
async function headerOf(url: string, name: string, headers: Record<string, string> = {}): Promise<string | null> {
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] })
  const sent = { 'content-type': 'application/json', connection: 'close', ...headers }
  const answer = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: sent, body })
  await answer.text()
  return answer.headers.get(name)
}

test('texts, buckets and slots', async () => {
  const gateway = await startWith('counts.ts', plugin(1))
  const { dir } = gateway
  const counted = () => headerOf(gateway.url, 'x-counts')
  expect(await counted()).toBe('version 1, 1, 9, 1')
  expect(await counted()).toBe('version 1, 2, 8, 2')
  await writeFile(join(dir, 'policies/counts.ts'), plugin(2))
  process.kill(gateway.pid, 'SIGHUP')
  await gateway.waitForLog(line => line['msg'] === 'the configuration has changed')
  expect(await counted()).toBe('version 2, 3, 7, 3')
})

/** Answers itself. It caches a list in memory, and loads it again from its file after a change. */
const lists = (file: string) => `import { readFileSync, writeFileSync } from 'node:fs'
import { threadId } from 'node:worker_threads'
import { definePlugin } from 'tollgate/plugin'
const FILE = ${JSON.stringify(file)}
export default definePlugin({
  name: 'lists',
  uses: ['versions'],
  needsBody: false,
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create(_settings, { versions }, { policy, id }) {
    const name = policy + '/' + id
    const own = { list: '', version: -1, loads: 0 }
    return async ctx => {
      const changed = ctx.get('x-change')
      if (changed !== '') {
        writeFileSync(FILE, changed)
        await versions.change(name)
      }
      const version = await versions.get(name)
      if (version !== own.version) Object.assign(own, { version, list: readFileSync(FILE, 'utf8'), loads: own.loads + 1 })
      ctx.set('x-list', JSON.stringify([own.list, own.loads, process.pid + '/' + threadId]))
      ctx.body = {}
    }
  },
})
`

type Read = [list: string, loads: number, place: string]
const read = async ({ url }: Gateway): Promise<Read> => JSON.parse((await headerOf(url, 'x-list'))!)
const change = ({ url }: Gateway, word: string) => headerOf(url, 'x-list', { 'x-change': word })

describe('a change is noticed', () => {
  test('by both threads of a gateway at once, which load no more than once for it', async () => {
    const file = join(await temporaryDirectory(), 'list')
    const gateway = await startWith('lists.ts', lists(file), { threads: 2, store: 'sqlite:./store.db' })
    const places = new Map<string, number>()
    for (const word of ['one', 'two']) {
      await change(gateway, word)
      for (let count = 0; count < 40; count++) {
        const [list, loads, place] = await read(gateway)
        expect(list).toBe(word)
        places.set(place, loads)
      }
    }
    expect(places.size).toBe(2)
    expect(Math.max(...places.values())).toBeLessThanOrEqual(3)
  })

  describeWith(WITHOUT_REDIS, 'with a state server', () => {
    test('by all threads of two gateways', async () => {
      await using redis = await startRedis()
      const file = join(await temporaryDirectory(), 'list')
      const yaml = { threads: 2, store: 'sqlite:./store.db', state: redis.url }
      const start = () => startWith('lists.ts', lists(file), yaml)
      const gateways = await Promise.all([start(), start()])
      for (const word of ['one', 'two']) {
        await change(gateways[0]!, word)
        // On a busy machine a call may exceed the state server's time limit: the change is then noticed later.
        const seen = new Set<string>()
        const readAll = async () => {
          for (const [list, , place] of await Promise.all(gateways.map(read))) {
            if (list === word) seen.add(place)
            else seen.delete(place)
          }
          return seen.size
        }
        await expect.poll(readAll).toBe(4)
      }
    })
  })
})
