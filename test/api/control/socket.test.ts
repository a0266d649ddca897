import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  type Control,
  ControlError,
  callControl,
  controlPath,
  NoGateway,
  startControl,
  VerbError,
} from '../../../src/api/control/socket.ts'
import { REFUSED_WITH_DATABASE } from '../../../src/api/control/verbs.ts'
import { openStore } from '../../../src/store/engine/sqlite.ts'
import type { LocalStore } from '../../../src/store/local-store.ts'
import { StoreUnavailable } from '../../../src/store/store.ts'

const SECRET = 'a secret for tests that is long enough'
const clock = { now: () => Date.UTC(2026, 10, 21) }

let folder: string
let path: string
let store: LocalStore
let control: Control | undefined

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-control-'))
  path = join(folder, 'tollgate.sock')
  store = await openStore({ url: 'memory', secret: SECRET, clock })
})

afterEach(async () => {
  await control?.close()
  control = undefined
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

describe('without a gateway at the socket', () => {
  test('a missing socket is NoGateway', async () => {
    await expect(callControl(path, 'account.list', {})).rejects.toThrow(NoGateway)
  })

  test('the socket of a dead process is NoGateway, and a new gateway replaces it', async () => {
    await leaveSocket(path)
    expect(existsSync(path)).toBe(true)
    await expect(callControl(path, 'account.list', {})).rejects.toThrow(NoGateway)
    control = await startControl(store, path)
    expect(await callControl(path, 'account.list', {})).toEqual({ accounts: [] })
  })

  test('a gateway that disconnects in mid-call has its own error: the verb may have been done', async () => {
    const server = await listen(path, socket => socket.once('data', () => socket.destroy()))
    const call = callControl(path, 'account.create', { name: 'acme' })
    await expect(call).rejects.toThrow(ControlError)
    await expect(call).rejects.toThrow('check whether it was done')
    server.close()
  })

  test('an answer from another program is refused', async () => {
    const answer = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi'
    const server = await listen(path, socket => socket.once('data', () => socket.end(answer)))
    await expect(callControl(path, 'account.list', {})).rejects.toThrow('is not a gateway')
    server.close()
  })

  test('a second gateway at the same socket is refused', async () => {
    control = await startControl(store, path)
    await expect(startControl(store, path)).rejects.toThrow('another gateway already takes commands')
    expect(await callControl(path, 'account.list', {})).toEqual({ accounts: [] })
  })
})

describe('refused calls', () => {
  beforeEach(async () => {
    control = await startControl(store, path)
  })

  test('a mistake in the arguments is returned as a sentence', async () => {
    const call = callControl(path, 'account.create', { name: 'acme', credit: '1e9' })
    await expect(call).rejects.toThrow(VerbError)
    await expect(call).rejects.toThrow('account.create: "credit" is wrong: "1e9" is not an amount of dollars')
    expect(store.reads.listAccounts()).toEqual([])
  })

  test('an error of the store is returned unchanged', async () => {
    await callControl(path, 'account.create', { name: 'acme' })
    await expect(callControl(path, 'account.create', { name: 'acme' })).rejects.toThrow(
      'The name "acme" is taken by another account',
    )
  })

  test.each([
    ['GET', '/v1/account.list', '', 400, 'does not know'],
    ['POST', '/v1/account.destroy', '{}', 400, 'another version'],
    ['POST', '/v1/toString', '{}', 400, 'does not know'],
    ['POST', '/', '{}', 400, 'does not know'],
    ['POST', '/v1/account.list', '', 400, 'not JSON'],
    ['POST', '/v1/account.list', '[]', 400, 'must be a JSON object'],
    ['POST', '/v1/account.list', 'null', 400, 'must be a JSON object'],
    ['POST', '/v1/account.list', '{"all":true}', 400, '"all" is not an argument'],
    ['POST', '/v1/account.list', `{"a":"${'x'.repeat(70_000)}"}`, 400, 'longer than 65536 bytes'],
  ])('%s %s with %.20j answers %i: %s', async (method, url, body, status, sentence) => {
    const answer = await raw(method, url, body)
    expect(answer.status).toBe(status)
    expect(JSON.parse(answer.text).error.message).toContain(sentence)
  })

  test('a verb that this gateway does not support is refused with the reason; the others work', async () => {
    await control!.close()
    Object.assign(store, { verify: () => expect.unreachable('the whole ledger was read') })
    control = await startControl(store, path, { refused: REFUSED_WITH_DATABASE })
    const call = callControl(path, 'ledger.verify', {})
    await expect(call).rejects.toThrow(VerbError)
    await expect(call).rejects.toThrow('"tollgate ledger verify"')
    expect(await callControl(path, 'account.list', {})).toEqual({ accounts: [] })
  })

  test('a verb that fails in the middle reports what it has done', async () => {
    const credit = () => Promise.reject(new StoreUnavailable('not_written', new Error('disk full')))
    Object.assign(store, { credit })
    const call = callControl(path, 'account.create', { name: 'acme', credit: '5' })
    await expect(call).rejects.toThrow(ControlError)
    await expect(call).rejects.toThrow(/^The account acc_\w+ was made, but its credit was not given/)
  })

  test('an unexpected failure answers 500 with its reason, and the next call is served', async () => {
    const verify = store.verify
    Object.assign(store, {
      verify() {
        throw new Error('disk on fire')
      },
    })
    const call = callControl(path, 'ledger.verify', {})
    await expect(call).rejects.toThrow(ControlError)
    await expect(call).rejects.toThrow('disk on fire')
    Object.assign(store, { verify })
    expect(await callControl(path, 'ledger.verify', {})).toMatchObject({ violations: [] })
  })
})

describe('the socket', () => {
  test('can be opened by its own user only, whatever the umask', async () => {
    const mask = process.umask(0)
    try {
      control = await startControl(store, path)
      expect(statSync(path).mode & 0o777).toBe(0o600)
      expect(process.umask()).toBe(0)
    } finally {
      process.umask(mask)
    }
  })

  test('is removed by close', async () => {
    control = await startControl(store, path)
    await control.close()
    expect(existsSync(path)).toBe(false)
  })

  test('close waits for a call in progress', async () => {
    const began = Promise.withResolvers<void>()
    const disk = Promise.withResolvers<void>()
    const slow: LocalStore = {
      ...store,
      async credit(grant) {
        began.resolve()
        await disk.promise
        return store.credit(grant)
      },
    }
    const stopping = await startControl(slow, path)
    const call = callControl(path, 'account.create', { name: 'acme', credit: '1' })
    await began.promise
    const closed = stopping.close()
    await expect(callControl(path, 'account.list', {})).rejects.toThrow(NoGateway)
    disk.resolve()
    expect((await call).account.available).toBe('1.000000000')
    await closed
  })

  test('many concurrent calls with the same reference give the credit once', async () => {
    control = await startControl(store, path)
    await callControl(path, 'account.create', { name: 'acme' })
    const args = { account: 'acme', amount: '2.5', reference: 'invoice-1' }
    const results = await Promise.all(Array.from({ length: 20 }, () => callControl(path, 'account.credit', args)))
    expect(results.filter(result => result.granted)).toHaveLength(1)
    const { account } = await callControl(path, 'account.show', { account: 'acme' })
    expect(account.available).toBe('2.500000000')
  })

  test('commands are logged by verb, never with a secret', async () => {
    const lines: unknown[] = []
    const log = (fields: object, message: string) => void lines.push({ ...fields, message })
    control = await startControl(store, path, { log: { info: log, warn: log, error: log } })
    await callControl(path, 'account.create', { name: 'acme' })
    const { token } = await callControl(path, 'key.create', { account: 'acme', name: 'k' })
    const expires_at = '2026-11-22T00:00:00.000Z'
    const invitation = { role: 'operator', email: 'ada@example.com', expires_at, actor: 'cli:me' }
    const invited = await callControl(path, 'person.invite', invitation)
    const machine = await callControl(path, 'token.create', { name: 'payments', actor: 'cli:me' })
    await callControl(path, 'token.revoke', { token: machine.token.id })
    await expect(callControl(path, 'person.role', { person: 'bo@example.com', role: 'member' })).rejects.toThrow('bo@')
    await expect(callControl(path, 'account.show', { account: 'unknown' })).rejects.toThrow('unknown')
    expect(lines).toMatchObject([
      { verb: 'account.create', message: 'operator command' },
      { verb: 'key.create', about: 'acme', message: 'operator command' },
      { verb: 'person.invite', about: 'ada@example.com', actor: 'cli:me', message: 'operator command' },
      { verb: 'token.create', about: 'payments', actor: 'cli:me', message: 'operator command' },
      { verb: 'token.revoke', about: machine.token.id, message: 'operator command' },
      { verb: 'person.role', about: 'bo@example.com', message: 'operator command refused' },
      { verb: 'account.show', message: 'operator command refused' },
    ])
    for (const secret of [token, invited.token, machine.secret]) expect(JSON.stringify(lines)).not.toContain(secret)
  })
})

describe('the path of the socket', () => {
  test('is beside the database, with its name, so that two databases in a folder have two sockets', () => {
    expect(controlPath('sqlite:/var/lib/tollgate/tollgate.db', '/etc/gateway.yaml')).toBe(
      '/var/lib/tollgate/tollgate.sock',
    )
    const others = ['/d/a.db', '/d/b.db', '/d/a', '/d/a.sqlite'].map(file => controlPath(`sqlite:${file}`, '/g.yaml'))
    expect(new Set(others).size).toBe(3)
  })

  test('that is too long is replaced by a short one in a private folder, which works', async () => {
    const database = `/${'long/'.repeat(30)}tollgate.db`
    const short = controlPath(`sqlite:${database}`, '/etc/gateway.yaml')
    expect(short.startsWith(tmpdir())).toBe(true)
    expect(Buffer.byteLength(short)).toBeLessThanOrEqual(100)
    expect(short).not.toBe(controlPath(`sqlite:${database}2`, '/etc/gateway.yaml'))
    control = await startControl(store, short)
    expect(await callControl(short, 'account.list', {})).toEqual({ accounts: [] })
  })

  test.each([
    ['others can look into', (at: string) => mkdirSync(at, { mode: 0o755 })],
    ['is a link', (at: string) => symlinkSync(folder, at)],
    ['is a file', (at: string) => writeFileSync(at, '', { mode: 0o600 })],
  ])('a private folder that %s is not used', async (_, make) => {
    const before = process.env['TMPDIR']
    process.env['TMPDIR'] = folder
    try {
      const short = controlPath('memory', '/etc/gateway.yaml')
      make(dirname(short))
      await expect(startControl(store, short)).rejects.toThrow('only this user can open')
      await expect(callControl(short, 'account.list', {})).rejects.toThrow('only this user can open')
    } finally {
      if (before === undefined) delete process.env['TMPDIR']
      else process.env['TMPDIR'] = before
    }
  })

  test('a store in memory has a socket named by its configuration', () => {
    const a = controlPath('memory', '/a/gateway.yaml')
    expect(a).not.toBe(controlPath('memory', '/b/gateway.yaml'))
    expect(a).toBe(controlPath('memory', '/a/gateway.yaml'))
  })
})

/** A socket file without a listener, as kill -9 leaves it. */
async function leaveSocket(at: string): Promise<void> {
  const server = await listen(`${at}.moved`, socket => socket.destroy())
  renameSync(`${at}.moved`, at)
  await new Promise(resolve => server.close(resolve))
  // Closing removes a socket by the name under which it was created.
  writeFileSync(`${at}.moved`, '')
}

function listen(at: string, onSocket: (socket: Socket) => void): Promise<Server> {
  return new Promise(resolve => {
    const server = createServer(onSocket)
    server.listen(at, () => resolve(server))
  })
}

function raw(method: string, url: string, body: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ socketPath: path, path: url, method, agent: false }, response => {
      let text = ''
      response.on('data', piece => {
        text += piece
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}
