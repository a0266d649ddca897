/** Sessions: the cookie, when a session begins and ends, and that no one can bring their own. */
import { describe, expect, test } from 'vitest'
import { cookieFor, readCookie } from '../../src/api/sessions.ts'
import type { AboutView, SessionView } from '../../src/api/views.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { type Browser, PASSWORD, startRig } from './rig.ts'

const ALICE = 'alice@example.com'
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

const isIn = async (browser: Browser) => (await browser.get('/api/session')).status === 200
const signIn = (browser: Browser, password = PASSWORD) =>
  browser.post<SessionView>('/api/session', { email: ALICE, password })

describe('the cookie', () => {
  test.each([
    [
      'https',
      'https://gate.example.com',
      /^__Host-tollgate=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Secure$/,
      true,
    ],
    ['plain http on loopback', undefined, /^tollgate=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/, false],
  ])('on %s has its flags, at the beginning and at the end', async (_, dashboardUrl, expected, secure) => {
    await using rig = await startRig(dashboardUrl === undefined ? {} : { dashboardUrl })
    await rig.member(ALICE)
    const browser = rig.browser()
    const began = await signIn(browser)
    expect(began.headers['set-cookie']).toHaveLength(2)
    expect(began.headers['set-cookie']![0]).toMatch(expected)
    expect(await isIn(browser)).toBe(true)

    const ended = await browser.delete('/api/session')
    const name = secure ? '__Host-tollgate' : 'tollgate'
    const flags = `Path=/; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}; Max-Age=0`
    expect(ended.headers['set-cookie']).toEqual([`${name}=; ${flags}`])
    expect(browser.cookie).toBeNull()
    expect((await browser.get<AboutView>('/api/about')).body.secure).toBe(secure)
  })

  const SECRET = 'A'.repeat(43)
  test.each<[what: string, header: string | undefined, secure: boolean, found: string | null]>([
    ['no header', undefined, false, null],
    ['another name', `other=${SECRET}`, false, null],
    ['a longer name', `xtollgate=${SECRET}`, false, null],
    ['the other name of https', `__Host-tollgate=${SECRET}`, false, null],
    ['the name of plain http on https', `tollgate=${SECRET}`, true, null],
    ['two cookies, because one was planted', `tollgate=${SECRET}; tollgate=${'B'.repeat(43)}`, false, null],
    ['the same cookie twice', `tollgate=${SECRET}; tollgate=${SECRET}`, false, null],
    ['an empty value', 'tollgate=', false, null],
    ['an invalid value', `tollgate=${SECRET}'--`, false, null],
    ['a value that is much too long', `tollgate=${'A'.repeat(5000)}`, false, null],
    ['ours among others', `a=1; tollgate=${SECRET}; b=2`, false, SECRET],
    ['ours on https', `__Host-tollgate=${SECRET}`, true, SECRET],
    ['ours without blanks', `a=1;tollgate=${SECRET};b`, false, SECRET],
  ])('is read: %s', (_, header, secure, found) => {
    expect(readCookie(header, secure)).toBe(found)
  })

  test('parses the cookie that it sets', () => {
    for (const secure of [true, false]) {
      expect(readCookie(cookieFor(SECRET, secure).split(';')[0], secure)).toBe(SECRET)
      expect(readCookie(cookieFor(null, secure).split(';')[0], secure)).toBeNull()
    }
  })
})

