/** Known browsers and addresses: guesses of strangers do not lock them, and being known grants no access. */
import { describe, expect, test } from 'vitest'
import { readDevice } from '../../src/api/known-clients.ts'
import { DEVICE_MS } from '../../src/store/people/people.ts'
import { type Browser, PASSWORD, type Reply, type Rig, startRig } from './rig.ts'

const ALICE = 'alice@example.com'
const BOB = 'bob@example.com'
const WRONG = 'wrong horse battery'
const QUARTER_HOUR_MS = 15 * 60_000
const HOME = '10.0.0.1'
const CAFE = '10.0.0.2'

const WAYS = [
  ['plain http on loopback', undefined, 'tollgate-device', ''],
  ['https', 'https://gate.example.com', '__Host-tollgate-device', '; Secure'],
] as const

describe("a browser's cookie", () => {
  test.each(WAYS)(
    'on %s has its flags and lasts 90 days, also beyond signing out',
    async (_, dashboardUrl, name, end) => {
      await using rig = await startRig(dashboardUrl === undefined ? {} : { dashboardUrl })
      await rig.member(ALICE)
      const browser = rig.browser()
      const [, device] = (await signIn(browser)).headers['set-cookie']!
      const flags = `Path=/; HttpOnly; SameSite=Strict${end}; Max-Age=7776000`
      expect(device).toMatch(new RegExp(`^${name}=per_[0-9A-Z]+\\.[0-9a-z]+(\\.[\\w-]+){2}; `))
      expect(device!.slice(device!.indexOf('; ') + 2)).toBe(flags)
      const before = browser.device
      expect((await browser.delete('/api/session')).status).toBe(204)
      expect(browser.device).toBe(before)
      expect(browser.cookie).toBeNull()
    },
  )

  test.each<[what: string, begin: (rig: Rig, browser: Browser) => Promise<Reply>]>([
    ['registering', (_, browser) => browser.post('/api/register', { email: 'new@example.com', password: PASSWORD })],
    ['signing in', (_, browser) => signIn(browser)],
    [
      'another password',
      async (_, browser) => {
        await signIn(browser)
        browser.device = null
        return browser.post('/api/password', { current: PASSWORD, new: 'another password' })
      },
    ],
    [
      'a link to a new password',
      async (rig, browser) => {
        const { id } = rig.store.reads.people.findByEmail(ALICE)!
        const token = await linkTo(rig, { kind: 'reset', personId: id, email: ALICE })
        return browser.post('/api/reset', { token, password: 'another password' })
      },
    ],
    [
      'an invitation',
      async (rig, browser) => {
        const token = await linkTo(rig, { kind: 'invitation', personId: null, email: 'new@example.com' })
        return browser.post('/api/join', { token, password: PASSWORD })
      },
    ],
  ])('is set by %s and belongs to that person', async (_, begin) => {
    await using rig = await startRig()
    await rig.member(ALICE)
    const browser = rig.browser()
    const { status, body } = await begin(rig, browser)
    expect(status).toBeLessThan(300)
    expect(rig.store.reads.people.findDevice(browser.device!)?.personId).toBe(
      (body as { person: { id: string } }).person.id,
    )
  })

  test('grants no access', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    const browser = rig.browser()
    await signIn(browser)
    browser.cookie = null
    expect((await browser.get('/api/session')).status).toBe(401)
    expect(codeOf(await signIn(browser, { password: WRONG }))).toBe('wrong_credentials')
    // Nor as a session cookie.
    browser.cookie = browser.device
    expect((await browser.get('/api/session')).status).toBe(401)
  })

  test('is ignored if there are two, because one was planted', () => {
    expect(readDevice('tollgate-device=a', false)).toBe('a')
    expect(readDevice('tollgate-device=a; tollgate-device=b', false)).toBeNull()
    expect(readDevice('tollgate-device=a', true)).toBeNull()
    expect(readDevice(undefined, true)).toBeNull()
  })
})

