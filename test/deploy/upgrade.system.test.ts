/**
 * An upgrade under load: replicas on one PostgreSQL database are replaced one after the other, as in src/deploy/README.md, while
 * clients send requests. Both versions serve meanwhile, and no request fails.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { migrationFiles } from '../../src/store/engine/migrate.ts'
import { startBalancer } from '../helpers/balancer.ts'
import { countsOf } from '../helpers/counts.ts'
import { createAccount, type Gateway, startGateway, tollgate } from '../helpers/gateway.ts'
import { startLoad } from '../helpers/load.ts'
import { describeWith, testWith } from '../helpers/missing.ts'
import { type TestDatabase, testDatabase, WITHOUT_POSTGRES } from '../helpers/postgres.ts'
import { ROOT } from '../helpers/repository.ts'

const counts = countsOf('replicas')

const REPLICAS = counts(2, 3)
const CLIENTS = counts(8, 32)
/** Pause between requests in ms, so that a short run does not spend most of its work on requests while replicas start. */
const PAUSE_MS = counts(150, 0)
/** Answers from each replica before the next one is replaced. */
const BETWEEN = counts(10, 1000)
const CREDIT = 1_000_000
const MIGRATIONS = 'src/store/engine/postgres/migrations'
const FIRST_RELEASE = '0.1.0'

/** A version of the program, in its own folder. */
interface Version {
  readonly name: string
  readonly entry: string
}

const versionIn = (folder: string): Version => ({
  name: JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version,
  entry: join(folder, 'src/cli/tollgate.js'),
})

function programFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-version-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

/** Creates this version plus a migration that changes every table that a request writes to. */
function nextVersion(): Version {
  const folder = programFolder()
  for (const name of ['src', 'plugins', 'policies']) cpSync(join(ROOT, name), join(folder, name), { recursive: true })
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...manifest, version: '99.0.0' }))
  const number = String(migrationFiles(join(ROOT, MIGRATIONS)).length + 1).padStart(3, '0')
  const tables = ['account', 'balance', 'event', 'checkpoint', 'key', 'key_total', 'usage', 'replica']
  const sql = tables.map(table => `ALTER TABLE ${table} ADD COLUMN of_next_version TEXT;`)
  writeFileSync(join(folder, MIGRATIONS, `${number}-next.sql`), sql.join('\n'))
  return versionIn(folder)
}

/** Returns the last commit with the store of the first release; null if the checkout's history lacks it. */
function findFirstRelease(): string | null {
  try {
    const [second] = migrationFiles(join(ROOT, MIGRATIONS)).slice(1)
    // A glob, because a move would count as the addition of the new path.
    const path = `:(glob)src/store/**/${second}`
    const added = git('log', '--diff-filter=A', '--format=%H', '--', path).toString().trim()
    return added === '' ? null : git('rev-parse', '--verify', `${added}^`).toString().trim()
  } catch {
    return null
  }
}

const git = (...args: readonly string[]) => execFileSync('git', args, { cwd: ROOT, maxBuffer: 2 ** 28, stdio: 'pipe' })

const firstRelease = findFirstRelease()
const WITHOUT_RELEASE = firstRelease === null ? `git does not have ${FIRST_RELEASE} here` : null

function oldVersion(): Version {
  const folder = programFolder()
  const files = git('archive', firstRelease!, 'src', 'plugins', 'policies', 'package.json')
  execFileSync('tar', ['-x', '-C', folder], { input: files })
  return versionIn(folder)
}

const thisVersion = (): Version => versionIn(ROOT)

