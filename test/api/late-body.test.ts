/** Slow bodies: permission is checked again at their end, and unfinished ones do not block other people. */
import { once } from 'node:events'
import { type ClientRequest, request } from 'node:http'
import type { Socket } from 'node:net'
import { json } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import type { ErrorEnvelope } from '#contract'
import { PASSWORD, type Rig, type SignedIn, startRig } from './rig.ts'

interface SlowRequest {
  readonly request: ClientRequest
  /** Sends the rest and returns the status and the code. */
  finish(): Promise<readonly [status: number | undefined, code: string | undefined]>
}

interface SlowRequestOptions {
  readonly port: number
  readonly path: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** Sends a body except its last byte. */
function start({ port, path, body, headers }: SlowRequestOptions): SlowRequest {
  const sent = request({
    host: '127.0.0.1',
    port,
    path,
    method: 'POST',
    agent: false,
    headers: {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      ...headers,
    },
  })
  sent.on('error', () => {})
  sent.write(body.slice(0, -1))
  return {
    request: sent,
    async finish() {
      const answer = once(sent, 'response')
      sent.end(body.slice(-1))
      const [response] = await answer
      const envelope = (await json(response)) as Partial<ErrorEnvelope>
      return [response.statusCode, envelope.error?.code]
    },
  }
}

const page = (rig: Rig, who?: SignedIn) => ({
  host: new URL(rig.origin).host,
  origin: rig.origin,
  'sec-fetch-site': 'same-origin',
  'x-tollgate-dashboard': '1',
  ...(who === undefined ? {} : { cookie: `tollgate=${who.cookie}` }),
})

/** Waits until the server has identified the caller: later requests are answered already. */
const settle = async (rig: Rig) => {
  for (let round = 0; round < 3; round++) await rig.browser().get('/api/about')
}

const INVITATION = JSON.stringify({ kind: 'invitation', role: 'operator' })

test.each<[what: string, end: (rig: Rig, operator: SignedIn) => Promise<unknown>, status: number, code: string]>([
  ['was removed', (rig, { person }) => rig.store.people.remove(person.id), 401, 'not_signed_in'],
  ['is a member by now', (rig, { person }) => rig.store.people.setRole(person.id, 'member'), 403, 'forbidden'],
  ['has signed out', (rig, { cookie }) => rig.store.people.endSession(cookie!), 401, 'not_signed_in'],
])('an operator who %s before the body arrives creates no link', async (_, end, status, code) => {
  await using rig = await startRig()
  await rig.operator('another@example.com')
  const operator = await rig.operator()
  const late = start({
    port: rig.ports.dashboard,
    path: '/api/operator/links',
    body: INVITATION,
    headers: page(rig, operator),
  })
  await settle(rig)
  await end(rig, operator)
  expect(await late.finish()).toEqual([status, code])
  expect(rig.store.reads.people.links()).toEqual([])
  expect(rig.log).toMatchObject([{ actor: operator.person.email, by: operator.person.id, about: { refused: code } }])
})

test('a token that is revoked before the body has arrived gives no credit', async () => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  const secret = await rig.token()
  const late = start({
    port: rig.ports.admin,
    path: `/api/operator/accounts/${alice.accountId}/credit`,
    body: JSON.stringify({ amount: '5', reference: 'late' }),
    headers: { authorization: `Bearer ${secret}` },
  })
  await settle(rig)
  await rig.store.people.revokeToken(rig.store.reads.people.tokens()[0]!.id)
  expect(await late.finish()).toEqual([401, 'unauthorized'])
  expect(rig.store.reads.findAccount(alice.accountId)!.posted).toBe(10_000_000_000n)
})

test('a session that ends with the old password creates no key', async () => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  const thief = rig.browser()
  const late = start({
    port: rig.ports.dashboard,
    path: '/api/keys',
    body: JSON.stringify({ name: 'stolen' }),
    headers: page(rig, { ...alice, cookie: alice.cookie }),
  })
  await settle(rig)
  thief.cookie = alice.cookie
  expect((await alice.post('/api/password', { current: PASSWORD, new: 'another password' })).status).toBe(200)
  expect(await late.finish()).toEqual([401, 'not_signed_in'])
  expect(rig.store.reads.listKeys(alice.accountId)).toEqual([])
})