describe('ten wrong passwords of strangers', () => {
  test('do not lock a known browser, at any address', async () => {
    await using rig = await startRig()
    await rig.operator(ALICE)
    const browser = rig.browser()
    await signIn(browser, { from: HOME })
    await lockOut(rig)
    expect(codeOf(await signIn(rig.browser(), { from: CAFE }))).toBe('too_many_attempts')
    expect((await signIn(browser, { from: CAFE })).status).toBe(201)
    // The address of the guesses does not lock the browser either.
    expect((await signIn(browser, { from: '10.9.0.1' })).status).toBe(201)
  })

  test.each([
    ['an IPv4 address', HOME, HOME, true],
    ['not another IPv4 address', HOME, CAFE, false],
    ['an IPv6 address of the same network', '2001:db8:1:2::1', '2001:db8:1:2:3::9', true],
    ['not an IPv6 address of another network', '2001:db8:1:2::1', '2001:db8:1:3::1', false],
  ])('leave a known address unlocked: %s', async (_, first, then, known) => {
    await using rig = await startRig()
    await rig.operator(ALICE)
    await signIn(rig.browser(), { from: first })
    await lockOut(rig)
    expect((await signIn(rig.browser(), { from: then })).status).toBe(known ? 201 : 429)
  })

  test('at other accounts, from the same office, do not lock a known address', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    await signIn(rig.browser(), { from: HOME })
    for (let index = 0; index < 40; index++) {
      await signIn(rig.browser(), { from: HOME, email: `unknown${index}@example.com`, password: WRONG })
    }
    expect(codeOf(await signIn(rig.browser(), { from: HOME, email: 'x@example.com' }))).toBe('too_many_attempts')
    expect((await signIn(rig.browser(), { from: HOME })).status).toBe(201)
  })

  test.each<[what: string, spoil: (rig: Rig, browser: Browser) => unknown]>([
    [
      'was set before the password changed',
      async ({ store, guard }) => {
        const { id } = store.reads.people.findByEmail(ALICE)!
        await store.people.setPassword(id, await guard.passwords.hash(PASSWORD))
      },
    ],
    [
      'is 90 days old',
      rig => {
        rig.clock.ms += DEVICE_MS
      },
    ],
    [
      'belongs to another person',
      async (rig, browser) => {
        browser.device = rig.store.reads.people.createDevice((await rig.member(BOB)).person.id)!
      },
    ],
    [
      "belongs to another person and has this person's id",
      async (rig, browser) => {
        const { id } = rig.store.reads.people.findByEmail(ALICE)!
        const other = rig.store.reads.people.createDevice((await rig.member(BOB)).person.id)!
        browser.device = other.replace(/^per_[^.]+/, id)
      },
    ],
    [
      'has a later expiry than the gateway set',
      (_, browser) => {
        browser.device = browser.device!.replace(/^([^.]+)\.[^.]+/, '$1.zzzzzzzz')
      },
    ],
    [
      'has one changed character',
      (_, browser) => {
        const { device } = browser
        browser.device = `${device!.slice(0, -2)}${device!.at(-2) === 'A' ? 'B' : 'A'}${device!.at(-1)}`
      },
    ],
    [
      'is invalid text',
      (_, browser) => {
        browser.device = 'x'.repeat(5000)
      },
    ],
  ])('lock a browser whose cookie %s', async (_, spoil) => {
    await using rig = await startRig()
    await rig.operator(ALICE)
    const browser = rig.browser()
    await signIn(browser, { from: HOME })
    await spoil(rig, browser)
    await lockOut(rig)
    const { device } = browser
    expect(codeOf(await signIn(browser, { from: CAFE }))).toBe('too_many_attempts')
    expect(browser.device).toBe(device)
  })

  test('lock an address again after the password changed', async () => {
    await using rig = await startRig()
    const alice = await rig.operator(ALICE)
    await signIn(rig.browser(), { from: HOME })
    await rig.store.people.setPassword(alice.person.id, await rig.guard.passwords.hash(PASSWORD))
    await lockOut(rig)
    expect(codeOf(await signIn(rig.browser(), { from: HOME }))).toBe('too_many_attempts')
  })

  test('do not lock a browser whose password was only rehashed', async () => {
    await using rig = await startRig()
    const { person } = await rig.operator(ALICE)
    const today = rig.store.reads.people.findByEmail(ALICE)!.password
    await rig.store.people.upgradePassword(person.id, today.replace('m=19456,t=2', 'm=8192,t=1'))
    const browser = rig.browser()
    await signIn(browser, { from: HOME })
    expect(rig.store.reads.people.findByEmail(ALICE)!.password).toContain('m=19456,t=2')
    await lockOut(rig)
    expect((await signIn(browser, { from: CAFE })).status).toBe(201)
  })
})