const optionsOf = (database: TestDatabase) => ({
  yaml: {
    version: 1,
    listen: '127.0.0.1:0',
    store: database.url,
    secret: '${TOLLGATE_SECRET}',
    drain: '30s',
    // On a busy machine the event loop is late, and the gateway would rightly answer 503.
    limits: { event_loop: '1m' },
    providers: { demo: { dialect: 'demo', pace: '1ms' } },
    models: {
      m: {
        context: '128k',
        max_output: 1024,
        price: { per: '1M tokens', input: '$0', output: '$0', request: '$1' },
        targets: [{ provider: 'demo', model: 'demo-small' }],
      },
    },
    routes: [{ path: '/v1/chat/completions', policy: 'standard' }],
  },
  policies: { standard: { steps: [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits' }, { use: 'route' }] } },
  env: { TOLLGATE_SECRET: 'of all replicas, and of both versions' },
})

describeWith(WITHOUT_POSTGRES, `${REPLICAS} replicas are replaced under load, and no request fails`, () => {
  testWith(WITHOUT_RELEASE, `from ${FIRST_RELEASE} to this version`, () => upgrade(oldVersion(), thisVersion()))

  test('from this version to one with a further migration', () => upgrade(thisVersion(), nextVersion()))

  async function upgrade(old: Version, next: Version): Promise<void> {
    expect(next.name).not.toBe(old.name)
    const database = await testDatabase()
    const options = optionsOf(database)
    const start = async ({ entry }: Version, dir?: string): Promise<Gateway> => {
      const gateway = await startGateway({
        ...options,
        entry,
        ...(dir === undefined ? {} : { dir }),
        keep: line => line['msg'] !== 'exchange',
      })
      onTestFinished(() => gateway.kill9())
      return gateway
    }
    const gateways: Gateway[] = []
    while (gateways.length < REPLICAS) gateways.push(await start(old))
    const { key, accountId } = await createAccount(gateways[0]!, { credit: CREDIT, entry: old.entry })
    const balancer = await startBalancer()
    for (const { url } of gateways) balancer.add(url)
    await expect.poll(() => fetch(`${balancer.url}/livez`).then(({ status }) => status)).toBe(200)

    let serial = 0
    const choose = () => {
      const body = { model: 'm', messages: [{ role: 'user', content: 'hello' }], stream: serial % 3 === 0 }
      return { serial: `serial-${serial++}`, key, body }
    }
    const load = startLoad({ url: balancer.url, clients: CLIENTS, pauseMs: PAUSE_MS, choose })
    /** Resolves when every replica has sent `BETWEEN` more answers. */
    const serve = () => {
      const before = gateways.map(({ url }) => balancer.served(url))
      return load.until(() => gateways.every(({ url }, index) => balancer.served(url) >= before[index]! + BETWEEN))
    }
    await serve()
    const versions = async () =>
      (await database.run('SELECT version FROM replica ORDER BY id')).map(row => row['version'])
    const versionsByStep = [await versions()]
    for (const [index, gateway] of gateways.entries()) {
      balancer.takeOut(gateway.url)
      expect(await gateway.stop()).toBe(0)
      gateways[index] = await start(next, gateway.dir)
      balancer.add(gateways[index].url)
      await serve()
      versionsByStep.push(await versions())
    }
    load.stop()
    await load.over
    const { name } = next
    const replaced = (count: number) => [...Array(REPLICAS - count).fill(old.name), ...Array(count).fill(name)]
    expect(versionsByStep).toEqual(Array.from({ length: REPLICAS + 1 }, (_, count) => replaced(count)))
    expect(load.asked.filter(({ ending }) => ending !== 'complete')).toEqual([])
    console.info(`${old.name} to ${name}: ${load.asked.length} requests, none failed`)

    const here = { config: gateways[0]!.config, entry: next.entry, env: options.env }
    const { stdout } = await tollgate(['account', 'show', accountId, '--json'], here)
    const paid = CREDIT - load.asked.length
    expect(JSON.parse(stdout).account).toMatchObject({ posted: `${paid}.000000000`, held: '0.000000000' })
    expect(await tollgate(['ledger', 'verify'], here)).toMatchObject({ code: 0, stderr: '' })
    for (const gateway of gateways) expect(await gateway.stop()).toBe(0)
  }
})
