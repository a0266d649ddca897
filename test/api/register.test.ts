/** Registration, invitations and reset links: whom they admit and whom they refuse. */
import { describe, expect, test } from 'vitest'
import { parseMoney } from '#contract'
import type { IssuedLinkView, LinkPurposeView, SessionView } from '../../src/api/views.ts'
import type { NewLink } from '../../src/store/people/people.ts'
import { PASSWORD, type Rig, startRig } from './rig.ts'

const NEW = { email: 'new@example.com', password: PASSWORD }
const DAY_MS = 24 * 3_600_000

const inMode = (mode: 'open' | 'invitation' | 'closed') =>
  startRig({ parts: { registration: { mode, credit: parseMoney('2.50'), plan: 'trial' } } })

async function invite(rig: Rig, link: Partial<NewLink> = {}) {
  return rig.store.people.createLink({
    kind: 'invitation',
    role: 'member',
    accountId: null,
    plan: 'silver',
    credit: parseMoney('5'),
    email: null,
    personId: null,
    createdBy: 'test',
    expiresAt: rig.clock.ms + DAY_MS,
    ...link,
  })
}

describe('registering', () => {
  test.each([
    ['invitation', 'Registration is by invitation only. Ask the operator.'],
    ['closed', 'No new accounts are made here.'],
  ] as const)('is refused where registration is %s', async (mode, message) => {
    await using rig = await inMode(mode)
    const browser = rig.browser()
    const reply = await browser.post('/api/register', NEW)
    expect(reply).toMatchObject({ status: 403, body: { error: { code: 'registration_closed', message } } })
    expect(rig.store.reads.people.list()).toEqual([])
    expect(rig.store.reads.listAccounts()).toEqual([])
    expect(rig.hashes()).toBe(0)
    expect(browser.cookie).toBeNull()
  })

  test.each<[what: string, body: object, code: string, param: string]>([
    ['7 characters', { password: '1234567' }, 'invalid_value', 'password'],
    ['129 characters', { password: 'x'.repeat(129) }, 'invalid_value', 'password'],
    ['4 characters of 8 UTF-16 units', { password: '🔑🔑🔑🔑' }, 'invalid_value', 'password'],
    ['a number for a password', { password: 12345678 }, 'invalid_type', 'password'],
    ['an address without @', { email: 'new.example.com' }, 'invalid_value', 'email'],
    ['an address with two @', { email: 'new@a@b' }, 'invalid_value', 'email'],
    ['an address with a blank', { email: 'ne w@example.com' }, 'invalid_value', 'email'],
    ['an address with a line break', { email: 'new@example.com\nBcc: a@b' }, 'invalid_value', 'email'],
    ['an address that is HTML', { email: '<b>@example.com' }, 'invalid_value', 'email'],
    ['an address that is too long', { email: `${'x'.repeat(200)}@example.com` }, 'invalid_value', 'email'],
    ['an empty address', { email: '' }, 'invalid_value', 'email'],
    ['a role', { role: 'operator' }, 'unknown_parameter', 'role'],
    ['an account', { account_id: 'acc_1' }, 'unknown_parameter', 'account_id'],
    ['credit', { credit: '1000' }, 'unknown_parameter', 'credit'],
  ])('refuses %s', async (_, change, code, param) => {
    await using rig = await inMode('open')
    const reply = await rig.browser().post('/api/register', { ...NEW, ...change })
    expect(reply).toMatchObject({ status: 400, body: { error: { code, param } } })
    // The error does not repeat the input: it may be a password in the wrong field.
    for (const value of Object.values(change)) {
      if (typeof value === 'string' && value.length > 7) expect(reply.text).not.toContain(value)
    }
    expect(rig.store.reads.people.list()).toEqual([])
  })

  test('refuses a registered address, also in capitals, without a hash', async () => {
    await using rig = await inMode('open')
    await rig.member(NEW.email)
    const hashes = rig.hashes()
    for (const email of [NEW.email, NEW.email.toUpperCase()]) {
      const reply = await rig.browser().post('/api/register', { ...NEW, email })
      expect(reply).toMatchObject({ status: 409, body: { error: { code: 'conflict', param: 'email' } } })
    }
    expect(rig.hashes()).toBe(hashes)
    expect(rig.store.reads.people.list()).toHaveLength(1)
  })

  test.each([
    ['in full-width letters', 'new@example.com', '\uff4e\uff45\uff57@example.com'],
    ['with a ligature', 'fig@example.com', '\ufb01g@example.com'],
    ['with a sharp s', 'strasse@example.com', 'stra\u00dfe@example.com'],
    [
      'with another form of sigma',
      '\u03bd\u03af\u03ba\u03bf\u03c2@\u03b4.gr',
      '\u039d\u0399\u0301\u039a\u039f\u03a3@\u03b4.gr',
    ],
  ])('refuses a registered address, written %s, and signs both ways in', async (_, first, other) => {
    await using rig = await inMode('open')
    const { person } = await rig.member(first)
    expect(await rig.browser().post('/api/register', { ...NEW, email: other })).toMatchObject({
      status: 409,
      body: { error: { code: 'conflict', param: 'email' } },
    })
    for (const email of [first, other]) {
      const reply = await rig.browser().post<SessionView>('/api/session', { email, password: PASSWORD })
      expect(reply.body.person?.id, email).toBe(person.id)
    }
    expect(rig.store.reads.people.list()).toHaveLength(1)
  })

  test.each([
    ['a Cyrillic letter in a Latin name', 'p\u0430ypal@example.com', 'mixes Latin and Cyrillic letters'],
    ['a Greek letter in a Latin domain', 'new@ex\u03b1mple.com', 'mixes Latin and Greek letters'],
    ['a Latin letter in a Cyrillic name', '\u0438\u0432a\u043d@example.com', 'mixes Latin and Cyrillic letters'],
    [
      'Cyrillic letters that spell a Latin word',
      '\u0441\u0430\u0440\u0435@example.com',
      'has letters of another script that look like Latin ones',
    ],
    [
      'a full-width Latin letter beside a Cyrillic letter',
      '\uff50\u0430@example.com',
      'mixes Latin and Cyrillic letters',
    ],
  ])('refuses %s, and an operator can invite it', async (_, email, says) => {
    await using rig = await inMode('open')
    const message = `This e-mail address ${says} and looks like another one. An operator can invite it.`
    const refused = { status: 400, body: { error: { code: 'invalid_value', param: 'email', message } } }
    expect(await rig.browser().post('/api/register', { ...NEW, email })).toMatchObject(refused)
    const operator = await rig.operator()
    const invite = async (more: object) => {
      const { body } = await operator.post<IssuedLinkView>('/api/operator/links', {
        kind: 'invitation',
        role: 'member',
        ...more,
      })
      return new URL(body.url).hash.slice(1)
    }
    // An invitation for any address does not allow this address.
    const forAny = await invite({})
    expect(await rig.browser().post('/api/join', { token: forAny, email, password: PASSWORD })).toMatchObject(refused)
    const token = await invite({ email })
    expect((await rig.browser().post('/api/join', { token, password: PASSWORD })).status).toBe(201)
    expect((await rig.browser().post('/api/session', { email, password: PASSWORD })).status).toBe(201)
  })

  test.each([
    ['Cyrillic, with a Latin domain', '\u0438\u0432\u0430\u043d@example.com'],
    ['Cyrillic throughout', '\u0441\u0430\u0440\u0435@\u043f\u0440\u0438\u043c\u0435\u0440.\u0440\u0444'],
    ['Japanese with Latin letters', 'taro\u592a\u90ce\u30bf\u308d@\u4f8b\u3048.jp'],
    ['Korean', '\ud64d\uae38\ub3d9@example.kr'],
    ['German', 'j\u00fcrgen.m\u00fcller+x_1@b\u00fccher.example'],
    ['Hindi', '\u0930\u093e\u091c@example.in'],
    ['Arabic', '\u0645\u062d\u0645\u062f@example.eg'],
  ])('accepts an address that is %s', async (_, email) => {
    await using rig = await inMode('open')
    expect((await rig.browser().post('/api/register', { ...NEW, email })).status).toBe(201)
    expect((await rig.browser().post('/api/session', { ...NEW, email })).status).toBe(201)
  })

  test.each([
    ['a second @ in full width', 'a\uff20b@example.com'],
    ['an invisible character', 'ne\u034fw@example.com'],
    ['a letter of a script without use in names', '\u{10330}\u{10331}@example.com'],
  ])('refuses an address with %s', async (_, email) => {
    await using rig = await inMode('open')
    expect(await rig.browser().post('/api/register', { ...NEW, email })).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_value', param: 'email' } },
    })
    expect(rig.store.reads.people.list()).toEqual([])
  })

  test('of two concurrent registrations of one address, one succeeds, with one account', async () => {
    await using rig = await inMode('open')
    const from = (address: number) => ({ 'x-forwarded-for': `10.0.0.${address}` })
    const replies = await Promise.all(
      [1, 2, 3].map(each => rig.browser().call('POST', '/api/register', { body: NEW, headers: from(each) })),
    )
    const codes = replies.map(({ status }) => status).sort()
    expect(codes[0]).toBe(201)
    // One person may have two concurrent hashes; a third is refused with 503.
    expect(codes.slice(1).every(status => status === 409 || status === 503)).toBe(true)
    expect(rig.store.reads.listAccounts()).toHaveLength(1)
  })

  test('creates an account with its plan and first credit, and signs in', async () => {
    await using rig = await inMode('open')
    const browser = rig.browser()
    const { status, body } = await browser.post<SessionView>('/api/register', { ...NEW, email: 'New@Example.com' })
    expect(status).toBe(201)
    expect(body.person).toMatchObject({ email: NEW.email, role: 'member', account_id: body.account.id })
    expect(body.account).toMatchObject({ name: NEW.email, plan: 'trial', frozen: false, available: '2.500000000' })
    expect((await browser.get('/api/session')).body).toEqual(body)
  })

  test.each([
    ['8 characters', 'gate 8 k'],
    ['128 characters', 'xy'.repeat(64)],
    ['128 characters of four bytes each', '🔑🚪'.repeat(64)],
    ['blanks alone', ' \u00a0'.repeat(4)],
    ['control characters', '\u0000\u0001\t\n\r\u001b\u007f\u0000'],
  ])('accepts a password of %s, but no other one with the same beginning or end', async (_, password) => {
    await using rig = await inMode('open')
    await rig.browser().post('/api/register', { ...NEW, password })
    const signIn = async (text: string) => {
      const reply = await rig.browser().post('/api/session', { ...NEW, password: text })
      return reply.status
    }
    expect(await signIn(password)).toBe(201)
    for (const other of [password.slice(0, -1), password.slice(1), `${password}x`, password.trim()]) {
      rig.clock.ms += 15 * 60_000
      if (other !== password) expect(await signIn(other), JSON.stringify(other)).toBe(401)
    }
  })

  test('treats a password in another Unicode composition as the same', async () => {
    await using rig = await inMode('open')
    await rig.browser().post('/api/register', { ...NEW, password: 'gr\u00fcn-gr\u00fcn' })
    const reply = await rig.browser().post('/api/session', { ...NEW, password: 'gru\u0308n-gru\u0308n' })
    expect(reply.status).toBe(201)
  })
})