describe('a session', () => {
  test.each([
    ['continues 29 minutes after the last request', [29, 29, 29, 29], true],
    ['has ended 30 minutes after the last request', [29, 30], false],
    ['has ended 8 hours after its beginning, even if it was in use', Array.from({ length: 24 }, () => 20), false],
    ['continues a minute before that', [...Array.from({ length: 23 }, () => 20), 19], true],
  ])('%s', async (_, pauses, live) => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    for (const [index, minutes] of pauses.entries()) {
      if (index > 0) expect(await isIn(alice)).toBe(true)
      rig.clock.ms += minutes * MINUTE_MS
    }
    expect(await isIn(alice)).toBe(live)
    // An ended session is deleted from the store.
    expect(rig.store.reads.people.findSession(alice.cookie!) !== undefined).toBe(live)
  })

  test('states its latest end', async () => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    const ends = new Date(rig.clock.ms + 8 * HOUR_MS).toISOString()
    rig.clock.ms += 10 * MINUTE_MS
    expect((await alice.get<SessionView>('/api/session')).body.expires_at).toBe(ends)
  })

  test('that has ended does not come back when the clock is set back', async () => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    rig.clock.ms += 31 * MINUTE_MS
    expect(await isIn(alice)).toBe(false)
    rig.clock.ms -= 31 * MINUTE_MS
    expect(await isIn(alice)).toBe(false)
  })

  test('is written at most once a minute, however often it is used', async () => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    const touch = rig.store.people.touchSession
    let writes = 0
    const counted = (secret: string) => {
      writes++
      return touch(secret)
    }
    Object.assign(rig.store.people, { touchSession: counted })
    for (let second = 0; second < 180; second += 5) {
      await alice.get('/api/account')
      rig.clock.ms += 5000
    }
    expect(writes).toBe(2)
    expect(rig.store.reads.people.findSession(alice.cookie!)!.seenAt).toBe(rig.clock.ms - MINUTE_MS)
  })

  test('still allows reads while its use cannot be written', async () => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    rig.clock.ms += 2 * MINUTE_MS
    const touch = rig.store.people.touchSession
    Object.assign(rig.store.people, {
      touchSession: () => Promise.reject(new StoreUnavailable('not_written', new Error('disk full'))),
    })
    expect(await isIn(alice)).toBe(true)
    Object.assign(rig.store.people, { touchSession: touch })
    expect(rig.log.filter(({ level }) => level === 'warn')).toHaveLength(1)
  })

  test('is new at each sign-in: a planted one is not adopted, and the previous one ends', async () => {
    await using rig = await startRig()
    const mallory = await rig.member('mallory@example.com')
    await rig.member(ALICE)

    const planted = rig.browser()
    planted.cookie = 'M'.repeat(43)
    await signIn(planted)
    expect(planted.cookie).not.toBe('M'.repeat(43))

    const victim = rig.browser()
    victim.cookie = mallory.cookie
    const { body } = await signIn(victim)
    expect(body.person.email).toBe(ALICE)
    expect(victim.cookie).not.toBe(mallory.cookie)
    // A planted session is worthless: it is not Alice's and no longer valid.
    expect(await isIn(mallory)).toBe(false)

    const first = victim.cookie
    await signIn(victim)
    expect(victim.cookie).not.toBe(first)
    expect(rig.store.reads.people.findSession(first!)).toBeUndefined()
  })

  test('is one of several, which end separately at sign-out', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    const [desk, phone] = [rig.browser(), rig.browser()]
    await signIn(desk)
    await signIn(phone)
    const secret = desk.cookie!
    expect((await desk.delete('/api/session')).status).toBe(204)
    const replay = rig.browser()
    replay.cookie = secret
    expect(await isIn(replay)).toBe(false)
    expect(await isIn(phone)).toBe(true)
    expect((await replay.delete('/api/session')).status).toBe(401)
  })

  test('ends everywhere when the password changes, and a new one begins here', async () => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    const [desk, phone] = [rig.browser(), rig.browser()]
    await signIn(desk)
    await signIn(phone)
    const before = desk.cookie
    const changed = await desk.post<SessionView>('/api/password', { current: PASSWORD, new: 'another password' })
    expect(changed).toMatchObject({ status: 200, body: { person: { email: ALICE } } })
    expect(desk.cookie).not.toBe(before)
    expect(await Promise.all([alice, phone, desk].map(isIn))).toEqual([false, false, true])
    expect((await signIn(rig.browser())).status).toBe(401)
    expect((await signIn(rig.browser(), 'another password')).status).toBe(201)
  })

  test('stays as it is when the change is refused', async () => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    const before = alice.cookie
    for (const body of [
      { current: 'wrong password', new: 'another password' },
      { current: PASSWORD, new: 'short' },
      { current: PASSWORD, new: 'x'.repeat(129) },
      { new: 'another password' },
    ]) {
      expect((await alice.post('/api/password', body)).status).toBeGreaterThanOrEqual(400)
    }
    expect(alice.cookie).toBe(before)
    expect(await isIn(alice)).toBe(true)
    expect((await signIn(rig.browser())).status).toBe(201)
  })

  test('ends when its person is removed', async () => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    await rig.store.people.remove(alice.person.id)
    expect(await isIn(alice)).toBe(false)
    expect((await signIn(rig.browser())).status).toBe(401)
  })

  test('of a demoted operator has member access only, from the next request on', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    await rig.operator('another@example.com')
    expect((await operator.get('/api/operator/plans')).status).toBe(200)
    await rig.store.people.setRole(operator.person.id, 'member')
    expect(await operator.get('/api/operator/plans')).toMatchObject({
      status: 403,
      body: { error: { code: 'forbidden' } },
    })
    expect(await isIn(operator)).toBe(true)
  })
})
