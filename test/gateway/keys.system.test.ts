/**
 * Keys in operation: commands change them, and the running gateway applies the change from the next request on. A killed gateway
 * forgets nothing, and only the answer that creates a key has its secret.
 */
import { chmod, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ErrorCode } from '#contract'
import { type Result, runCommand } from '../helpers/command.ts'
import { type Gateway, startGateway, temporaryDirectory, tollgate } from '../helpers/gateway.ts'
import { openRaw, type RawClient } from '../helpers/raw-client.ts'
import { expectRefusal } from './refusal.ts'

const model = { targets: [{ provider: 'demo', model: 'echo' }], price: 'free', context: 8192, max_output: 100 }
const YAML = {
  version: 1,
  listen: '127.0.0.1:0',
  store: 'sqlite:./data/tollgate.db',
  providers: { demo: { dialect: 'demo', pace: '0ms' } },
  models: { small: model, large: { ...model, aliases: ['big'] }, secret: { ...model, public: false } },
  routes: [{ path: '/v1/chat/completions', policy: 'main' }],
}
const POLICIES = {
  main: { steps: [{ use: 'api-key' }, { use: 'schema' }, { use: 'route' }] },
  catalog: { steps: [{ use: 'api-key' }] },
}
const TOKEN = /tg_live_[0-9A-Za-z]{36}/

let gateway: Gateway
/** Every token that was issued here. */
const tokens: string[] = []
/** All output of commands and the control socket, except for answers that created a token. */
const said: string[] = []

beforeAll(async () => {
  gateway = await startGateway({ yaml: YAML, policies: POLICIES })
})
afterAll(async () => {
  expect(await gateway.stop()).toBe(0)
})

/** Runs a command that must succeed. */
async function run(...args: string[]): Promise<Result> {
  const result = await runCommand(gateway.dir, args)
  expect({ code: result.code, err: result.err }).toEqual({ code: 0, err: '' })
  if (TOKEN.test(result.out)) tokens.push(TOKEN.exec(result.out)![0])
  else said.push(result.out)
  return result
}

/** Calls the control socket directly, like a command. */
async function control(verb: string, args: object, at = gateway): Promise<Record<string, unknown>> {
  const body = JSON.stringify(args)
  const { status, text } = await new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const socketPath = join(at.dir, 'data/tollgate.sock')
    httpRequest({ socketPath, path: `/v1/${verb}`, method: 'POST', headers, agent: false }, async response => {
      const pieces: Buffer[] = []
      for await (const piece of response) pieces.push(piece as Buffer)
      resolve({ status: response.statusCode, text: Buffer.concat(pieces).toString() })
    })
      .on('error', reject)
      .end(body)
  })
  const issued = TOKEN.exec(text)?.[0]
  if (issued && (verb === 'key.create' || verb === 'key.rotate')) tokens.push(issued)
  else said.push(text)
  const answer = JSON.parse(text) as { result?: Record<string, unknown>; error?: { message: string } }
  if (status !== 200) throw new Error(answer.error?.message ?? text)
  return answer.result!
}

/** A new account with a key, created by the socket. */
async function customer(options: object = {}, at = gateway): Promise<{ account: string; id: string; token: string }> {
  const account = `account-${tokens.length}`
  await control('account.create', { name: account }, at)
  const { key, token } = await control('key.create', { account, name: 'test', ...options }, at)
  return { account, id: (key as { id: string }).id, token: token as string }
}

/** The cheapest request that needs a key. */
const ask = (token: string, path = '/v1/models', at = gateway) =>
  fetch(`${at.url}${path}`, { headers: { authorization: `Bearer ${token}` } })

const chat = (token: string, name: string) =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({ model: name, messages: [{ role: 'user', content: 'Hello' }] }),
  })

async function expectWorks(token: string, at = gateway): Promise<void> {
  const answer = await ask(token, '/v1/models', at)
  expect({ status: answer.status, text: await answer.text() }).toMatchObject({ status: 200 })
}

