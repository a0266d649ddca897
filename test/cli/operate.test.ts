/** The commands for accounts, keys and money on a real database: alone, and beside a gateway that owns it. */

import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import type { Command } from 'commander'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { plainPrice } from '#contract'
import { buildProgram } from '../../src/cli/cli.ts'
import { connect } from '../../src/store/engine/database.ts'
import { takeLock } from '../../src/store/files/lock.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { aHold, aSettle } from '../store/requests.ts'
import { makePlace, ownStore, type Place, startGateway } from './helpers.ts'

const clock = { now: () => Date.now() }
const TOKEN = /^\S{30,}$/m

let place: Place
const cleanups: (() => unknown)[] = []

beforeEach(() => {
  place = makePlace()
})
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
  place.remove()
})

describe('failures with an error message', () => {
  test.each([
    { options: [], hints: [expect.stringMatching(/^To try again, add --reference cli-\S+: a reference/)] },
    { options: ['--reference', 'invoice-1'], hints: [] },
  ])('credit with an unknown outcome ($options)', async ({ options, hints }) => {
    const deaf = createServer(socket => socket.once('data', () => socket.destroy()))
    mkdirSync(dirname(place.database), { recursive: true })
    await new Promise<void>(resolve => deaf.listen(place.database.replace('.db', '.sock'), resolve))
    cleanups.push(() => deaf.close())
    const { code, err } = await place.tollgate(['account', 'credit', 'acme', '--amount', '1', ...options])
    expect(code).toBe(1)
    expect(err).toContain('closed the connection during the call')
    expect(err.split('\n').filter(line => line.includes('--reference'))).toEqual(hints)
  })

  test('a missing configuration', async () => {
    const { code, err } = await place.tollgate(['account', 'list', '-c', 'other.yaml'])
    expect(code).toBe(1)
    expect(err).toContain('The configuration other.yaml cannot be read: the file does not exist.')
  })

  test('a configuration that is not YAML: the place is shown', async () => {
    place.write('gateway.yaml', 'version: 1\nstore: [\n')
    const { code, err } = await place.tollgate(['account', 'list'])
    expect(code).toBe(1)
    expect(err).toMatch(/gateway\.yaml:\d+:\d+: /)
  })

  test('an invalid store address', async () => {
    place.write('gateway.yaml', 'version: 1\nstore: postgres://u@h,i/d\n')
    const { code, err } = await place.tollgate(['account', 'list'])
    expect(code).toBe(1)
    expect(err).toContain('gateway.yaml:2:8: postgres: takes one host')
  })

  test('store: memory without a gateway', async () => {
    place.write('gateway.yaml', 'version: 1\nstore: memory\n')
    const { code, err } = await place.tollgate(['account', 'create', 'acme'])
    expect(code).toBe(1)
    expect(err).toContain('no gateway runs here. Start it (tollgate serve)')
  })

  test('a store locked by a process that does not respond: the message has its pid and the age of the lock', async () => {
    const lock = await takeLock(place.database, clock)
    cleanups.push(() => lock.release())
    const { code, err } = await place.tollgate(['account', 'list'])
    expect(code).toBe(1)
    expect(err).toMatch(new RegExp(`in use by process ${process.pid}, for \\d+ s`))
    expect(err).toContain('control socket')
  })

  test('a store that cannot be opened', async () => {
    place.write('gateway.yaml', 'version: 1\nstore: sqlite:./gateway.yaml/x/t.db\n')
    const { code, err } = await place.tollgate(['account', 'list'])
    expect(code).toBe(1)
    expect(err).toContain('cannot be opened')
    expect(err).not.toContain('unexpected')
  })

  test('an unset secret fails only when it is needed', async () => {
    place.write('gateway.yaml', 'version: 1\nsecret: ${TOLLGATE_SECRET}\nstore: sqlite:./data/tollgate.db\n')
    const alone = await place.tollgate(['account', 'list'])
    expect(alone.code).toBe(1)
    expect(alone.err).toContain('TOLLGATE_SECRET is not set')

    const gateway = await startGateway(place)
    cleanups.push(() => gateway.stop())
    expect(await place.tollgate(['account', 'list'])).toMatchObject({ code: 0 })
  })

  test('requests that the store refuses', async () => {
    await place.json('account.create', 'acme')
    const twice = await place.tollgate(['account', 'create', 'acme'])
    expect(twice).toMatchObject({ code: 1, out: '' })
    expect(twice.err).toBe('error: The name "acme" is taken by another account. Choose another name.\n')
    const unknown = await place.tollgate(['key', 'create', '--account', 'unknown'])
    expect(unknown.err).toContain('"unknown"')
  })
})

