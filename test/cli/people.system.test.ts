/** The commands for people and operators' tokens on a real database: alone, and beside a gateway that owns it. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { LocalStore } from '../../src/store/local-store.ts'
import { makePlace, ownStore, type Place, startGateway } from './helpers.ts'

const STORE = 'version: 1\nstore: sqlite:./data/tollgate.db\n'
const DASHBOARD = `${STORE}dashboard: 127.0.0.1:8081\n`
const HASH = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA'
const DAY_MS = 24 * 3_600_000

let place: Place
const cleanups: (() => unknown)[] = []

beforeEach(() => {
  place = makePlace(DASHBOARD)
})
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
  place.remove()
})

/** The only line of an output that is a link or a secret. */
function lineOf(out: string, pattern: RegExp): string {
  const lines = out.split('\n').filter(line => pattern.test(line))
  expect(lines).toHaveLength(1)
  return lines[0]!
}

const linkOf = (out: string) => new URL(lineOf(out, /^https?:/))

describe('a wrong command line: exit code 2, and nothing is done', () => {
  test.each([
    [['person'], 'Usage: tollgate person'],
    [['person', 'invite', '--role', 'owner'], 'Allowed choices are member, operator'],
    [['person', 'invite', '--email', 'ada'], 'It must be an e-mail address.'],
    [['person', 'invite', '--credit', '0'], 'It must be more than $0.'],
    [['person', 'invite', '--expires', '2001-01-01'], 'not in the future'],
    [['person', 'invite', 'ada@example.com'], 'too many arguments'],
    [['person', 'reset'], "missing required argument 'person'"],
    [['person', 'role', 'ada@example.com', 'owner'], 'It must be member or operator.'],
    [['person', 'role', 'ada@example.com'], "missing required argument 'role'"],
    [['person', 'remove'], "missing required argument 'person'"],
    [['person', 'links', 'lnk_1'], 'too many arguments'],
    [['person', 'revoke-link'], "missing required argument 'link'"],
    [['token', 'create'], "missing required argument 'name'"],
    [['token', 'create', 'payments', '--expires', 'soon'], 'It must be a span from now'],
    [['token', 'revoke'], "missing required argument 'token'"],
  ])('%j: %s', async (args, sentence) => {
    const { code, out, err } = await place.tollgate(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(sentence)
    expect(existsSync(join(place.folder, 'data'))).toBe(false)
  })
})

describe('a link that could not be opened is not created', () => {
  test.each([
    ['no dashboard', STORE, 'gateway.yaml has no dashboard. Write dashboard: 127.0.0.1:8081.'],
    ['an invalid address', `${STORE}dashboard: 127.0.0.1:8081\ndashboard_url: "not one"\n`, 'tollgate check'],
    [
      'an address in a variable of the gateway',
      `${STORE}dashboard: 127.0.0.1:8081\ndashboard_url: \${WHERE}\n`,
      'tollgate check',
    ],
  ])('%s', async (_, configuration, sentence) => {
    place.write('gateway.yaml', configuration)
    for (const line of [
      ['invite', '--role', 'operator'],
      ['reset', 'ada@example.com'],
    ]) {
      const { code, out, err } = await place.tollgate(['person', ...line])
      expect({ code, out }).toEqual({ code: 1, out: '' })
      expect(err).toContain(sentence)
    }
    expect(existsSync(join(place.folder, 'data'))).toBe(false)
  })
})

describe.each(['alone', 'beside a gateway'] as const)('%s', how => {
  let store: LocalStore | undefined
  beforeEach(async () => {
    store = undefined
    if (how === 'alone') return
    const gateway = await startGateway(place)
    store = gateway.store
    cleanups.push(() => gateway.stop())
  })

  /** Does what the dashboard does, in the store that the commands use. */
  async function inStore<Result>(work: (store: LocalStore) => Promise<Result> | Result): Promise<Result> {
    const owner = store ? { store, stop: async () => {} } : await ownStore(place.database)
    try {
      return await work(owner.store)
    } finally {
      await owner.stop()
    }
  }

  const join = (link: URL, email: string) =>
    inStore(({ people }) => people.join(link.hash.slice(1), { email, password: HASH }))

  /** Creates an operator and a member by their invitation links. */
  async function adaAndBo(): Promise<void> {
    const invite = async (...more: string[]) => linkOf((await place.tollgate(['person', 'invite', ...more])).out)
    await join(await invite('--role', 'operator'), 'ada@example.com')
    await join(await invite(), 'bo@example.com')
  }

  test.each([
    [['--account', 'unknown'], 'the account "unknown" does not exist'],
    [['--account', 'acme', '--plan', 'gold'], 'are for a new account, and "account" names an existing one'],
    [['--account', 'acme', '--credit', '1'], 'are for a new account, and "account" names an existing one'],
  ])('an invitation %j is refused', async (options, sentence) => {
    await place.json('account.create', 'acme')
    const { code, out, err } = await place.tollgate(['person', 'invite', ...options])
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toContain(sentence)
    expect(await inStore(({ people }) => people.links())).toEqual([])
  })

  test.each([
    [['reset', 'cy@example.com'], 'the person "cy@example.com" does not exist'],
    [['role', 'cy@example.com', 'operator'], 'the person "cy@example.com" does not exist'],
    [['remove', 'per_x'], 'the person "per_x" does not exist'],
    [['revoke-link', 'lnk_x'], 'a working link "lnk_x" does not exist'],
    [
      ['role', 'ada@example.com', 'member'],
      'ada@example.com is the only operator. Make another person an operator first.',
    ],
    [['remove', 'ada@example.com'], 'ada@example.com is the only operator. Make another person an operator first.'],
  ])('%j is refused', async (line, sentence) => {
    await adaAndBo()
    const { code, out, err } = await place.tollgate(['person', ...line])
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toContain(sentence)
    expect((await place.json('person.list')).people.map(({ email, role }) => [email, role])).toEqual([
      ['ada@example.com', 'operator'],
      ['bo@example.com', 'member'],
    ])
  })

  test('the first operator: the invitation works once, for seven days', async () => {
    const { code, out, err } = await place.tollgate(['person', 'invite', '--role', 'operator'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(/^Invites an operator, once, until \d{4}-\d\d-\d\d \d\d:\d\d UTC:\n\n/)
    expect(out).toContain('this link is not shown again')
    const link = linkOf(out)
    expect(link.href).toMatch(/^http:\/\/127\.0\.0\.1:8081\/join#[\w-]{43}$/)
    const [kept] = await inStore(({ people }) => people.links())
    expect(kept).toMatchObject({ role: 'operator', createdBy: expect.stringMatching(/^cli:/) })
    expect(kept!.expiresAt - kept!.createdAt).toBeGreaterThan(7 * DAY_MS - 60_000)
    expect(kept!.expiresAt - kept!.createdAt).toBeLessThanOrEqual(7 * DAY_MS)
    expect(await join(link, 'ada@example.com')).toMatchObject({ role: 'operator', email: 'ada@example.com' })
    await expect(join(link, 'eve@example.com')).rejects.toThrow('does not work')
  })

  test('a member with an address, a plan and credit', async () => {
    const line = [
      'person',
      'invite',
      '--email',
      'Bo@Example.com',
      '--plan',
      'gold',
      '--credit',
      '2.5',
      '--expires',
      '1h',
    ]
    const { out } = await place.tollgate([...line, '--json'])
    const { link, url } = JSON.parse(out)
    expect(link).toMatchObject({ role: 'member', email: 'bo@example.com', plan: 'gold', credit: '2.500000000' })
    expect(link).not.toHaveProperty('token')
    await expect(join(new URL(url), 'eve@example.com')).rejects.toThrow('not for the address')
    const { accountId } = await join(new URL(url), 'bo@example.com')
    expect((await place.json('account.show', accountId)).account).toMatchObject({
      name: 'bo@example.com',
      plan: 'gold',
      posted: '2.500000000',
    })
  })

  test('a member of an existing account', async () => {
    const { account } = await place.json('account.create', 'acme')
    const { out } = await place.tollgate(['person', 'invite', '--account', 'acme'])
    expect(out).toContain('Invites a member of account acme, once')
    expect(await join(linkOf(out), 'bo@example.com')).toMatchObject({ accountId: account.id, role: 'member' })
    expect((await place.tollgate(['person', 'list'])).out).toMatch(/^bo@example\.com +member +acme +\d{4}-.* per_\w+$/m)
  })

  test('a new password, by a link that works once, for a day', async () => {
    await adaAndBo()
    const { code, out } = await place.tollgate(['person', 'reset', 'BO@example.com'])
    expect(code).toBe(0)
    expect(out).toContain('A new password for BO@example.com, once, until')
    const link = linkOf(out)
    expect(link.href).toMatch(/^http:\/\/127\.0\.0\.1:8081\/reset#[\w-]{43}$/)
    const reset = () => inStore(({ people }) => people.reset(link.hash.slice(1), HASH))
    const [kept] = await inStore(({ people }) => people.links())
    expect(kept!.expiresAt - kept!.createdAt).toBeLessThanOrEqual(DAY_MS)
    expect((await reset()).email).toBe('bo@example.com')
    await expect(reset()).rejects.toThrow('does not work')
  })

  test('links are listed with their recipients and can be revoked', async () => {
    const say = async (...line: string[]) => (await place.tollgate(['person', ...line])).out
    expect(await say('links')).toBe('No valid links.\n')
    await place.json('account.create', 'acme')
    const first = await say('invite', '--role', 'operator', '--credit', '2.5')
    await say('invite', '--account', 'acme', '--email', 'bo@example.com')
    const [id] = /lnk_\w+/.exec(first)!
    expect(first).toContain(`To revoke it: tollgate person revoke-link ${id}\n`)

    const list = await say('links')
    expect(list).toMatch(new RegExp(`^${id} +an operator +any +a new one +\\$2\\.50 +\\d{4}-\\S+ \\S+ UTC +cli:`, 'm'))
    expect(list).toMatch(/^lnk_\w+ +a member +bo@example\.com +acme +\d{4}-/m)
    expect(list).not.toContain(linkOf(first).hash.slice(1))

    expect(await say('revoke-link', id)).toBe(`Link ${id} is revoked.\n`)
    await expect(join(linkOf(first), 'ada@example.com')).rejects.toThrow('does not work')
    const { links } = await place.json('person.links')
    expect(links).toMatchObject([{ role: 'member', email: 'bo@example.com', account: 'acme' }])
    expect((await place.tollgate(['person', 'revoke-link', id])).code).toBe(1)
    expect((await place.json('person.revoke-link', links[0]!.id)).link.id).toBe(links[0]!.id)
    expect((await place.json('person.links')).links).toEqual([])
  })

  test('roles of people, and the removal of a person', async () => {
    expect((await place.tollgate(['person', 'list'])).out).toBe(
      'No people yet. Invite an operator: tollgate person invite --role operator\n',
    )
    await adaAndBo()
    const say = async (...line: string[]) => (await place.tollgate(['person', ...line])).out
    expect(await say('role', 'bo@example.com', 'operator')).toBe('bo@example.com is now an operator.\n')
    expect(await say('role', 'ada@example.com', 'member')).toBe('ada@example.com is now a member.\n')
    expect(await say('remove', 'ada@example.com')).toBe('ada@example.com is removed; the account remains.\n')
    const { people } = await place.json('person.list')
    expect(people).toMatchObject([{ email: 'bo@example.com', role: 'operator', account: 'bo@example.com' }])
    expect((await place.json('account.list')).accounts).toHaveLength(2)
  })

  test('a token: its secret is printed once, and works until it is revoked', async () => {
    expect((await place.tollgate(['token', 'list'])).out).toContain('tollgate token create NAME')
    const { code, out } = await place.tollgate(['token', 'create', 'payments', '--expires', '2099-01-31'])
    expect(code).toBe(0)
    expect(out).toContain('not shown again')
    const secret = lineOf(out, /^tg_oper_/)
    const other = await place.json('token.create', 'script')
    expect(other.token).toMatchObject({ name: 'script', expires_at: null })
    const works = (text: string) => inStore(({ reads }) => reads.people.findToken(text)?.id)
    const id = await works(secret)
    expect(id).toMatch(/^tok_/)
    expect(await works(other.secret)).toBe(other.token.id)

    const list = await place.tollgate(['token', 'list'])
    expect(list.out).toMatch(new RegExp(`^${id} +payments +…${secret.slice(-4)} +2099-01-31 00:00 UTC +cli:`, 'm'))
    expect(list.out).toMatch(/ script .* never /)
    for (const each of [secret, other.secret]) expect(list.out).not.toContain(each)

    expect((await place.tollgate(['token', 'revoke', id!])).out).toBe(`Token ${id} ("payments") is revoked.\n`)
    expect(await works(secret)).toBeUndefined()
    const again = await place.tollgate(['token', 'revoke', id!])
    expect(again).toMatchObject({ code: 1, out: '' })
    expect(again.err).toContain(`the operators' token "${id}" does not exist`)
    expect((await place.json('token.list')).tokens.map(({ name }) => name)).toEqual(['script'])
  })
})

test('a token without an admin listener is created with a warning', async () => {
  const without = await place.tollgate(['token', 'create', 'payments'])
  expect(without).toMatchObject({ code: 0, out: expect.stringContaining('tg_oper_') })
  expect(without.err).toBe(
    'This token cannot be used yet: ./gateway.yaml has no admin listener. Write admin: 127.0.0.1:8082.\n',
  )
  place.write('gateway.yaml', `${DASHBOARD}admin: 127.0.0.1:8082\n`)
  expect((await place.tollgate(['token', 'create', 'invoices'])).err).toBe('')
})

test('a second token of a name is created with a warning; an expired token is marked', async () => {
  place.write('gateway.yaml', `${DASHBOARD}admin: 127.0.0.1:8082\n`)
  const soon = new Date(Date.now() + 3000).toISOString()
  expect((await place.tollgate(['token', 'create', 'payments', '--expires', soon])).err).toBe('')
  const again = await place.tollgate(['token', 'create', 'payments'])
  expect(again).toMatchObject({ code: 0, out: expect.stringContaining('tg_oper_') })
  expect(again.err).toBe('Another token has the name "payments": revoke one by its id (token list shows the ids).\n')
  const list = async () => (await place.tollgate(['token', 'list'])).out
  await expect.poll(list).toMatch(/ payments .* expired \d{4}-.* UTC +cli:/)
  expect(await list()).toMatch(/ payments .* never /)
})

test('links begin with dashboard_url, for a gateway behind a proxy', async () => {
  place.write('gateway.yaml', `${DASHBOARD}dashboard_url: https://gate.example.com\n`)
  const { out } = await place.tollgate(['person', 'invite'])
  expect(linkOf(out).href).toMatch(/^https:\/\/gate\.example\.com\/join#[\w-]{43}$/)
})
