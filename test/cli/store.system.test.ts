/** `tollgate store copy` as a real process: addresses, and the move of a gateway to PostgreSQL. */
import { expect, test } from 'vitest'
import { runCommand } from '../helpers/command.ts'
import { createAccount, startGateway, temporaryDirectory, tollgate } from '../helpers/gateway.ts'
import { describeWith } from '../helpers/missing.ts'
import { testDatabase, WITHOUT_POSTGRES } from '../helpers/postgres.ts'

const PASSWORD = 'password-that-is-never-printed'

test.each<[string, string, RegExp]>([
  ['./tollgate.db', 'sqlite:x', /^error: --from is not a valid store address\. Use sqlite:PATH, postgres:/m],
  [`mysql://me:${PASSWORD}@host/db`, 'sqlite:x', /^error: --from is not a valid store address\./m],
  ['sqlite:x', `postgres:${PASSWORD}`, /^error: --to is not a valid store address\./m],
  ['sqlite:x', '${NOWHERE}', /^error: --to: the environment variable NOWHERE is not set\.$/m],
  ['sqlite:x', 'sqlite:y', /^error: A store is copied from SQLite to PostgreSQL, or from PostgreSQL to SQLite\./m],
  ['sqlite:./none.db', '${TO}', /^error: The store \/.*\/none\.db does not exist\.$/m],
])('from %s to %s: the error has no password', async (from, to, rule) => {
  const env = { TO: `postgres://me:${PASSWORD}@127.0.0.1:1/db` }
  const { code, out, err } = await runCommand(
    await temporaryDirectory(),
    ['store', 'copy', '--from', from, '--to', to],
    {
      env,
    },
  )
  expect([code, out]).toEqual([1, ''])
  expect(err).toMatch(rule)
  expect(err).not.toContain(PASSWORD)
})

describeWith(WITHOUT_POSTGRES, 'a gateway', () => {
  test('moves to PostgreSQL with its keys and balances', async () => {
    const { url } = await testDatabase()
    const price = { per: '1M tokens', input: '$0', output: '$0', request: '$1' }
    const options = (store: string, dir?: string) => ({
      ...(dir === undefined ? {} : { dir }),
      yaml: {
        version: 1,
        listen: '127.0.0.1:0',
        store,
        secret: '${TOLLGATE_SECRET}',
        providers: { demo: { dialect: 'demo' } },
        models: { m: { context: '8k', max_output: 64, price, targets: [{ provider: 'demo', model: 'demo-small' }] } },
        routes: [{ path: '/v1/chat/completions', policy: 'standard' }],
      },
      policies: { standard: { steps: [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits' }, { use: 'route' }] } },
      env: { TOLLGATE_SECRET: 'the same one, before and afterwards' },
    })
    const ask = async (base: string, key: string) => {
      const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] })
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const answer = await fetch(`${base}/v1/chat/completions`, { method: 'POST', headers, body })
      await answer.text()
      return answer.status
    }
    const old = await startGateway(options('sqlite:./tollgate.db'))
    const { key, accountId } = await createAccount(old, { credit: 2 })
    expect(await ask(old.url, key)).toBe(200)
    const copy = () =>
      tollgate(['store', 'copy', '--from', 'sqlite:./tollgate.db', '--to', '${TO}'], { cwd: old.dir, env: { TO: url } })
    expect(await copy()).toMatchObject({ code: 1, stderr: expect.stringContaining('is in use by process') })
    expect(await old.stop()).toBe(0)
    const { code, stdout, stderr } = await copy()
    expect(code, stderr).toBe(0)
    expect(stdout).toMatch(/^event +\d+$.*^OK: \d+ accounts, \d+ events\. The copy has the same rows/ms)

    const next = await startGateway(options(url, old.dir))
    expect(await ask(next.url, key)).toBe(200)
    expect(await ask(next.url, key)).toBe(402)
    const { stdout: shown } = await tollgate(['account', 'show', accountId, '--json'], { config: next.config })
    expect(JSON.parse(shown).account).toMatchObject({ posted: '0.000000000', held: '0.000000000' })
    expect(await next.stop()).toBe(0)
  })
})