async function expectRefused(token: string, code: ErrorCode, at = gateway): Promise<void> {
  await expectRefusal(await ask(token, '/v1/models', at), code)
}

/** Sends requests until the key is refused; every answer before that must succeed. A time set by the test has then passed. */
async function untilRefused(token: string, code: ErrorCode): Promise<void> {
  for (const endsMs = performance.now() + 5_000; performance.now() < endsMs; await pause(25)) {
    const answer = await ask(token)
    if (answer.status !== 200) return void (await expectRefusal(answer, code))
    await answer.arrayBuffer()
  }
  throw new Error('the key still works after 5 s')
}

describe('a running gateway applies', () => {
  test('a key of the command works at once, and is listed by its last four characters only', async () => {
    const created = await run('account', 'create', 'acme')
    expect(created.out).toContain('acme')
    const { out } = await run('key', 'create', '--account', 'acme', '--name', 'laptop')
    const token = TOKEN.exec(out)![0]
    expect(out.split(token)).toHaveLength(2)
    expect(out).toContain('not shown again')
    await expectWorks(token)

    const { out: list } = await run('key', 'list', '--account', 'acme')
    expect(list).toContain(`…${token.slice(-4)}`)
    expect(list).not.toContain(token.slice(-5))
    const { out: json } = await run('key', 'list', '--json')
    expect(json).toContain(`"last4": "${token.slice(-4)}"`)
    expect(json).not.toContain(token.slice(-5))
  })

  test('rotated: both secrets work; a second rotation at once is refused, and both still work', async () => {
    const { id, token: first } = await customer()
    const { out } = await run('key', 'rotate', id, '--grace', '1h', '--json')
    const second = TOKEN.exec(out)![0]
    expect(second).not.toBe(first)
    await expectWorks(first)
    await expectWorks(second)

    const again = control('key.rotate', { key: id, grace_ms: 3_600_000 })
    await expect(again).rejects.toThrow(/was rotated less than a minute ago/)
    await expectWorks(first)
    await expectWorks(second)
    const { keys } = await control('key.list', {})
    const listed = (keys as { id: string; secrets: { last4: string }[] }[]).find(key => key.id === id)!
    expect(listed.secrets.map(({ last4 }) => last4).sort()).toEqual([first.slice(-4), second.slice(-4)].sort())
    const [old, current] = [first.slice(-4), second.slice(-4)]
    expect((await run('key', 'list')).out).toMatch(new RegExp(`${id} .* …${old} until 20\\d\\d-.*, …${current} `))
  })

  test('a short grace: the old secret works until it is over, and has expired then', async () => {
    const { id, token: old } = await customer()
    const { token } = await control('key.rotate', { key: id, grace_ms: 1_500 })
    await expectWorks(old)
    await untilRefused(old, 'expired_api_key')
    await expectWorks(token as string)
  })

  test('revoked: the next request is refused, on the same connection as well, and with every secret', async () => {
    const { id, token: old } = await customer()
    const token = (await control('key.rotate', { key: id, grace_ms: 3_600_000 }))['token'] as string
    const other = await customer()
    const client = await openRaw(gateway.url)
    const get = (client: RawClient) =>
      client.send(`GET /v1/models HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${token}\r\n\r\n`)
    await get(client)
    expect((await client.readResponse()).status).toBe(200)

    const { out } = await run('key', 'revoke', id)
    expect(out).toContain('is revoked')
    await get(client)
    const refused = await client.readResponse()
    await expectRefusal(refused, 'revoked_api_key')
    expect(refused.header('www-authenticate')).toBe('Bearer')
    client.socket.destroy()

    await expectRefused(old, 'revoked_api_key')
    await expectRefusal(await chat(token, 'small'), 'revoked_api_key')
    await expectWorks(other.token)
    await expect(control('key.rotate', { key: id, grace_ms: 0 })).rejects.toThrow(/was revoked/)
    expect((await run('key', 'revoke', id)).code).toBe(0)
  })

  test('expired: refused from that moment on, and it gets no new secret', async () => {
    const { id, token } = await customer({ expires_at: new Date(Date.now() + 1_500).toISOString() })
    await expectWorks(token)
    await untilRefused(token, 'expired_api_key')
    await expect(control('key.rotate', { key: id, grace_ms: 0 })).rejects.toThrow(/expired/)
    expect((await run('key', 'list')).out).toMatch(new RegExp(`${id}.*expired`))
  })

  test('a list of models: others do not exist for the key, by any name', async () => {
    await run('account', 'create', 'narrow')
    const { out } = await run('key', 'create', '--account', 'narrow', '--models', 'small')
    const token = TOKEN.exec(out)![0]
    expect((await chat(token, 'small')).status).toBe(200)
    for (const name of ['large', 'big', 'secret']) {
      const error = await expectRefusal(await chat(token, name), 'model_not_found')
      expect(error.param).toBe('model')
      await expectRefusal(await ask(token, `/v1/models/${name}`), 'model_not_found')
    }
    const { data } = (await (await ask(token)).json()) as { data: { id: string }[] }
    expect(data.map(({ id }) => id)).toEqual(['small'])
    expect((await ask(token, '/v1/models/small')).status).toBe(200)

    const open = await customer()
    const all = (await (await ask(open.token)).json()) as { data: { id: string }[] }
    expect(all.data.map(({ id }) => id).sort()).toEqual(['large', 'small'])
    const error = await expectRefusal(await chat(open.token, 'secret'), 'model_not_found')
    const absent = await expectRefusal(await chat(open.token, 'secre'), 'model_not_found')
    // A private model must look like one that does not exist.
    expect(error.message.replaceAll('secret', 'X')).toBe(absent.message.replaceAll('secre', 'X'))
  })

  test('a model that is missing in the catalog is an error of the command', async () => {
    const args = ['key', 'create', '--account', 'acme', '--models', 'smal']
    const { code, out, err } = await runCommand(gateway.dir, args)
    expect(code).toBe(1)
    expect(err).toMatch(/smal\b.*\n?.*small/)
    expect(out).toBe('')
  })

  test('frozen: all keys of the account are refused at once, others are not; unfrozen: they work', async () => {
    const { account, token } = await customer()
    const second = (await control('key.create', { account, name: 'second' }))['token'] as string
    const other = await customer()
    await run('account', 'freeze', account)
    await expectRefused(token, 'account_frozen')
    await expectRefused(second, 'account_frozen')
    await expectRefusal(await chat(token, 'small'), 'account_frozen')
    await expectWorks(other.token)
    await run('account', 'unfreeze', account)
    await expectWorks(token)
    await expectWorks(second)
  })

  test('a second gateway on the store refuses, names the first by pid and age, and does not disturb it', async () => {
    const { token } = await customer()
    const second = await tollgate(['serve'], { config: gateway.config })
    expect(second.code).toBe(1)
    expect(second.stderr).toMatch(new RegExp(`in use by process ${gateway.pid}, for \\d+ (s|min)\\b`))
    expect(second.stderr).not.toMatch(/\n\s+at /)
    await expectWorks(token)
    // Commands still find the first one.
    expect((await run('account', 'list')).out).toContain('acme')
  })
})