test.each([
  ['check', true],
  ['demo', false],
])('the help of %s shows --config: %s', async (command, isShown) => {
  expect((await place.tollgate([command, '--help'])).out.includes('--config')).toBe(isShown)
})

describe('a wrong command line: exit code 2, and nothing is done', () => {
  test.each([
    [['acount', 'list'], 'Did you mean account?'],
    [['account', 'lisst'], 'Did you mean list?'],
    [['account', 'list', '--jsno'], 'Did you mean --json?'],
    [['account', 'create'], "missing required argument 'name'"],
    [['account', 'create', 'acme', 'b'], 'too many arguments'],
    [['account', 'create', 'acme', '--credit', '1e3'], 'not an amount of dollars'],
    [['account', 'create', 'acme', '--credit', '-5'], 'not an amount of dollars'],
    [['account', 'credit', 'acme'], "required option '--amount <dollars>'"],
    [['account', 'credit', 'acme', '--amount', '-5'], 'a negative amount needs --note'],
    [['account', 'credit', 'acme', '--amount', '-0', '--note', 'n'], 'must not be $0'],
    [['account', 'credit', 'acme', '--amount', '-5e1', '--note', 'n'], 'not an amount of dollars'],
    [['key', 'create'], "required option '--account <account>'"],
    [['key', 'create', '--account', 'acme', '--expires', '2001-01-01'], 'not in the future'],
    [['key', 'rotate', 'key_1', '--grace', '169h'], 'at most 168h;'],
    [['key', 'update', 'key_1'], 'nothing to change: add --name, --models,'],
    [['key', 'update', 'key_1', '--cap', '0'], 'more than $0'],
    [
      ['key', 'update', 'key_1', '--cap', '1000000000'],
      `option '--cap <dollars>' argument '1000000000' is invalid. "1000000000" is more than the largest amount of dollars, $999999999.999999999`,
    ],
    [['key', 'update', 'key_1', '--models', 'a', '--all-models'], 'cannot be used with'],
    [['key', 'create', '--acount=acme'], '(Did you mean --account instead of --acount?)'],
    [['demo', '-c', 'a.yaml'], 'error: demo reads no configuration: remove -c, --config'],
    [['init', '--config=a.yaml'], 'error: init reads no configuration'],
    [['-c', 'a.yaml', 'build'], 'error: build reads no configuration'],
    [['import', 'litellm', 'b.yaml', '-c', 'a.yaml'], 'error: import litellm reads no configuration'],
    [['import', 'litellm', 'b.yaml', '--force'], 'error: --force needs --out: without --out no file is written'],
    [['store', 'copy', '--from', 'a', '--to', 'b', '-c', 'a.yaml'], 'error: store copy reads no configuration'],
    [['check', '--format', 'html'], 'Allowed choices are text, json, sarif, github'],
    [['account'], 'Usage: tollgate account'],
    [[], 'Usage: tollgate'],
  ])('%j: %s', async (args, sentence) => {
    const { code, out, err } = await place.tollgate(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(sentence)
    expect(existsSync(join(place.folder, 'data'))).toBe(false)
  })
})

describe('help', () => {
  const silent = { env: {}, folder: '/', out: () => {}, err: () => {}, watched: false, self: 'tollgate' }
  const idle = () => buildProgram({ terminal: silent, finish: async () => {} })
  const lines = (command: Command, path: readonly string[]): string[][] => [
    [...path],
    ...command.commands
      .filter(inner => inner.name() !== 'help')
      .flatMap(inner => lines(inner, [...path, inner.name()])),
  ]

  test.each(lines(idle(), []).map(line => [line]))('%j: usage, exit codes, and examples that parse', async line => {
    const { code, out, err } = await place.tollgate([...line, '--help'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(new RegExp(`^Usage: ${['tollgate', ...line].join(' ')}\\b`))
    expect(out).toMatch(/Exit codes:\n {2}0 .*\n {2}1 .*\n {2}2 /)
    const examples = [...out.matchAll(/^ {2}\$ tollgate (.*)$/gm)].map(([, text = '']) => text)
    expect(examples).not.toEqual([])
    for (const example of examples) {
      expect(example).toMatch(new RegExp(`^${line.join(' ')}`))
      const words = example.replace(/ > \S+$/, '').match(/"[^"]*"|\S+/g) ?? []
      await idle().parseAsync(
        words.map(word => word.replaceAll('"', '')),
        { from: 'user' },
      )
    }
    expect(existsSync(join(place.folder, 'data'))).toBe(false)
  })
})

test('the version is that of package.json', async () => {
  const { default: packageFile } = await import('../../package.json', { with: { type: 'json' } })
  expect(await place.tollgate(['--version'])).toEqual({ code: 0, out: `${packageFile.version}\n`, err: '' })
})

// Commands print the same whether they open the store themselves or use the running gateway.
describe.each(['alone', 'beside a gateway'] as const)('%s', how => {
  let store: LocalStore | undefined
  beforeEach(async () => {
    store = undefined
    if (how === 'alone') return
    const gateway = await startGateway(place)
    store = gateway.store
    cleanups.push(() => gateway.stop())
  })

  /** Runs work for which no command exists, in the store that the commands use. */
  async function inStore(work: (store: LocalStore) => Promise<unknown>): Promise<void> {
    const owner = store ? { store, stop: async () => {} } : await ownStore(place.database)
    await work(owner.store)
    await owner.stop()
  }

  test('an account: created, credited, shown, listed, frozen', async () => {
    const created = await place.tollgate(['account', 'create', 'acme', '--plan', 'free', '--credit', '10'])
    expect(created).toMatchObject({ code: 0, err: '' })
    expect(created.out).toMatch(/available {2}\$10\n/)
    expect(created.out).toMatch(/tollgate key create --account acc_\S+/)

    const credit = ['account', 'credit', 'acme', '--amount', '5.25', '--reference', 'invoice-1']
    expect((await place.tollgate(credit)).out).toContain('Gave $5.25 to account acme.')
    const again = await place.tollgate(credit)
    expect(again.code).toBe(0)
    expect(again.out).toContain('Nothing changed: the reference "')
    expect(again.out).toContain('$15.25')
    const other = await place.tollgate(['account', 'credit', 'acme', '--amount', '1', '--reference', 'invoice-1'])
    expect(other.code).toBe(1)

    expect(await place.json('account.show', 'acme')).toMatchObject({
      account: { name: 'acme', plan: 'free', posted: '15.250000000', held: '0.000000000', available: '15.250000000' },
      keys: [],
    })
    expect((await place.tollgate(['account', 'freeze', 'acme'])).out).toContain('is frozen')
    expect((await place.tollgate(['account', 'list'])).out).toMatch(/^acme +free +\$15\.25 +\$0 +frozen /m)
    expect((await place.tollgate(['account', 'unfreeze', 'acme'])).out).toContain('is not frozen')
    expect(store?.reads.listAccounts().map(({ name }) => name) ?? ['acme']).toEqual(['acme'])
  })

  test.each([['--amount', '-5'], ['--amount=-5'], ['--amount', '-$5'], ['--amount=$-5']])(
    'credit is removed with %s %s, up to the available amount',
    async (...amount) => {
      await place.json('account.create', 'acme', '--credit', '8')
      const take = [...amount, '--reference', 'refund-1', '--note', 'a mistake']
      const taken = await place.tollgate(['account', 'credit', 'acme', ...take])
      expect(taken).toMatchObject({ code: 0, err: '' })
      expect(taken.out).toContain('Took $5 from account acme.')
      expect(await place.json('account.credit', 'acme', ...take)).toMatchObject({ granted: false })
      const more = ['account', 'credit', 'acme', '--note', 'more', ...amount]
      const { code, err } = await place.tollgate(more)
      expect(code).toBe(1)
      expect(err).toMatch(/Take at most \$3\.0+/)
      expect(await place.json('account.show', 'acme')).toMatchObject({ account: { posted: '3.000000000' } })
    },
  )

  test('credit without a reference prints a generated one, which makes a repetition idempotent', async () => {
    await place.json('account.create', 'acme')
    const { out } = await place.tollgate(['account', 'credit', 'acme', '--amount', '0.000000001'])
    const reference = /reference {2}(\S+)/.exec(out)?.[1]
    expect(reference).toMatch(/^cli-/)
    const again = ['acme', '--amount', '0.000000001', '--reference', reference!]
    expect(await place.json('account.credit', ...again)).toMatchObject({
      granted: false,
      account: { available: '0.000000001' },
    })
  })

  test('a new key: its secret is printed once, on a line of its own', async () => {
    await place.json('account.create', 'acme')
    const { out } = await place.tollgate(['key', 'create', '--account', 'acme', '--name', 'laptop', '--expires', '30d'])
    const token = TOKEN.exec(out)![0]
    expect(out.split(token)).toHaveLength(2)
    expect(out).toContain('not shown again')

    const { key, token: other } = await place.json('key.create', '--account', 'acme', '--name', 'ci')
    expect(other).toMatch(TOKEN)
    const rotated = await place.tollgate(['key', 'rotate', key.id, '--grace', '0s'])
    expect(rotated.out).toContain('stopped working now')
    expect(TOKEN.exec(rotated.out)![0]).not.toBe(other)

    expect((await place.tollgate(['key', 'revoke', key.id])).out).toContain(`Key ${key.id} ("ci") of account acme`)
    const list = await place.tollgate(['key', 'list', '--account', 'acme'])
    expect(list.out).toMatch(new RegExp(`laptop +acme +…${token.slice(-4)} +all public +live `))
    expect(list.out).toMatch(/ci +acme +all public +revoked /)
    for (const secret of [token, other]) expect(list.out).not.toContain(secret)
  })

  test('a key with a cap: the amount spent, and the time of the last use', async () => {
    const { account } = await place.json('account.create', 'acme', '--credit', '10')
    const capped = ['key', 'create', '--account', 'acme', '--name', 'ci', '--cap', '2', '--json']
    const { key } = JSON.parse((await place.tollgate(capped)).out)
    expect(key).toMatchObject({ spending_cap: '2.000000000', spent: '0.000000000', last_used_at: null })
    await place.json('key.create', '--account', 'acme', '--name', 'free')
    const row = async (name: string) =>
      (await place.tollgate(['key', 'list'])).out.split('\n').find(line => line.includes(` ${name} `))
    expect(await row('ci')).toMatch(/ live +\$0 of \$2 +never +never$/)
    expect(await row('free')).toMatch(/ live +\$0 +never +never$/)

    await inStore(async ({ ledger }) => {
      const exchange = aHold({ accountId: account.id, keyId: key.id, amount: 500_000_000n })
      expect(await ledger.hold(exchange)).toMatchObject({ held: true })
      expect(await ledger.settle(aSettle({ exchange: exchange.exchange, amount: 120_000_000n }))).toBe('settled')
    })
    expect(await row('ci')).toMatch(/ live +\$0\.12 of \$2 +\d{4}-\d\d-\d\d \d\d:\d\d UTC +never$/)
    expect((await place.tollgate(['account', 'show', 'acme'])).out).toContain('$0.12 of $2')
  })

  test('a rotated key expires at the given time, or as before', async () => {
    await place.json('account.create', 'acme')
    const { key } = await place.json('key.create', '--account', 'acme', '--expires', '2099-01-01')
    expect(key.expires_at).toBe('2099-01-01T00:00:00.000Z')
    const { key: other } = await place.json('key.create', '--account', 'acme', '--expires', '2098-01-01')
    expect((await place.json('key.rotate', other.id)).key.expires_at).toBe(other.expires_at)
    const later = await place.json('key.rotate', key.id, '--expires', '2100-06-30', '--grace', '1h')
    expect(later.key.expires_at).toBe('2100-06-30T00:00:00.000Z')
    expect(later.key.secrets).toHaveLength(2)
    const { key: short } = await place.json('key.create', '--account', 'acme', '--expires', '1h')
    const end = `${short.expires_at!.slice(0, 10)} ${short.expires_at!.slice(11, 16)} UTC`
    expect((await place.tollgate(['key', 'rotate', short.id])).out).toContain(`the old one works until ${end}.`)
    const past = await place.tollgate(['key', 'rotate', key.id, '--expires', '2001-01-01'])
    expect(past).toMatchObject({ code: 2, out: '' })
    const again = await place.tollgate(['key', 'rotate', key.id])
    expect(again).toMatchObject({ code: 1, out: '' })
    expect(again.err).toContain('was rotated less than a minute ago')
    expect((await place.json('key.list')).keys).toMatchObject([
      { expires_at: '2100-06-30T00:00:00.000Z' },
      { expires_at: other.expires_at },
      { expires_at: short.expires_at },
    ])
  })

  test('an update of a key changes only the given settings', async () => {
    await place.json('account.create', 'acme')
    const { key, token } = await place.json('key.create', '--account', 'acme', '--name', 'ci', '--cap', '2')
    const changed = { ...key, name: 'nightly', spending_cap: '5.000000000', expires_at: '2099-01-01T00:00:00.000Z' }
    const all = ['--name', 'nightly', '--cap', '5', '--expires', '2099-01-01']
    expect((await place.json('key.update', key.id, ...all)).key).toEqual(changed)
    const none = await place.json('key.update', key.id, '--cap', 'none', '--expires', 'never', '--all-models')
    expect(none.key).toEqual({ ...key, name: 'nightly', spending_cap: null })
    const shown = await place.tollgate(['key', 'update', key.id, '--cap', '7'])
    expect(shown.out).toMatch(/nightly +acme +\S+ +all public +live +\$0 of \$7 /)
    expect(shown.out).not.toContain(token)
    const unknown = await place.tollgate(['key', 'update', 'key_0', '--cap', '7'])
    expect(unknown).toMatchObject({ code: 1, out: '' })
    expect(unknown.err).toContain('The key "key_0" does not exist')
  })

  test('the plan of an account', async () => {
    await place.json('account.create', 'acme', '--plan', 'free')
    const unknown = await place.tollgate(['account', 'plan', 'unknown', 'gold'])
    expect(unknown).toMatchObject({ code: 1, out: '' })
    expect(unknown.err).toContain('the account "unknown" does not exist')
    expect((await place.tollgate(['account', 'plan', 'acme', 'gold'])).out).toBe(
      'Account acme now has the plan gold.\n',
    )
    expect((await place.json('account.plan', 'acme', 'pro')).account).toMatchObject({ name: 'acme', plan: 'pro' })
    expect((await place.json('account.show', 'acme')).account.plan).toBe('pro')
  })

  test('the default name, plan and grace', async () => {
    await place.json('account.create', 'acme')
    const { key } = await place.json('key.create', '--account', 'acme')
    expect(key).toMatchObject({ name: 'key', models: null, expires_at: null })
    const day = 24 * 3_600_000
    await place.json('key.rotate', key.id)
    const { keys } = await place.json('key.list')
    const grace = Date.parse(keys[0]?.secrets?.[0]?.expires_at ?? '') - Date.now()
    expect(grace).toBeGreaterThan(day - 60_000)
    expect(grace).toBeLessThanOrEqual(day)
  })

  test('empty lists show the first command', async () => {
    expect((await place.tollgate(['account', 'list'])).out).toContain('tollgate account create')
    expect((await place.tollgate(['key', 'list'])).out).toContain('tollgate key create')
    expect(await place.json('account.list')).toEqual({ accounts: [] })
  })

  test('the ledger: correct, then with a changed balance', async () => {
    await place.json('account.create', 'acme', '--credit', '1')
    const correct = await place.tollgate(['ledger', 'verify'])
    expect(correct).toEqual({
      code: 0,
      out: 'OK: 1 account, 1 event, 0 open holds; all balances are correct\n',
      err: '',
    })

    const hand = connect(place.database)
    hand.exec('UPDATE balance SET posted = posted + 1')
    hand.close()
    const { code, out } = await place.tollgate(['ledger', 'verify'])
    expect(code).toBe(1)
    expect(out).toMatch(/^I3 +acc_/m)
    const json = await place.tollgate(['ledger', 'verify', '--json'])
    expect(json.code).toBe(1)
    expect(JSON.parse(json.out).violations.length).toBeGreaterThan(0)
  })
})

describe('the store that a command opens itself', () => {
  test('two commands at once take turns', async () => {
    const names = Array.from({ length: 6 }, (_, at) => `account-${at}`)
    const results = await Promise.all(names.map(name => place.tollgate(['account', 'create', name, '--credit', '1'])))
    expect(results.map(({ code }) => code)).toEqual(names.map(() => 0))
    expect((await place.json('account.list')).accounts).toHaveLength(6)
  })

  test('is private, and is unlocked afterwards', async () => {
    await place.json('account.create', 'acme')
    expect(statSync(join(place.folder, 'data')).mode & 0o777).toBe(0o700)
    expect(statSync(join(place.folder, 'data/secret')).mode & 0o777).toBe(0o600)
    const lock = await takeLock(place.database, clock)
    lock.release()
  })

  test('holds of a killed gateway are settled first', async () => {
    const { account } = await place.json('account.create', 'acme', '--credit', '1')
    const { key } = await place.json('key.create', '--account', 'acme')
    const gateway = await startGateway(place)
    await gateway.store.ledger.hold({
      exchange: 'req_1',
      accountId: account.id,
      keyId: key.id,
      amount: 500_000_000n,
      model: 'm',
      price: plainPrice({ input: 1n, cached_input: 1n, cache_write: 1n, output: 1n, request: 0n }),
      bound: { output: 1 },
      idempotencyKey: null,
    })
    expect((await place.json('account.show', 'acme')).account.held).toBe('0.500000000')
    await gateway.stop()
    expect((await place.json('account.show', 'acme')).account.held).toBe('0.000000000')
  })

  test('verifying a missing store fails and creates nothing', async () => {
    const { code, err } = await place.tollgate(['ledger', 'verify'])
    expect(code).toBe(1)
    expect(err).toContain('The store')
    expect(existsSync(join(place.folder, 'data'))).toBe(false)
  })

  test.each([
    ['an empty file', () => writeFileSync(place.database, '')],
    [
      'a database without tables',
      () => {
        const empty = connect(place.database)
        empty.exec('PRAGMA user_version = 1; PRAGMA user_version = 0')
        empty.close()
      },
    ],
  ])('verifying %s is refused with advice', async (_what, make) => {
    mkdirSync(join(place.folder, 'data'))
    make()
    const { code, err } = await place.tollgate(['ledger', 'verify'])
    expect(code).toBe(1)
    expect(err).toContain(
      'the file is empty or has no tables, so it is not a store of this gateway; name the right file',
    )
    expect(readdirSync(join(place.folder, 'data'))).toEqual(['tollgate.db'])
  })

  test("verifying another program's database is refused", async () => {
    mkdirSync(join(place.folder, 'data'))
    const other = connect(place.database)
    other.exec('PRAGMA journal_mode = WAL; CREATE TABLE theirs (x)')
    other.close()
    const { code, err } = await place.tollgate(['ledger', 'verify'])
    expect(code).toBe(1)
    expect(err).toContain('another program')
  })
})

test('a key can be revoked although the configuration has a problem elsewhere', async () => {
  await place.json('account.create', 'acme')
  const { key } = await place.json('key.create', '--account', 'acme')
  place.write('gateway.yaml', 'version: 1\nstore: sqlite:./data/tollgate.db\nprovidders: {}\nmodels: 7\n')
  expect(await place.tollgate(['key', 'revoke', key.id])).toMatchObject({ code: 0 })
})

test('TOLLGATE_CONFIG names the configuration, --config wins, and .env beside it is read', async () => {
  const other = makePlace('version: 1\nstore: sqlite:./${STORE_NAME}\n')
  cleanups.push(() => other.remove())
  other.write('.env', 'STORE_NAME=from-env-file.db\n')
  const env = { TOLLGATE_CONFIG: join(other.folder, 'gateway.yaml') }
  expect(await place.tollgate(['account', 'create', 'acme'], { env })).toMatchObject({ code: 0 })
  expect(existsSync(join(other.folder, 'from-env-file.db'))).toBe(true)

  const named = { ...env, STORE_NAME: 'from-environment.db' }
  expect(await place.tollgate(['account', 'list'], { env: named })).toMatchObject({ code: 0 })
  expect(existsSync(join(other.folder, 'from-environment.db'))).toBe(true)

  expect(await place.tollgate(['account', 'create', 'acme', '-c', 'gateway.yaml'], { env })).toMatchObject({ code: 0 })
  expect(existsSync(place.database)).toBe(true)
})
