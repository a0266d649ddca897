/** Signing in: accepted and refused credentials, what a refusal reveals, and the limits on attempts. */
import { describe, expect, test } from 'vitest'
import { argon2id } from '../../src/api/password.ts'
import type { SessionView } from '../../src/api/views.ts'
import { countsOf } from '../helpers/counts.ts'
import { PASSWORD, type Reply, startRig } from './rig.ts'

const counts = countsOf('floods')

const ALICE = 'alice@example.com'
const WRONG = 'wrong horse battery'
const QUARTER_HOUR_MS = 15 * 60_000

describe('signing in', () => {
  test.each<[what: string, body: unknown, status: number, code: string, param: string | null]>([
    ['a wrong password', { email: ALICE, password: WRONG }, 401, 'wrong_credentials', null],
    ['an unknown address', { email: 'unknown@example.com', password: PASSWORD }, 401, 'wrong_credentials', null],
    ['an empty password', { email: ALICE, password: '' }, 401, 'wrong_credentials', null],
    ['the right password and a blank', { email: ALICE, password: `${PASSWORD} ` }, 401, 'wrong_credentials', null],
    [
      'the right password in capitals',
      { email: ALICE, password: PASSWORD.toUpperCase() },
      401,
      'wrong_credentials',
      null,
    ],
    ['no password', { email: ALICE }, 400, 'missing_required_parameter', 'password'],
    ['no address', { password: PASSWORD }, 400, 'missing_required_parameter', 'email'],
    ['an address without @', { email: 'alice', password: PASSWORD }, 400, 'invalid_value', 'email'],
    ['a list for a password', { email: ALICE, password: [PASSWORD] }, 400, 'invalid_type', 'password'],
    ['null for a password', { email: ALICE, password: null }, 400, 'invalid_type', 'password'],
    ['an address that is an object', { email: { like: '%' }, password: PASSWORD }, 400, 'invalid_type', 'email'],
    ['an unknown field', { email: ALICE, password: PASSWORD, role: 'operator' }, 400, 'unknown_parameter', 'role'],
    ['a list', [ALICE, PASSWORD], 400, 'invalid_type', null],
  ])('refuses %s', async (_, body, status, code, param) => {
    await using rig = await startRig()
    await rig.member(ALICE)
    const browser = rig.browser()
    const reply = await browser.post('/api/session', body)
    expect(reply).toMatchObject({ status, body: { error: { code, param } } })
    expect(browser.cookie).toBeNull()
    expect(reply.headers['set-cookie']).toBeUndefined()
    expect((await browser.get('/api/session')).status).toBe(401)
  })

  test.each([
    ['as it was registered', ALICE],
    ['in capitals', 'ALICE@Example.COM'],
  ])('accepts the right password with the address %s', async (_, email) => {
    await using rig = await startRig()
    const { person } = await rig.member(ALICE)
    const browser = rig.browser()
    const reply = await browser.post<SessionView>('/api/session', { email, password: PASSWORD })
    expect(reply.status).toBe(201)
    expect(reply.body.person).toMatchObject({ id: person.id, email: ALICE, role: 'member' })
    expect(reply.body.account).toMatchObject({ id: person.accountId, available: '10.000000000' })
    expect((await browser.get('/api/session')).body).toEqual(reply.body)
  })

  test('answers a wrong password and an unknown address alike, except for the request id', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    const wrong = await rig.browser().post('/api/session', { email: ALICE, password: WRONG })
    const unknown = await rig.browser().post('/api/session', { email: 'unknown@example.com', password: WRONG })
    const comparable = ({ headers: { date, 'x-request-id': id, ...headers }, ...rest }: Reply) => ({ ...rest, headers })
    expect(comparable(unknown)).toEqual(comparable(wrong))
  })

  test('takes as long for an unknown address as for a known one', async () => {
    await using rig = await startRig({ derive: argon2id })
    await rig.member(ALICE)
    const times: Record<'known' | 'unknown', number[]> = { known: [], unknown: [] }
    // Alternating, so that a busy machine slows both.
    for (let round = 0; round < counts(9, 60); round++) {
      for (const kind of ['known', 'unknown'] as const) {
        const email = kind === 'known' ? ALICE : `unknown${round}@example.com`
        const start = performance.now()
        await rig.browser().post('/api/session', { email, password: WRONG })
        times[kind].push(performance.now() - start)
        rig.clock.ms += QUARTER_HOUR_MS
      }
    }
    const ratio = median(times.unknown) / median(times.known)
    expect(ratio).toBeGreaterThan(0.5)
    expect(ratio).toBeLessThan(2)
  })

  test('rehashes the password if its parameters are old', async () => {
    await using rig = await startRig()
    const { person } = await rig.member(ALICE)
    const signIn = () => rig.browser().post('/api/session', { email: ALICE, password: PASSWORD })
    const stored = () => rig.store.reads.people.findByEmail(ALICE)!.password
    const today = stored()
    await signIn()
    expect(stored()).toBe(today)

    // The quick hash of a rig ignores the parameters.
    await rig.store.people.upgradePassword(person.id, today.replace('m=19456,t=2', 'm=8192,t=1'))
    expect((await rig.browser().post('/api/session', { email: ALICE, password: WRONG })).status).toBe(401)
    expect(stored()).toContain('m=8192,t=1')
    expect((await signIn()).status).toBe(201)
    expect(stored()).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
    expect(stored()).not.toBe(today)
    expect((await signIn()).status).toBe(201)
  })
})

