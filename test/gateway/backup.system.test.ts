/**
 * Backups by the documented command while a real gateway serves, and their use: no paid exchange is lost, whatever is killed afterwards.
 * A gateway whose files were removed reports it and accepts no paid requests.
 */
import { copyFileSync, linkSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { openDatabase } from '../../src/store/engine/database.ts'
import { verify } from '../../src/store/money/verify.ts'
import { countsOf } from '../helpers/counts.ts'
import { exact, startFakeProvider } from '../helpers/fake-provider.ts'
import {
  answerOf,
  createAccount,
  type Gateway,
  startGateway,
  temporaryDirectory,
  tollgate,
} from '../helpers/gateway.ts'
import { type Load, startLoad } from '../helpers/load.ts'
import { testWith } from '../helpers/missing.ts'
import { holdsLock, openFiles, sqlite3, WITHOUT_LOCKS, WITHOUT_SQLITE } from '../helpers/sqlite-program.ts'
import { until } from '../helpers/until.ts'
import { cost, policies, yamlOf } from './kill-configuration.ts'
import { readLedger } from './kill-ledger.ts'

const counts = countsOf('kills')

const BACKUPS = counts(2, 12)
const CLIENTS = 24

const storeOf = (gateway: Pick<Gateway, 'dir'>) => join(gateway.dir, 'data/tollgate.db')

async function startServing(dir?: string, change: object = {}): Promise<Gateway> {
  const provider = { dialect: 'openai', base_url: await providerUrl() }
  const yaml = { ...yamlOf({ direct: provider, through: provider }), ...change }
  return startGateway({ yaml, policies, ...(dir === undefined ? {} : { dir }) })
}

let provider: Promise<{ baseUrl: string }> | undefined
async function providerUrl(): Promise<string> {
  provider ??= startFakeProvider({ script: exact({ promptTokens: 40 }) })
  return (await provider).baseUrl
}

function question(key: string, serial: string) {
  const stream = serial.endsWith('0')
  const body = { model: 'm', max_tokens: 50, messages: [{ role: 'user', content: serial }] }
  const streamed = { stream: true, stream_options: { include_usage: true } }
  return { serial, key, body: { ...body, ...(stream ? streamed : {}) } }
}

testWith(
  WITHOUT_SQLITE,
  `${BACKUPS} backups by sqlite3 under load, each followed by kill -9 and a start: nothing paid is lost`,
  async () => {
    let gateway = await startServing()
    const path = storeOf(gateway)
    const { key } = await createAccount(gateway, { credit: '1000' })
    let serial = 0
    let paid = 0
    for (let backup = 0; backup < BACKUPS; backup++) {
      const load = startLoad({
        url: gateway.url,
        clients: CLIENTS,
        choose: () => question(key, `serial-${serial++}`),
      })
      await load.until(() => complete(load).length >= 40)
      expect(await sqlite3(path, 'SELECT count(*) > 0 FROM event')).toBe('1')
      const before = complete(load)
      await sqlite3(path, `.backup ${path}.copy-${backup}`)
      expectCopy(`${path}.copy-${backup}`, before)
      expect(await answerOf(['ledger', 'verify'], gateway)).toMatchObject({ violations: [] })
      const more = complete(load).length + 40
      await load.until(() => complete(load).length >= more)
      if (WITHOUT_LOCKS === null) expect(openFiles(gateway.pid, path)).toEqual(['', '-shm', '-wal'])
      await gateway.kill9()
      await load.over
      gateway = await startServing(gateway.dir)
      const { bySerial } = readLedger(path)
      for (const { question, usage } of complete(load)) {
        paid++
        const charged = cost('m', usage!.prompt_tokens, usage!.completion_tokens)
        expect(bySerial.get(question.serial)?.charged, question.serial).toBe(charged)
      }
    }
    expect(await answerOf(['ledger', 'verify'], gateway)).toMatchObject({ violations: [] })
    console.log(`${BACKUPS} backups, ${paid} paid exchanges, none lost`)
    expect(paid).toBeGreaterThanOrEqual(BACKUPS * 80)
    await gateway.stop()
    await expectRestored(path, key)
  },
)

const complete = (load: Load) => load.asked.filter(({ ending }) => ending === 'complete')

/** A backup is a consistent store, with everything that was answered before it began. */
function expectCopy(copy: string, before: ReturnType<typeof complete>): void {
  const { bySerial } = readLedger(copy)
  for (const { question } of before) expect(bySerial.get(question.serial)?.charged, question.serial).not.toBeNull()
  const database = openDatabase(copy, { readOnly: true })
  expect(verify(database, undefined, copy).violations).toEqual([])
  database.close()
}

/** As in the README: the copy and the secret alone, in their own folder. */
async function expectRestored(path: string, key: string): Promise<void> {
  const dir = await temporaryDirectory()
  mkdirSync(join(dir, 'data'))
  copyFileSync(`${path}.copy-0`, storeOf({ dir }))
  copyFileSync(join(path, '../secret'), join(dir, 'data/secret'))
  const restored = await startServing(dir)
  const answer = await fetch(`${restored.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(question(key, 'serial-1').body),
  })
  expect(answer.status).toBe(200)
  expect(await answerOf(['ledger', 'verify'], restored)).toMatchObject({ violations: [] })
  await restored.stop()
}

testWith(WITHOUT_LOCKS, 'SQLite keeps its lock through everything that a gateway does', async () => {
  const gateway = await startServing(undefined, { admin: '127.0.0.1:0', dashboard: '127.0.0.1:0' })
  const path = storeOf(gateway)
  const expectLocked = (after: string) => {
    expect(holdsLock(gateway.pid, path), after).toBe(true)
    expect(openFiles(gateway.pid, path), after).toEqual(['', '-shm', '-wal'])
  }
  expectLocked('the start')
  const { key, keyId, accountId } = await createAccount(gateway, { credit: '10' })
  expectLocked('commands of this process')
  for (const args of [
    ['key', 'rotate', keyId],
    ['account', 'freeze', accountId],
    ['account', 'unfreeze', accountId],
  ]) {
    await answerOf(args, gateway)
  }
  expect(await tollgate(['ledger', 'verify'], { config: gateway.config })).toMatchObject({ code: 0 })
  expect(await tollgate(['account', 'list'], { config: gateway.config })).toMatchObject({ code: 0 })
  expectLocked('commands of other processes')
  if (WITHOUT_SQLITE === null) await sqlite3(path, 'SELECT count(*) FROM event')
  expectLocked('a reader from outside')
  const dashboard = String((await gateway.waitForLog(line => line['msg'] === 'listening'))['dashboard'])
  for (const url of [
    `${dashboard}/`,
    `${dashboard}/api/v1/me`,
    `${gateway.adminUrl}/metrics`,
    `${gateway.url}/readyz`,
  ]) {
    await (await fetch(url)).arrayBuffer()
  }
  expectLocked('the dashboard, metrics and health')
  const load = startLoad({ url: gateway.url, clients: 4, choose: () => question(key, 'serial-0') })
  await load.until(() => load.ended >= 20)
  load.stop()
  await load.over
  expectLocked('requests')
  writeFileSync(join(gateway.dir, 'policies/receipts.yaml'), 'steps: [{ use: api-key }, { use: schema }]\n')
  await gateway.waitForLog(line => line['msg'] === 'the configuration has changed' || line['problem'] !== undefined)
  expectLocked('a reload')
  expect(await gateway.stop()).toBe(0)
})

test('the log is removed under a gateway: 503 for paid requests and /readyz, and verify reports what is missing', async () => {
  let gateway = await startServing()
  const path = storeOf(gateway)
  const { key } = await createAccount(gateway, { credit: '10' })
  const ask = (serial: string) =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(question(key, serial).body),
    })
  expect((await ask('serial-1')).status).toBe(200)
  for (const end of ['-wal', '-shm']) rmSync(path + end)
  const refused = await ask('serial-1')
  expect(refused.status).toBe(503)
  expect(await refused.json()).toEqual({
    error: { code: 'store_unavailable', type: 'server_error', param: null, message: expect.any(String) },
  })
  const ready = await fetch(`${gateway.url}/readyz`)
  expect(ready.status).toBe(503)
  expect(await ready.json()).toEqual({
    status: 'not ready',
    reason: expect.stringMatching(
      /^the store's (write-ahead log|WAL index) was removed or replaced while the gateway ran/,
    ),
  })
  await until(() =>
    expect(gateway.logs()).toContainEqual(expect.objectContaining({ msg: 'paid requests are refused' })),
  )
  await gateway.kill9()

  gateway = await startServing(gateway.dir)
  const line = await gateway.waitForLog(({ msg }) =>
    String(msg).startsWith('commits that were acknowledged are missing'),
  )
  expect(line).toMatchObject({ level: 'error', commits: expect.any(Number), last_at: expect.any(String) })
  const { code, stdout } = await tollgate(['ledger', 'verify'], { config: gateway.config })
  expect(code).toBe(1)
  expect(stdout).toMatch(/I13\s+ledger\s+A start found that the last \d+ commits up to .* were missing/)
  expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200)
  await gateway.stop()
})

describe('another name of a served store', () => {
  const row = (what: string, link: (target: string, path: string) => void) => [what, link] as const

  test.each([row('a symbolic link', symlinkSync), row('a hard link', linkSync)])(
    '%s: a second gateway refuses, naming pid and age',
    async (what, link) => {
      const gateway = await startServing()
      const other = await temporaryDirectory()
      mkdirSync(join(other, 'data'))
      link(storeOf(gateway), storeOf({ dir: other }))
      const yaml = stringify(yamlOf({ direct: { dialect: 'demo' }, through: { dialect: 'demo' } }))
      const second = startGateway({ yaml, policies, dir: other })
      await expect(second).rejects.toThrow(new RegExp(`in use by process ${gateway.pid}, for \\d+ s`))
      const command = await tollgate(['account', 'create', 'acme'], { config: join(other, 'gateway.yaml') })
      if (what === 'a symbolic link') {
        // Through the gateway that owns it.
        expect(command).toMatchObject({ code: 0 })
        const { accounts } = await answerOf<{ accounts: object[] }>(['account', 'list'], gateway)
        expect(accounts).toEqual([expect.objectContaining({ name: 'acme' })])
      } else {
        expect(command).toMatchObject({ code: 1 })
        if (WITHOUT_LOCKS === null)
          expect(command.stderr).toMatch(new RegExp(`in use by process ${gateway.pid}, for \\d+ s, under`))
        expect(command.stderr).toContain('2 hard links')
      }
      // SQLite would take files beside the other name for its own; none was created.
      expect(readdirSync(join(other, 'data')).filter(file => /-(wal|shm)$/.test(file))).toEqual([])
      expect(statSync(storeOf(gateway)).isFile()).toBe(true)
      await gateway.stop()
    },
  )
})