describe('an invitation', () => {
  test.each<[what: string, make: (rig: Rig) => Promise<{ token: string } | undefined>]>([
    ['was never made', async () => undefined],
    [
      'has expired',
      async rig => {
        const made = await invite(rig)
        rig.clock.ms += DAY_MS
        return made
      },
    ],
    [
      'was revoked',
      async rig => {
        const made = await invite(rig)
        await rig.store.people.revokeLink(made.link.id)
        return made
      },
    ],
    [
      'was used',
      async rig => {
        const made = await invite(rig)
        await rig.browser().post('/api/join', { email: 'first@example.com', password: PASSWORD, token: made.token })
        return made
      },
    ],
    [
      'is a reset link',
      async rig => {
        const { person } = await rig.member('first@example.com')
        return invite(rig, { kind: 'reset', personId: person.id, plan: null, credit: 0n })
      },
    ],
  ])('that %s lets no one in', async (what, make) => {
    await using rig = await inMode('invitation')
    const token = (await make(rig))?.token ?? 'A'.repeat(43)
    const before = rig.store.reads.people.list()
    const hashes = rig.hashes()
    const reply = await rig.browser().post('/api/join', { ...NEW, token })
    expect(reply).toMatchObject({ status: 404, body: { error: { code: 'link_invalid' } } })
    expect(reply.text).not.toContain(token)
    expect(rig.store.reads.people.list()).toEqual(before)
    expect(rig.hashes()).toBe(hashes)
    const look = await rig.browser().post('/api/link', { token })
    expect(look.status).toBe(what === 'is a reset link' ? 200 : 404)
  })

  test.each(['open', 'invitation'] as const)('creates an account where registration is %s', async mode => {
    await using rig = await inMode(mode)
    const { token } = await invite(rig)
    const look = await rig.browser().post<LinkPurposeView>('/api/link', { token })
    const wanted = { kind: 'invitation', email: null, account: null, role: 'member', credit: '5.000000000' }
    expect(look.body).toEqual(wanted)
    const browser = rig.browser()
    const { body } = await browser.post<SessionView>('/api/join', { ...NEW, token })
    expect(body.account).toMatchObject({ name: NEW.email, plan: 'silver', available: '5.000000000' })
    expect((await browser.get('/api/session')).status).toBe(200)
  })

  test('into an account lets people join it and adds no credit', async () => {
    await using rig = await inMode('closed')
    const alice = await rig.member('alice@example.com')
    const { token } = await invite(rig, { accountId: alice.accountId, plan: null, credit: 0n })
    const look = await rig.browser().post<LinkPurposeView>('/api/link', { token })
    expect(look.body).toMatchObject({ account: 'alice@example.com', credit: '0.000000000' })
    const { body } = await rig.browser().post<SessionView>('/api/join', { ...NEW, token })
    expect(body.account).toMatchObject({ id: alice.accountId, available: '10.000000000' })
    expect(body.person.role).toBe('member')
  })

  test('for a new account admits no one where registration is closed, except operators', async () => {
    await using rig = await inMode('closed')
    const member = await invite(rig)
    expect(await rig.browser().post('/api/join', { ...NEW, token: member.token })).toMatchObject({
      status: 403,
      body: { error: { code: 'registration_closed' } },
    })
    const operator = await invite(rig, { role: 'operator' })
    const { body } = await rig.browser().post<SessionView>('/api/join', { ...NEW, token: operator.token })
    expect(body.person.role).toBe('operator')
  })

  test('for an address admits only that address', async () => {
    await using rig = await inMode('invitation')
    const { token } = await invite(rig, { email: NEW.email })
    const other = await rig.browser().post('/api/join', { ...NEW, email: 'other@example.com', token })
    expect(other).toMatchObject({ status: 400, body: { error: { code: 'invalid_value', param: 'email' } } })
    const { body } = await rig.browser().post<SessionView>('/api/join', { password: PASSWORD, token })
    expect(body.person.email).toBe(NEW.email)
  })

  test('without an address needs one that is not registered, and the link stays valid after a refusal', async () => {
    await using rig = await inMode('invitation')
    await rig.member('alice@example.com')
    const { token } = await invite(rig)
    const join = (body: object) => rig.browser().post('/api/join', { password: PASSWORD, token, ...body })
    expect(await join({})).toMatchObject({
      status: 400,
      body: { error: { code: 'missing_required_parameter', param: 'email' } },
    })
    expect(await join({ email: 'alice@example.com' })).toMatchObject({ status: 409 })
    expect(await join({ email: NEW.email, role: 'operator' })).toMatchObject({ status: 400 })
    expect(await join({ email: NEW.email })).toMatchObject({ status: 201 })
  })

  test('used twice at once admits one', async () => {
    await using rig = await inMode('invitation')
    const { token } = await invite(rig)
    const join = (email: string, index: number) =>
      rig.browser().call('POST', '/api/join', {
        body: { email, password: PASSWORD, token },
        headers: { 'x-forwarded-for': `10.0.0.${index}` },
      })
    const replies = await Promise.all(['a@example.com', 'b@example.com', 'c@example.com'].map(join))
    expect(replies.map(({ status }) => status).sort()).toEqual([201, 404, 404])
    expect(rig.store.reads.people.list()).toHaveLength(1)
  })
})

