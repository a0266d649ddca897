/** `tollgate backup` and `tollgate restore` as real processes: beside running gateways, and killed halfway. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { RESTORING } from '../../src/store/store-address.ts'
import { runCommand } from '../helpers/command.ts'
import { countsOf } from '../helpers/counts.ts'
import {
  createAccount,
  type Gateway,
  type GatewayOptions,
  startGateway,
  temporaryDirectory,
  tollgate,
  writeConfiguration,
} from '../helpers/gateway.ts'
import { type Load, startLoad } from '../helpers/load.ts'
import { testWith } from '../helpers/missing.ts'
import { testDatabase, WITHOUT_POSTGRES } from '../helpers/postgres.ts'
import { seeded } from '../helpers/seeded.ts'
import { makeSample, type Sample } from '../store/large.ts'

const counts = countsOf('kills')

const SECRET = 'the same one, before and afterwards'
const PRICE = { per: '1M tokens', input: '$0', output: '$0', request: '$1' }

function optionsOf(store: string, more: object = {}): GatewayOptions {
  return {
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      store,
      secret: '${TOLLGATE_SECRET}',
      providers: { demo: { dialect: 'demo', pace: '2ms' } },
      models: {
        m: { context: '8k', max_output: 64, price: PRICE, targets: [{ provider: 'demo', model: 'demo-small' }] },
      },
      routes: [{ path: '/v1/chat/completions', policy: 'standard' }],
      ...more,
    },
    policies: { standard: { steps: [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits' }, { use: 'route' }] } },
    env: { TOLLGATE_SECRET: SECRET },
  }
}

describe('an error message for', () => {
  test.each<[string, object, readonly string[], RegExp]>([
    [
      'a store in memory',
      { store: 'memory' },
      ['backup', 'x.db'],
      /^error: The configuration has "store: memory", which cannot be backed up/,
    ],
    [
      'a restore into memory',
      { store: 'memory' },
      ['restore', 'there.db'],
      /^error: The configuration has "store: mem/,
    ],
    ['a missing store', {}, ['backup', 'x.db'], /^error: The store \/.*\/tollgate\.db does not exist yet\.$/m],
    ['an output file that exists', {}, ['backup', 'there.db'], /^error: .*there\.db exists already\. Name another/],
    ['a missing file', {}, ['restore', 'none.db'], /^error: none\.db cannot be read: the file does not exist\.$/m],
    ['a folder', {}, ['restore', '.'], /^error: \. cannot be read: it is not a regular file\.$/m],
    [
      'a file that is not a backup',
      {},
      ['restore', 'there.db'],
      /^error: there\.db is not a complete backup: it was not written by `tollgate backup`, or/,
    ],
    ['a missing secret', { secret: undefined }, ['restore', 'there.db'], /^error: The secret of the keys/],
    ['a secret of another store', { secret: '${NOWHERE}' }, ['restore', 'there.db'], /^error: The secret of .*NOWHERE/],
    [
      '--replace in PostgreSQL',
      { store: 'postgres://me:word@127.0.0.1:1/d' },
      ['restore', 'there.db', '--replace'],
      /^error: --replace is only for a SQLite file\. In PostgreSQL/,
    ],
    [
      'an unreachable server',
      { store: 'postgres://me:word@127.0.0.1:1/d' },
      ['backup', 'x.db'],
      /^error: The store postgres:\/\/me@127\.0\.0\.1:1\/d cannot be reached/,
    ],
  ])('%s', async (_, more, args, rule) => {
    const folder = await temporaryDirectory()
    await writeConfiguration(folder, optionsOf('sqlite:./tollgate.db', more))
    copyFileSync(import.meta.filename, join(folder, 'there.db'))
    const before = readdirSync(folder)
    const { code, out, err } = await runCommand(folder, args, { env: { TOLLGATE_SECRET: SECRET } })
    expect([code, out]).toEqual([1, ''])
    expect(err).toMatch(rule)
    expect(err).not.toContain('word@')
    expect(readdirSync(folder)).toEqual(before)
  })
})

const ENGINES = ['SQLite', 'PostgreSQL'] as const

describe.each(ENGINES)('a gateway on %s', engine => {
  const missing = engine === 'PostgreSQL' ? WITHOUT_POSTGRES : null
  const newStore = async () => (engine === 'SQLite' ? 'sqlite:./data/tollgate.db' : (await testDatabase()).url)

  const start = async (options: GatewayOptions) => {
    const gateway = await startGateway(options)
    onTestFinished(() => gateway.kill9())
    return gateway
  }

  testWith(missing, 'is backed up under load: the copy has every earlier charge and works elsewhere', async () => {
    // A busy machine may refuse requests as overload.
    const gateway = await start(optionsOf(await newStore(), { limits: { event_loop: '24h' } }))
    const { key, accountId } = await createAccount(gateway, { credit: '1000000' })
    const load = loadOf(gateway, key)
    await load.until(() => load.ended >= counts(100, 2000))
    const paid = load.asked.filter(({ ending }) => ending === 'complete').length
    const file = join(gateway.dir, 'backups/one.db')
    mkdirSync(join(gateway.dir, 'backups'))
    const backup = await tollgate(['backup', 'backups/one.db', '--json'], { config: gateway.config })
    expect(backup.code, backup.stderr).toBe(0)
    const report = JSON.parse(backup.stdout)
    expect(report).toMatchObject({ waiting_charges: 0, bytes: statSync(file).size })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const ended = load.ended
    await load.until(() => load.ended >= ended + 20)
    load.stop()
    await load.over
    // No request was refused or broken off during the backup.
    expect(load.asked.filter(({ ending }) => ending !== 'complete')).toEqual([])

    const elsewhere = optionsOf(await newStore())
    const dir = await temporaryDirectory()
    const config = await writeConfiguration(dir, elsewhere)
    const env = { TOLLGATE_SECRET: SECRET }
    const restored = await tollgate(['restore', file, '--json'], { config, env })
    expect(restored.code, restored.stderr).toBe(0)
    const { posted, charged, accounts, kept } = JSON.parse(restored.stdout)
    expect([accounts, kept]).toEqual([report.accounts, null])
    expect(Number(posted) + Number(charged)).toBe(Number(report.posted))
    const next = await start({ ...elsewhere, dir })
    const { stdout } = await tollgate(['account', 'show', accountId, '--json'], { config })
    const account = JSON.parse(stdout).account
    expect(account.held).toBe('0.000000000')
    expect(1_000_000 - Number(account.posted)).toBeGreaterThanOrEqual(paid)
    expect(await answerTo(next, key)).toBe(200)
    expect((await tollgate(['ledger', 'verify'], { config })).code).toBe(0)
    // A restore is refused while the gateway runs.
    const again = await tollgate(['restore', file], { config, env })
    expect(again.code).toBe(1)
    expect(again.stderr).toMatch(/is in use by|is not empty/)
    expect(await next.stop()).toBe(0)
  })
})

function loadOf(gateway: Gateway, key: string): Load {
  let serial = 0
  const choose = () => {
    const body = { model: 'm', messages: [{ role: 'user', content: 'hello' }], stream: serial % 2 === 0 }
    return { serial: `serial-${serial++}`, key, body }
  }
  return startLoad({ url: gateway.url, clients: 8, pauseMs: counts(50, 0), choose })
}

async function answerTo(gateway: Gateway, key: string): Promise<number> {
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] }),
  })
  await answer.text()
  return answer.status
}

describe('a command that is killed', () => {
  const PROGRAM = fileURLToPath(new URL('../../src/cli/tollgate.js', import.meta.url))
  const KILLS = counts(5, 30)

  async function place(name: string): Promise<Sample & { config: string }> {
    const sample = await makeSample(await temporaryDirectory(), name, 20, counts(3000, 60_000))
    const config = await writeConfiguration(sample.dir, optionsOf('sqlite:./data/tollgate.db', { secret: undefined }))
    return { ...sample, config }
  }

  /**
   * Returns a function that runs a command, kills it after a random time, and returns whether it was killed before it ended.
   * The time is at most 1.2 times what a command takes. Each command that ended updates that measure, because the load of the
   * machine varies.
   */
  function killer(): (args: readonly string[]) => Promise<boolean> {
    const random = chance()
    let ms = 1000
    return async args => {
      const began = performance.now()
      const child = spawn(process.execPath, [PROGRAM, ...args], { stdio: 'ignore' })
      const ended = once(child, 'exit')
      await Promise.race([wait(random() * ms * 1.2), ended])
      child.kill('SIGKILL')
      await ended
      const wasKilled = child.signalCode === 'SIGKILL'
      // A killed command only shows that commands may take longer.
      ms = wasKilled ? ms * 1.1 : performance.now() - began
      return wasKilled
    }
  }

  test('a killed backup leaves a complete file or none', async () => {
    const { dir, config, path } = await place('backup')
    const kill = killer()
    let [round, kills, parts, whole] = [0, 0, 0, 0]
    // Until a copy was interrupted, the test has shown nothing.
    while (kills < KILLS || parts === 0) {
      const name = `${round++}.db`
      if (await kill(['backup', join(dir, name), '--config', config])) kills++
      if (readdirSync(dir).some(other => other.startsWith(`${name}.`) && other.endsWith('.partial'))) parts++
      if (!existsSync(join(dir, name))) continue
      whole++
      for (const end of ['', '-wal', '-shm', '.commits']) rmSync(path + end, { force: true })
      const out = expect.stringContaining("operators' tokens that were revoked since then are valid again")
      expect(await runCommand(dir, ['restore', join(dir, name)])).toMatchObject({ code: 0, out })
    }
    console.info(`${round} backups, ${kills} killed; ${parts} left a part, ${whole} are whole`)
  })

  test('a killed restore leaves the old store or the new one, and never loses the old one', async () => {
    const { dir, config, path } = await place('restore')
    const kill = killer()
    expect((await tollgate(['backup', 'first.db'], { config })).code).toBe(0)
    expect((await tollgate(['account', 'create', 'later'], { config })).code).toBe(0)
    const data = join(path, '..')
    renameSync(data, `${data}.sample`)
    const stores = { old: 0, new: 0, none: 0 }
    let [kills, parts] = [0, 0]
    while (kills < KILLS || parts === 0) {
      rmSync(data, { recursive: true, force: true })
      mkdirSync(data)
      for (const name of readdirSync(`${data}.sample`)) copyFileSync(join(`${data}.sample`, name), join(data, name))
      if (await kill(['restore', join(dir, 'first.db'), '--replace', '--config', config])) kills++
      if (existsSync(path + RESTORING)) parts++
      const kept = readdirSync(data).find(name => /\.replaced-[^.]*\.\d+Z$/.test(name))
      const isOld = (await accountsIn(dir, kept ?? 'tollgate.db')).includes('later')
      expect(isOld, 'the store before').toBe(true)
      if (kept === undefined) stores.old++
      else if (!existsSync(path)) stores.none++
      else stores.new++
      expect(await runCommand(dir, ['restore', join(dir, 'first.db'), '--replace'])).toMatchObject({ code: 0 })
      expect(await accountsIn(dir, 'tollgate.db')).not.toContain('later')
    }
    console.info(`${kills} restores killed, ${parts} left a part; stores`, stores)
  })

  test('on a full disk, a backup leaves no file and a restore leaves the store unchanged', async () => {
    const { dir, config, path } = await place('full')
    expect((await tollgate(['backup', 'whole.db'], { config })).code).toBe(0)
    // Files of these processes are limited to 256 KiB, which acts like a full disk.
    const limited = (...args: readonly string[]) => {
      const words = [process.execPath, PROGRAM, ...args, '--config', config]
      const { status, stderr } = spawnSync('sh', ['-c', 'ulimit -f 512; "$@"', 'sh', ...words], { cwd: dir })
      return { status, stderr: String(stderr) }
    }
    mkdirSync(join(dir, 'backups'))
    const backup = limited('backup', 'backups/half.db')
    expect(backup.status).toBe(1)
    expect(backup.stderr).toMatch(/^error: .*(full|disk I\/O error|EFBIG|No space)/)
    expect(readdirSync(join(dir, 'backups'))).toEqual([])
    const files = () => readdirSync(join(path, '..')).filter(name => !/-(wal|shm)$|\.lock$/.test(name))
    const before = files()
    const restore = limited('restore', 'whole.db', '--replace')
    expect(restore.status).toBe(1)
    expect(restore.stderr).toMatch(/^error: .*(full|disk I\/O error|EFBIG|No space)/)
    expect(files()).toEqual(before)
    expect(await tollgate(['ledger', 'verify'], { config })).toMatchObject({ code: 0 })
  })

  function chance(): () => number {
    const seed = Math.floor(Math.random() * 2 ** 32)
    console.info(`killed by the seed ${seed}`)
    return seeded(seed)
  }

  async function accountsIn(dir: string, name: string): Promise<string> {
    await writeConfiguration(dir, optionsOf(`sqlite:./data/${name}`, { secret: undefined }))
    const { code, out, err } = await runCommand(dir, ['account', 'list', '--json'])
    expect(code, err).toBe(0)
    expect(await runCommand(dir, ['ledger', 'verify'])).toMatchObject({ code: 0 })
    await writeConfiguration(dir, optionsOf('sqlite:./data/tollgate.db', { secret: undefined }))
    return out
  }
})