describe('limits on attempts', () => {
  test('of 10,000 guesses from many addresses, ten are tried at an account', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    const before = rig.hashes()
    const guesses = counts(300, 10_000)
    const codes: Record<string, number> = {}
    for (let guess = 0; guess < guesses; guess += 50) {
      const batch = Array.from({ length: 50 }, (_, index) => tryFrom(rig, `10.${(guess + index) >> 8}.${index}.1`))
      for (const reply of await Promise.all(batch)) codes[codeOf(reply)] = (codes[codeOf(reply)] ?? 0) + 1
    }
    expect(codes).toEqual({ wrong_credentials: 10, too_many_attempts: guesses - 10 })
    expect(rig.hashes() - before).toBe(10)
  })

  test('another spelling of an address does not allow ten more attempts', async () => {
    await using rig = await startRig()
    await rig.member('z\u00fcz\u00fc@example.com')
    const ways = ['z\u00fcz\u00fc', 'zu\u0308z\u00fc', '\uff5au\u0308zu\u0308', 'zu\u0308zu\u0308', 'Z\u00dcZU\u0308']
    const codes: string[] = []
    for (const [index, way] of [...ways, ...ways, ...ways].entries()) {
      codes.push(codeOf(await tryFrom(rig, `10.0.${index}.1`, `${way}@example.com`)))
    }
    expect(codes.filter(code => code === 'wrong_credentials')).toHaveLength(10)
    expect(codes.filter(code => code === 'too_many_attempts')).toHaveLength(5)
  })

  test('guesses at many accounts from one address have growing delays: 20 at once, then 9 in a quarter of an hour', async () => {
    await using rig = await startRig()
    let next = 0
    const guess = () => tryFrom(rig, '10.0.0.1', `unknown${next++}@example.com`)
    for (let count = 0; count < 20; count++) expect((await guess()).status).toBe(401)
    const waits: number[] = []
    for (let passedMs = 0; passedMs < QUARTER_HOUR_MS; passedMs += waits.at(-1)!) {
      const refused = await guess()
      expect(codeOf(refused)).toBe('too_many_attempts')
      waits.push(Number(refused.headers['retry-after-ms']))
      rig.clock.ms += waits.at(-1)!
      expect((await guess()).status).toBe(401)
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map(seconds => seconds * 1000))
    expect(rig.hashes()).toBe(30)
    // Other addresses are not affected.
    expect((await tryFrom(rig, '10.0.0.2', 'nobody1@example.com')).status).toBe(401)
  })

  test('one stranger at one address does not lock an account; ten at ten addresses lock it for other strangers', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    let tried = 0
    for (let second = 0; second < 900; second += 5) {
      const reply = await tryFrom(rig, '10.0.0.1')
      if (reply.status === 401) tried++
      else expect(codeOf(reply)).toBe('too_many_attempts')
      rig.clock.ms += 5000
    }
    expect(tried).toBe(7)
    expect((await rightFrom(rig, '10.0.0.2')).status).toBe(201)
    for (let index = 0; index < 10; index++) await tryFrom(rig, `10.1.${index}.1`)
    expect(codeOf(await rightFrom(rig, '10.0.0.3'))).toBe('too_many_attempts')
  })

  test('strangers are refused even the right password until the first attempts are a quarter of an hour old; the answer has the wait', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    const right = () => rightFrom(rig, '10.0.0.1')
    for (let guess = 0; guess < 10; guess++) {
      expect((await tryFrom(rig, `10.1.${guess}.1`)).status).toBe(401)
      rig.clock.ms += 1000
    }
    const refused = await right()
    expect(refused).toMatchObject({ status: 429, body: { error: { code: 'too_many_attempts' } } })
    const waitMs = Number(refused.headers['retry-after-ms'])
    expect(waitMs).toBe(QUARTER_HOUR_MS - 10_000)
    // Further attempts do not extend the wait.
    rig.clock.ms += waitMs - 1
    expect((await right()).status).toBe(429)
    rig.clock.ms += 1
    expect((await right()).status).toBe(201)
  })

  test('of all strangers together, 50 passwords are hashed in 10 seconds; others wait', async () => {
    await using rig = await startRig()
    for (const round of [1, 2]) {
      const codes: string[] = []
      for (let guess = 0; guess < 60; guess++) {
        codes.push(codeOf(await tryFrom(rig, `10.${round}.${guess}.1`, `unknown${guess}@example.com`)))
      }
      expect(codes).toEqual([...Array(50).fill('wrong_credentials'), ...Array(10).fill('too_many_attempts')])
      expect(rig.hashes()).toBe(50 * round)
      rig.clock.ms += 10_000
    }
  })

  test('a successful sign-in does not count, so frequent sign-ins lock no one out', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    for (let round = 0; round < 30; round++) {
      const reply = await rig.browser().post('/api/session', { email: ALICE, password: PASSWORD })
      expect(reply.status).toBe(201)
    }
  })

  test('signing in does not reset the count of earlier guesses', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    for (let guess = 0; guess < 9; guess++) await tryFrom(rig, `10.1.${guess}.1`)
    expect((await rightFrom(rig, '10.0.0.1')).status).toBe(201)
    expect((await tryFrom(rig, '10.1.9.1')).status).toBe(401)
    expect((await tryFrom(rig, '10.1.10.1')).status).toBe(429)
  })

  test('the current password of a change counts as well, per session', async () => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    const change = (current: string) => alice.post('/api/password', { current, new: 'another password' })
    for (let guess = 0; guess < 10; guess++) {
      expect(await change(WRONG)).toMatchObject({ status: 401, body: { error: { param: 'current' } } })
    }
    expect((await change(PASSWORD)).status).toBe(429)
  })

  test('one hash of strangers runs at a time and 32 wait; others are refused with a retry time, and no refusal counts as an attempt', async () => {
    let inside = 0
    let most = 0
    const { promise: open, resolve } = Promise.withResolvers<void>()
    await using rig = await startRig({
      derive: async ({ tagLength }) => {
        most = Math.max(most, ++inside)
        await open
        inside--
        return new Uint8Array(tagLength)
      },
    })
    const guess = (index: number, address: string) => tryFrom(rig, address, `unknown${index}@example.com`)
    const tries = Array.from({ length: 40 }, (_, index) => guess(index, `10.0.0.${index >> 1}`))
    const early: Reply[] = []
    for (const each of tries) void each.then(reply => early.push(reply))
    await expect.poll(() => early.length).toBe(7)
    expect(early.every(reply => codeOf(reply) === 'overloaded' && reply.headers['retry-after'] === '1')).toBe(true)
    resolve()
    const codes = (await Promise.all(tries)).map(codeOf)
    expect(codes.filter(code => code === 'wrong_credentials')).toHaveLength(33)
    expect(most).toBe(1)
    // Each person lost only the one attempt that ran: nine more remain.
    rig.clock.ms += 10_000
    const more: string[] = []
    for (let round = 0; round < 9; round++) more.push(codeOf(await guess(0, `10.0.1.${round}`)))
    expect(more).toEqual(Array.from({ length: 9 }, () => 'wrong_credentials'))
    expect(codeOf(await guess(0, '10.0.1.9'))).toBe('too_many_attempts')
  })

  test('registrations are limited to ten an hour from one address, failed ones included', async () => {
    await using rig = await startRig()
    const register = (email: string) => rig.browser().post('/api/register', { email, password: PASSWORD })
    for (let count = 0; count < 5; count++) expect((await register(`new${count}@example.com`)).status).toBe(201)
    for (let count = 0; count < 5; count++) expect((await register(`new${count}@example.com`)).status).toBe(409)
    expect(await register('late@example.com')).toMatchObject({ status: 429 })
    rig.clock.ms += 3_600_000
    expect((await register('late@example.com')).status).toBe(201)
  })

  test('guesses at links count as sign-in attempts; working links do not', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const link = { kind: 'invitation', role: 'member', accountId: null, plan: null, credit: 0n, email: null } as const
    const expiresAt = rig.clock.ms + 3_600_000
    const made = await rig.store.people.createLink({
      ...link,
      personId: null,
      createdBy: operator.person.id,
      expiresAt,
    })
    const look = (token: string) => rig.browser().post('/api/link', { token })
    for (let round = 0; round < 150; round++) expect((await look(made.token)).status).toBe(200)
    const statuses: number[] = []
    for (let round = 0; round < 21; round++) statuses.push((await look(`${round}`.padStart(43, 'A'))).status)
    expect(statuses).toEqual([...Array(20).fill(404), 429])
  })
})

type Rig = Awaited<ReturnType<typeof startRig>>

function tryFrom(rig: Rig, address: string, email = ALICE): Promise<Reply> {
  return rig.browser().call('POST', '/api/session', {
    body: { email, password: WRONG },
    headers: { 'x-forwarded-for': address },
  })
}

function rightFrom(rig: Rig, address: string): Promise<Reply> {
  return rig.browser().call('POST', '/api/session', {
    body: { email: ALICE, password: PASSWORD },
    headers: { 'x-forwarded-for': address },
  })
}

function codeOf({ body }: Reply): string {
  return (body as { error: { code: string } }).error.code
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1]!
}