test('no token is anywhere: not in the files, the log, the errors or the socket', async () => {
  const { token } = await customer()
  const half = token.slice(0, -1)
  const odd: readonly [path: string, init: RequestInit][] = [
    [`/v1/models?api_key=${token}`, {}],
    [`/v1/${token}`, { headers: { authorization: `Bearer ${token}` } }],
    ['/v1/models', { headers: { 'x-api-key': token } }],
    ['/v1/models', { headers: { authorization: `Basic ${token}` } }],
    ['/v1/models', { headers: { authorization: `Bearer ${half}` } }],
    ['/v1/models', { headers: { authorization: `Bearer ${token}`, 'idempotency-key': 'one' } }],
    [
      '/v1/chat/completions',
      {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
        body: `{"model":"${token}"`,
      },
    ],
  ]
  const answers = await Promise.all(
    odd.map(async ([path, init]) => {
      const answer = await fetch(`${gateway.url}${path}`, init)
      return `${[...answer.headers].join('\n')}${path.includes(token) ? '' : await answer.text()}`
    }),
  )
  await control('key.list', {})
  expect(tokens.length).toBeGreaterThan(10)

  const places = new Map<string, Buffer>([
    ['the log', Buffer.from(JSON.stringify(gateway.logs()))],
    ['stderr', Buffer.from(gateway.stderr())],
    ['commands and socket', Buffer.from(said.join('\n'))],
    ['errors', Buffer.from(answers.join('\n'))],
  ])
  for (const file of await readdir(gateway.dir, { recursive: true, withFileTypes: true })) {
    if (file.isFile()) places.set(file.name, await readFile(join(file.parentPath, file.name)))
  }
  expect([...places.keys()]).toEqual(expect.arrayContaining(['tollgate.db', 'tollgate.db-wal']))
  // The random part alone as well: nothing may contain a token in parts.
  for (const token of tokens) {
    const random = Buffer.from(token.slice(8, 32))
    for (const [name, bytes] of places) expect(bytes.includes(random), name).toBe(false)
  }
  expect((await stat(join(gateway.dir, 'data/tollgate.sock'))).mode & 0o777).toBe(0o600)
  expect((await stat(join(gateway.dir, 'data/secret'))).mode & 0o777).toBe(0o600)
})