test('a caller without permission is refused before the body arrives', async () => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  for (const [headers, status] of [
    [page(rig), 401],
    [page(rig, alice), 403],
  ] as const) {
    const { request: sent } = start({
      port: rig.ports.dashboard,
      path: '/api/operator/links',
      body: INVITATION,
      headers,
    })
    const [response] = await once(sent, 'response')
    expect(response.statusCode).toBe(status)
    sent.destroy()
  }
})

test.each<[what: string, path: string, who: 'stranger' | 'member' | 'machine', limit: number]>([
  ['of a stranger 8 KiB', '/api/session', 'stranger', 8 * 1024],
  ['of a member 64 KiB', '/api/keys', 'member', 64 * 1024],
  ['at sign-in 8 KiB, also for a member', '/api/session', 'member', 8 * 1024],
  ['of a machine 64 KiB', '/api/operator/links', 'machine', 64 * 1024],
  ['of a conversation 256 KiB', '/api/playground', 'member', 256 * 1024],
])('a body has a limit: %s', async (_, path, who, limit) => {
  await using rig = await startRig()
  const client =
    who === 'stranger'
      ? rig.browser()
      : who === 'machine'
        ? rig.machine(await rig.token())
        : await rig.member('a@example.com')
  const send = (length: number) => client.call('POST', path, { raw: `"${'x'.repeat(length - 2)}"` })
  expect(await send(limit + 1)).toMatchObject({ status: 413, body: { error: { code: 'request_too_large' } } })
  expect(await send(limit)).toMatchObject({ status: 400, body: { error: { code: 'invalid_type' } } })
})

async function connected(request: ClientRequest): Promise<void> {
  const socket = request.socket ?? ((await once(request, 'socket')) as [Socket])[0]
  if (socket.connecting) await once(socket, 'connect')
}

/** Sends an invalid body of 8 KB: 400 if there is memory for the body, 503 if not. */
function sendInvalid(rig: Rig, address: string) {
  const options = { raw: `{}${' '.repeat(8000)}`, headers: { 'x-forwarded-for': address } }
  return rig.browser().call('POST', '/api/session', options)
}

test('unfinished bodies block only their sender', async () => {
  await using rig = await startRig()
  const body = JSON.stringify({ email: 'x'.repeat(8000), password: 'y' })
  const from = (address: string) =>
    start({
      port: rig.ports.dashboard,
      path: '/api/session',
      body,
      headers: { ...page(rig), 'x-forwarded-for': address },
    })
  // A share is 1 MiB: 130 of these fill it.
  const held = Array.from({ length: 140 }, () => from('10.0.0.1'))
  await expect.poll(async () => (await sendInvalid(rig, '10.0.0.1')).status).toBe(503)
  expect((await sendInvalid(rig, '10.0.0.2')).status).toBe(400)
  for (const each of held) each.request.destroy()
  await expect.poll(async () => (await sendInvalid(rig, '10.0.0.1')).status).toBe(400)
})

test('strangers who fill their share of the memory do not affect signed-in people or the admin listener', async () => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  const machine = rig.machine(await rig.token())
  const body = JSON.stringify({ email: 'x'.repeat(8000), password: 'y' })
  const held: SlowRequest[] = []
  // Not all at once: the kernel keeps 511 connections that the server has not accepted yet.
  while (held.length < 2400) {
    const batch = Array.from({ length: 40 }, (_, index) => {
      const headers = { ...page(rig), 'x-forwarded-for': `10.0.${index}.1` }
      return start({ port: rig.ports.dashboard, path: '/api/session', body, headers })
    })
    held.push(...batch)
    await Promise.all(batch.map(({ request }) => connected(request)))
  }
  await expect.poll(async () => (await sendInvalid(rig, '10.9.9.9')).status).toBe(503)
  // Too long for the memory that is left to strangers.
  const padded = (body: object) => ({ raw: JSON.stringify(body) + ' '.repeat(8000) })
  expect((await alice.call('POST', '/api/keys', padded({ name: 'mine' }))).status).toBe(201)
  const credit = { amount: '1', reference: 'webhook' }
  const path = `/api/operator/accounts/${alice.accountId}/credit`
  expect((await machine.call('POST', path, padded(credit))).status).toBe(200)
  for (const each of held) each.request.destroy()
})