describe('a reset link', () => {
  test('sets the password once, ends all sessions, and signs in', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const { token } = await invite(rig, { kind: 'reset', personId: alice.person.id, plan: null, credit: 0n })
    const browser = rig.browser()
    const reset = (password: string) => browser.post<SessionView>('/api/reset', { token, password })
    expect((await reset('short')).status).toBe(400)
    expect((await alice.get('/api/session')).status).toBe(200)

    const reply = await reset('another password')
    expect(reply).toMatchObject({ status: 200, body: { person: { email: 'alice@example.com' } } })
    expect((await browser.get('/api/session')).status).toBe(200)
    expect((await alice.get('/api/session')).status).toBe(401)
    const signIn = (password: string) => rig.browser().post('/api/session', { email: 'alice@example.com', password })
    expect((await signIn(PASSWORD)).status).toBe(401)
    expect((await signIn('another password')).status).toBe(201)
    expect(await reset('a third password')).toMatchObject({ status: 404, body: { error: { code: 'link_invalid' } } })
  })

  test('is refused where an invitation is expected', async () => {
    await using rig = await startRig()
    const { token } = await invite(rig)
    const reply = await rig.browser().post('/api/reset', { token, password: PASSWORD })
    expect(reply).toMatchObject({ status: 404, body: { error: { code: 'link_invalid' } } })
    expect(rig.hashes()).toBe(0)
    expect((await rig.browser().post('/api/join', { ...NEW, token })).status).toBe(201)
  })
})
