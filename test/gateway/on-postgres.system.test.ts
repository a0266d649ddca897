/** A gateway with its store in PostgreSQL: requests, keys, the ledger, the commands, and an unavailable database. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { takeLock } from '../../src/store/files/lock.ts'
import { startGateway, temporaryDirectory, tollgate, writeConfiguration } from '../helpers/gateway.ts'
import { FIVE_STEPS, type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'
import { describeWith } from '../helpers/missing.ts'
import { type TestDatabase, testDatabase, WITHOUT_POSTGRES } from '../helpers/postgres.ts'
import { SECRET } from '../store/helpers.ts'

async function start(): Promise<{ gateway: InProcess; database: TestDatabase }> {
  const database = await testDatabase()
  const gateway = await startInProcess({ store: database.url })
  onTestFinished(async () => void (await gateway.stop()))
  return { gateway, database }
}

const body = { model: 'm', messages: [{ role: 'user', content: 'hello' }] }

const POLICIES = { test: { steps: FIVE_STEPS } }

const yamlOf = (store: string) => ({
  version: 1,
  listen: '127.0.0.1:0',
  store,
  providers: { p: { dialect: 'openai', base_url: 'http://127.0.0.1:9' } },
  models: { m: { targets: [{ provider: 'p', model: 'm' }], price: PRICE, context: 8192, max_output: 1000 } },
  routes: [{ path: '/v1/chat/completions', policy: 'test' }],
})

describeWith(WITHOUT_POSTGRES, 'a gateway on PostgreSQL', () => {
  test('answers, charges exactly, and refuses a revoked key from the next request on', async () => {
    const { gateway } = await start()
    const { store } = gateway.running
    for (const stream of [false, true]) {
      const answer = await gateway.chat({ ...body, stream })
      expect(answer.status).toBe(200)
      await answer.text()
      await gateway.exchangeLine(answer.headers.get('x-request-id')!)
      const receipt = await store.findReceipt(answer.headers.get('x-request-id')!)
      expect(receipt?.charged).toBeGreaterThan(0n)
    }
    const report = await store.verify()
    expect(report).toMatchObject({ accounts: 1, openHolds: 0, violations: [] })
    const [key] = await store.listKeys()
    await store.revokeKey(key!.id)
    expect((await gateway.chat(body)).status).toBe(401)
  })

  test('never blocks the serving thread', async () => {
    const { gateway, database } = await start()
    const holder = new Client(database.url)
    await holder.connect()
    onTestFinished(() => holder.end())
    await holder.query('BEGIN; LOCK TABLE secret')
    // The token has to be looked up, and the table is locked.
    const asked = gateway.chat(body)
    const began = performance.now()
    expect((await fetch(`${gateway.url}/livez`)).status).toBe(200)
    expect(performance.now() - began).toBeLessThan(500)
    await holder.query('COMMIT')
    expect((await asked).status).toBe(200)
  })

  test('without its database refuses paid requests in time, and serves again with it', async () => {
    const { gateway, database } = await start()
    await (await gateway.chat(body)).text()
    await database.allow(false)
    const began = performance.now()
    const refused = await gateway.chat(body)
    expect(refused.status).toBe(503)
    expect(((await refused.json()) as { error: { code: string } }).error.code).toBe('store_unavailable')
    expect(performance.now() - began).toBeLessThan(1500)
    await database.allow(true)
    await expect.poll(async () => (await gateway.chat(body)).status).toBe(200)
    expect((await gateway.running.store.verify()).violations).toEqual([])
  })

  test('without its database still shows its figures to a token that has read them before', async () => {
    const database = await testDatabase()
    const gateway = await startInProcess({
      store: database.url,
      yaml: { admin: '127.0.0.1:0', metrics: 'token' },
    })
    onTestFinished(async () => void (await gateway.stop()))
    const tokenOf = async (name: string) =>
      (await gateway.running.store.people.createToken({ name, expiresAt: null, createdBy: 'test' })).secret
    const [used, unused] = [await tokenOf('used'), await tokenOf('unused')]
    const ask = async (path: string, token: string) => {
      const headers = { authorization: `Bearer ${token}` }
      const answer = await fetch(`${gateway.running.adminUrl}${path}`, { headers })
      return { status: answer.status, text: await answer.text() }
    }
    expect((await ask('/metrics', used)).status).toBe(200)
    await database.allow(false)
    for (const [path, token] of [
      ['/metrics', unused],
      ['/api/operator/summary', used],
    ] as const) {
      const refused = await ask(path, token)
      expect(refused.status, path).toBe(503)
      expect(refused.text).toContain('"store_unavailable"')
    }
    await expect
      .poll(() => ask('/metrics', used))
      .toMatchObject({ status: 200, text: expect.stringMatching(/^tollgate_ledger_healthy 0$/m) })
    expect(gateway.log.filter(line => line['msg'] === 'an unexpected error')).toEqual([])
    await database.allow(true)
  })

  test('whose table of replicas is wrong: nothing starts, and one problem states the place and the remedy', async () => {
    const database = await testDatabase()
    const options = {
      yaml: { ...yamlOf(database.url), secret: '${WORD}' },
      policies: POLICIES,
      env: { WORD: 'of at least 32 characters, for keys' },
    }
    expect(await (await startGateway(options)).stop()).toBe(0)
    await database.run('ALTER TABLE replica DROP COLUMN lease_until')
    const { message } = (await startGateway(options).catch((error: Error) => error)) as Error
    expect(message.match(/gateway\.yaml:\d+:\d+: .*/g)).toEqual([
      expect.stringMatching(/:3:1: store: The database schema does not match the migrations: .*lease_until.*Restore/),
    ])
  })

  test('removes the files of a killed restore, and nothing of a running one', async () => {
    const { url } = await testDatabase()
    const dir = await temporaryDirectory()
    const [place, restoring] = [join(dir, '.tollgate/tollgate'), join(dir, '.tollgate/tollgate.restoring')]
    const lock = await takeLock(place, { now: () => Date.now() })
    writeFileSync(restoring, 'half')
    const serve = async () => (await startGateway({ yaml: yamlOf(url), policies: POLICIES, dir })).stop()
    expect(await serve()).toBe(0)
    expect(existsSync(restoring)).toBe(true)
    lock.release()
    expect(await serve()).toBe(0)
    expect(readdirSync(join(dir, '.tollgate')).filter(name => /restoring|tollgate\.(lock|owner)/.test(name))).toEqual(
      [],
    )
  })

  test.each([
    [
      'serve',
      `SELECT pg_advisory_lock(${0x544f_4c4c_4741_5445n + 1n})`,
      /Waiting for process PID of the server \(psql\), which is migrating the database\./,
    ],
    [
      'account list',
      'BEGIN; LOCK TABLE replica',
      /^Migration 002-replica-views\.sql waits for a table\. The oldest transaction belongs to process PID of the server \(psql\)\.$/m,
    ],
  ])(
    '%s reports the process that blocks its migration, and continues afterwards',
    async (command, take, sentence) => {
      const { url } = await testDatabase()
      const holder = new Client({ connectionString: url, application_name: 'psql' })
      await holder.connect()
      holder.on('error', () => {})
      const [{ pid }] = (await holder.query('SELECT pg_backend_pid() AS pid')).rows
      if (command !== 'serve') await holder.query(readFileSync('test/store/fixtures/postgres-001.sql', 'utf8'))
      await holder.query(take)
      const dir = await temporaryDirectory()
      const yaml = { ...yamlOf(url), secret: '${WORD}' }
      const config = await writeConfiguration(dir, { yaml, policies: POLICIES })
      const env = { ...process.env, WORD: SECRET }
      const child = spawn(process.execPath, ['src/cli/tollgate.js', ...command.split(' '), '--config', config], { env })
      const ended = once(child, 'exit')
      onTestFinished(() => void child.kill('SIGKILL'))
      let said = ''
      for (const stream of [child.stdout, child.stderr]) stream.on('data', bytes => void (said += String(bytes)))
      await expect.poll(() => said.replace(`process ${pid}`, 'process PID')).toMatch(sentence)
      await holder.end()
      if (command === 'serve') {
        await expect.poll(() => said).toContain('Tollgate answers at')
        child.kill('SIGTERM')
      }
      await ended
      expect(said.split('migrat').length, said).toBe(command === 'serve' ? 2 : 1)
    },
    150_000,
  )

  test('is managed by the commands, while it runs and after it has ended', async () => {
    const database = await testDatabase()
    const gateway = await startGateway({ yaml: yamlOf(database.url), policies: POLICIES })
    onTestFinished(async () => void (await gateway.stop()))
    for (const command of [
      ['account', 'create', 'alice'],
      ['account', 'credit', 'alice', '--amount', '5', '--reference', 'first'],
      ['ledger', 'verify'],
    ]) {
      const { code, stderr } = await tollgate(command, gateway)
      expect(stderr).toBe('')
      expect(code).toBe(0)
    }
    await gateway.stop()
    const secret = join(dirname(gateway.config), '.tollgate', 'secret')
    renameSync(secret, `${secret}.moved`)
    expect((await tollgate(['account', 'list'], gateway)).stderr).toMatch(/The secret of the keys in .* is missing/)
    renameSync(`${secret}.moved`, secret)
    const listed = await tollgate(['account', 'list'], gateway)
    expect(listed.stdout).toContain('alice')
    expect((await tollgate(['ledger', 'verify'], gateway)).stdout).toContain('OK: 1 account, 1 event, 0 open holds')
  })
})