describe('a known client', () => {
  test('has its own delays: a thief of the cookie gets seven guesses in a quarter of an hour', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    const browser = rig.browser()
    await signIn(browser, { from: HOME })
    const thief = rig.browser()
    thief.device = browser.device
    let tried = 0
    for (let second = 0; second < 900; second += 5) {
      const reply = await signIn(thief, { from: `10.3.${second % 250}.1`, password: WRONG })
      if (reply.status === 401) tried++
      else expect(codeOf(reply)).toBe('too_many_attempts')
      rig.clock.ms += 5000
    }
    expect(tried).toBe(7)
    // The owner at a known address, without the cookie, is not affected.
    expect((await signIn(rig.browser(), { from: HOME })).status).toBe(201)
  })

  test('gets its password hashed, however many strangers wait', async () => {
    const gates: (() => void)[] = []
    let isShut = false
    await using rig = await startRig({
      derive: async ({ message, tagLength }) => {
        if (isShut && Buffer.from(message as Uint8Array).equals(Buffer.from(WRONG))) {
          await new Promise<void>(resolve => gates.push(resolve))
        }
        const tag = new Uint8Array(tagLength)
        tag.set((message as Uint8Array).subarray(0, tagLength))
        return tag
      },
    })
    await rig.member(ALICE)
    const browser = rig.browser()
    await signIn(browser)
    isShut = true
    const guesses = Array.from({ length: 40 }, (_, index) =>
      signIn(rig.browser(), { from: `10.4.${index}.1`, email: `unknown${index}@example.com`, password: WRONG }),
    )
    let early = 0
    for (const each of guesses) void each.then(() => early++)
    await expect.poll(() => early).toBe(7)
    expect((await signIn(browser)).status).toBe(201)
    isShut = false
    for (const gate of gates) gate()
    await Promise.all(guesses)
  })

  test('is not revealed: a wrong password gets the same answer with and without a cookie', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    const browser = rig.browser()
    await signIn(browser)
    const known = await signIn(browser, { password: WRONG })
    const stranger = await signIn(rig.browser(), { password: WRONG, from: CAFE })
    const unknown = await signIn(browser, { password: WRONG, email: 'unknown@example.com', from: CAFE })
    const comparable = ({ headers: { date, 'x-request-id': id, ...headers }, ...rest }: Reply) => ({ ...rest, headers })
    expect(comparable(stranger)).toEqual(comparable(known))
    expect(comparable(unknown)).toEqual(comparable(known))
  })
})

interface SignIn {
  readonly email?: string
  readonly password?: string
  readonly from?: string
}

function signIn(browser: Browser, { email = ALICE, password = PASSWORD, from = HOME }: SignIn = {}): Promise<Reply> {
  return browser.call('POST', '/api/session', { body: { email, password }, headers: { 'x-forwarded-for': from } })
}

/** Sends ten wrong passwords from ten addresses, and expects that the next one is refused. */
async function lockOut(rig: Rig): Promise<void> {
  const codes: string[] = []
  for (let index = 0; index < 11; index++) {
    codes.push(codeOf(await signIn(rig.browser(), { from: `10.9.${index}.1`, password: WRONG })))
  }
  expect(codes).toEqual([...Array(10).fill('wrong_credentials'), 'too_many_attempts'])
}

type LinkQuery = { readonly kind: 'invitation' | 'reset'; readonly personId: string | null; readonly email: string }

async function linkTo(rig: Rig, wanted: LinkQuery): Promise<string> {
  const { token } = await rig.store.people.createLink({
    ...wanted,
    role: 'member',
    accountId: null,
    plan: null,
    credit: 0n,
    createdBy: 'test',
    expiresAt: rig.clock.ms + QUARTER_HOUR_MS,
  })
  return token
}

function codeOf({ body }: Reply): string {
  return (body as { error?: { code: string } }).error?.code ?? 'none'
}
