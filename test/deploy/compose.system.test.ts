/**
 * The compose files of src/deploy, run as plain processes: three gateways, nginx, PostgreSQL and a state server. Loopback ports replace
 * the host names.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { type Gateway, startGateway, tollgate } from '../helpers/gateway.ts'
import { describeWith } from '../helpers/missing.ts'
import { startNginx, WITHOUT_NGINX } from '../helpers/nginx.ts'
import { testDatabase, WITHOUT_POSTGRES } from '../helpers/postgres.ts'
import { startRedis, WITHOUT_REDIS } from '../helpers/redis.ts'
import { ROOT } from '../helpers/repository.ts'

const FOLDER = join(ROOT, 'src/deploy')

interface Service {
  readonly environment?: Readonly<Record<string, string>>
  readonly volumes?: readonly string[]
  readonly depends_on?: Readonly<Record<string, unknown>> | readonly string[]
}

const read = (name: string) => readFile(join(FOLDER, name), 'utf8')

async function readServices(): Promise<Readonly<Record<string, Service>>> {
  return parse(await read('compose.yaml'), { merge: true }).services
}

async function failedStateCalls(gateways: readonly Gateway[]): Promise<number> {
  const texts = gateways.map(async ({ adminUrl }) => (await fetch(`${adminUrl}/metrics`)).text())
  const counts = (await Promise.all(texts)).map(text => Number(/^tollgate_state_failures_total (\d+)$/m.exec(text)![1]))
  return counts.reduce((sum, count) => sum + count)
}

test('all replicas have the same environment and configuration, and each has its own folder', async () => {
  const services = await readServices()
  const replicas = Object.entries(services).filter(([name]) => name.startsWith('tollgate-'))
  expect(replicas.map(([name]) => name)).toEqual(['tollgate-1', 'tollgate-2', 'tollgate-3'])
  const own = replicas.map(([, { volumes = [] }]) => volumes.filter(volume => volume.endsWith('/.tollgate')))
  expect(new Set(own.flat()).size).toBe(3)
  for (const [, { environment, volumes = [] }] of replicas) {
    expect(environment).toEqual(replicas[0]![1].environment)
    expect(volumes.filter(volume => !volume.endsWith('/.tollgate'))).toHaveLength(2)
  }
  // Every dependency of a service exists.
  for (const { depends_on: needs = [] } of Object.values(services)) {
    for (const name of Array.isArray(needs) ? needs : Object.keys(needs)) expect(services[name]).toBeDefined()
  }
})

describeWith(WITHOUT_POSTGRES ?? WITHOUT_REDIS ?? WITHOUT_NGINX, 'three replicas behind nginx', () => {
  test('serve, stream, share their limits, and continue when one is killed', async () => {
    const [database, redis, services] = [await testDatabase(), await startRedis(), await readServices()]
    onTestFinished(() => redis[Symbol.asyncDispose]())
    const { environment = {} } = services['tollgate-1']!
    expect(Object.keys(environment)).toEqual(['DATABASE_URL', 'STATE_URL', 'TOLLGATE_SECRET'])
    const env = {
      DATABASE_URL: database.url,
      STATE_URL: redis.url,
      TOLLGATE_SECRET: 'a secret for tests that all three replicas share',
    }
    const yaml = (await read('gateway.yaml'))
      .replace(/0\.0\.0\.0:\d+/g, '127.0.0.1:0')
      .replace('threads: auto', 'threads: 1')
    const policies = { standard: await read('policies/standard.yaml') }
    const gateways: Gateway[] = []
    while (gateways.length < 3) {
      const gateway = await startGateway({ yaml, policies, env })
      onTestFinished(() => gateway.kill9())
      gateways.push(gateway)
    }
    const url = await startNginx(gateways.map(({ url }) => url))
    const here = { config: gateways[0]!.config, env }
    const run = async (...args: readonly string[]) => JSON.parse((await tollgate([...args, '--json'], here)).stdout)
    await run('account', 'create', 'acme', '--credit', '10')
    const { token } = await run('key', 'create', '--account', 'acme', '--name', 'first')
    const ask = (body: object = {}) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'demo-small', messages: [{ role: 'user', content: 'hello' }], ...body }),
      })

    const streamed = await ask({ stream: true })
    const pieces: string[] = []
    for await (const piece of streamed.body!) pieces.push(new TextDecoder().decode(piece))
    expect(pieces.length).toBeGreaterThan(1)
    expect(pieces.join('')).toMatch(/data: \[DONE\]\n\n$/)

    // 60 a minute for all replicas together: one is used, and each second refills one.
    const statuses = await Promise.all(Array.from({ length: 100 }, async () => (await ask()).status))
    expect(statuses.filter(status => status !== 200 && status !== 429)).toEqual([])
    const answered = statuses.filter(status => status === 200).length
    // On a busy machine a call to the state server may time out. Its tokens are then lost, and the replica uses its share.
    const failed = await failedStateCalls(gateways)
    expect(answered).toBeGreaterThanOrEqual(59 - failed)
    expect(answered).toBeLessThanOrEqual(59 + 30 + (failed > 0 ? 60 : 0))

    const { token: other } = await run('key', 'create', '--account', 'acme', '--name', 'second')
    await gateways[1]!.kill9()
    for (let index = 0; index < 10; index++) {
      const answer = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${other}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'demo-small', messages: [{ role: 'user', content: 'hello' }] }),
      })
      expect(answer.status).toBe(200)
    }
    expect((await tollgate(['ledger', 'verify'], here)).code).toBe(0)
  })
})