test('killed: the next one starts on the store, and live, revoked, frozen and expired keys stay so', async () => {
  const dir = await temporaryDirectory()
  const first = await startGateway({ yaml: YAML, policies: POLICIES, dir })
  const live = await customer({}, first)
  const rotated = await customer({}, first)
  const fresh = (await control('key.rotate', { key: rotated.id, grace_ms: 3_600_000 }, first))['token'] as string
  const revoked = await customer({}, first)
  const frozen = await customer({}, first)
  await control('key.revoke', { key: revoked.id }, first)
  await control('account.freeze', { account: frozen.account }, first)
  await first.kill9()

  // Without a running gateway the command opens the store itself.
  const alone = await tollgate(['key', 'list', '--json'], { config: first.config })
  expect(alone).toMatchObject({ code: 0, stderr: '' })
  expect(alone.stdout).toContain(live.id)

  const second = await startGateway({ yaml: YAML, policies: POLICIES, dir })
  for (const token of [live.token, rotated.token, fresh]) await expectWorks(token, second)
  await expectRefused(revoked.token, 'revoked_api_key', second)
  await expectRefused(frozen.token, 'account_frozen', second)
  expect(await second.stop()).toBe(0)

  // The digests depend on the secret: another secret is detected before any key is called unknown.
  const secretFile = join(dir, 'data/secret')
  const secret = await readFile(secretFile, 'utf8')
  await writeFile(secretFile, 'another-secret-of-more-than-32-characters\n')
  const wrong = await tollgate(['serve'], { config: first.config })
  expect(wrong.code).toBe(1)
  expect(wrong.stderr).toMatch(/The keys of .* were made with another secret than the file .*data\/secret\. Restore/)
  expect(wrong.stderr).not.toContain('another-secret')
  // No new secret is created, because it would not match.
  await rm(secretFile)
  for (const command of [['serve'], ['key', 'list']]) {
    const missing = await tollgate(command, { config: first.config })
    expect(missing.code).toBe(1)
    expect(missing.stderr).toContain(`the file ${secretFile} does not exist and gateway.yaml has no`)
    await expect(readFile(secretFile)).rejects.toMatchObject({ code: 'ENOENT' })
  }
  await writeFile(secretFile, secret)
  await chmod(secretFile, 0o644)
  const open = await tollgate(['serve'], { config: first.config })
  expect(open.stderr).toMatch(/can be read by others \(mode 0644\)/)
  await chmod(secretFile, 0o600)
  const third = await startGateway({ yaml: YAML, policies: POLICIES, dir })
  await expectWorks(live.token, third)
  expect(await third.stop()).toBe(0)
})
