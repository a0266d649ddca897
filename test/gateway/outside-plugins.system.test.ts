/**
 * Third-party plugins in a running gateway: a file in a folder outside of this repository, @koa/cors from npm, and an ordinary Koa
 * middleware.
 */
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ErrorEnvelope } from '#contract'
import { runCommand } from '../helpers/command.ts'
import { errorAnswer, exact, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import {
  createAccount,
  type Gateway,
  startGateway,
  temporaryDirectory,
  tollgate,
  writeConfiguration,
} from '../helpers/gateway.ts'
import { PACKAGES } from '../helpers/packages.ts'
import { openRaw } from '../helpers/raw-client.ts'
import { chunksOf, contentOf, parseSse } from '../helpers/sse.ts'
import { expectRefusal } from './refusal.ts'

const CORS = join(PACKAGES, 'node_modules/@koa/cors')
const ORIGIN = 'https://app.example'

/** The author's file: with types, a unit, a helper file, and a resource to release. */
const DESK = `
import { type Chunk, definePlugin, refuse, unit } from 'tollgate/plugin'
import { upper } from './upper.ts'

interface Settings {
  readonly pause: number
  readonly word: string
}

export default definePlugin({
  name: 'desk',
  needs: ['chat', 'key'],
  uses: ['clock', 'log'],
  settings: {
    type: 'object',
    additionalProperties: false,
    required: ['pause'],
    properties: {
      pause: { ...unit('duration'), description: 'How long the desk rests.' },
      word: { type: 'string', description: 'The forbidden word.', default: 'forbidden' },
    },
  },
  create({ pause, word }: Settings, { clock, log }, { policy, id }) {
    const openedAt: number = clock.now()
    return {
      async handle(ctx, next) {
        const at = ctx.exchange.chat.body.messages.findIndex(({ content }) => String(content).includes(word))
        if (at >= 0) {
          throw refuse('invalid_value', { message: \`The word "\${word}" is not allowed.\`, param: \`messages[\${at}].content\` })
        }
        let chunks = 0
        ctx.exchange.watch(() => chunks++)
        ctx.exchange.edit((chunk: Chunk) => upper(chunk))
        await next()
        ctx.set('x-desk', \`\${pause} \${typeof pause} \${ctx.exchange.outcome}\`)
        log.info({ chunks, seconds: (clock.now() - openedAt) / 1000, key: ctx.exchange.key.id }, 'desk served')
      },
      dispose: () => log.info({ policy, id }, 'desk closed'),
    }
  },
})
`
const UPPER = `
import type { Chunk } from 'tollgate/plugin'

export function upper(chunk: Chunk): Chunk | null {
  const choices = chunk.choices.map(choice => {
    const { content } = choice.delta
    return content ? { ...choice, delta: { ...choice.delta, content: content.toUpperCase() } } : choice
  })
  return { ...chunk, choices }
}
`

/** Behaviours of Koa middlewares, good and bad, by name. */
const STRANGER = `
const { Readable } = require('node:stream')
const deeds = {
  throws: ctx => ctx.throw(403, 'Not from here.', { headers: { 'X-Reason': 'office', Vary: 'X-Office' } }),
  teapot: ctx => ctx.throw(418, 'Short and stout.'),
  jwt(ctx, next) {
    if (!ctx.get('authorization')) {
      ctx.throw(401, 'Authentication Error', { headers: { 'WWW-Authenticate': 'Bearer realm="app"' } })
    }
    ctx.state.user = { sub: 'ann' }
    return next()
  },
  answers: ctx => { ctx.body = { from: 'stranger', path: ctx.path } },
  status: ctx => { ctx.status = 204 },
  stream: ctx => { ctx.type = 'text/plain'; ctx.body = Readable.from(['one ', 'two ', 'three']) },
  breaks(ctx) {
    ctx.type = 'text/plain'
    ctx.body = Readable.from((async function* () { yield 'one '; throw new Error('disk failed') })())
  },
  raw(ctx) { ctx.res.writeHead(200, { 'content-length': 3 }); ctx.res.end('raw') },
  redirects: ctx => ctx.redirect('https://example.com/elsewhere'),
  async after(ctx, next) { await next(); ctx.body = 'mine' },
  async header(ctx, next) { ctx.set('x-before', '1'); await next(); ctx.set('x-after', ctx.state.user ? 'user' : 'no user') },
  async swallows(ctx, next) { try { await next() } catch { ctx.body = 'all is fine' } },
  async twice(ctx, next) { await next(); await next() },
  forgets() {},
  crashes() { throw new Error('password hunter2 at /srv/stranger.js') },
}
module.exports = function stranger({ deed }) { return async (ctx, next) => deeds[deed](ctx, next) }
`
const DEEDS = [...STRANGER.matchAll(/^ {2}(?:async )?(\w+)[(:]/gm)].map(([, deed]) => deed!)

let provider: FakeProvider
let gateway: Gateway
let key: string

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: ['well', ' said'] }) })
  const dir = await temporaryDirectory()
  await writeFiles(dir, {
    'plugins/desk.ts': DESK,
    'plugins/upper.ts': UPPER,
    'node_modules/stranger/package.json': '{ "name": "stranger", "main": "index.js" }',
    'node_modules/stranger/index.js': STRANGER,
  })
  await mkdir(join(dir, 'node_modules/@koa'))
  await symlink(CORS, join(dir, 'node_modules/@koa/cors'))
  const desk = { use: '../plugins/desk.ts', with: { pause: '1.5s' } }
  const cors = { use: 'npm:@koa/cors', id: 'cors', with: { maxAge: 600, exposeHeaders: 'x-request-id' } }
  gateway = await startGateway({
    dir,
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      store: 'sqlite:./tollgate.db',
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
      models: { m: MODEL },
      routes: [
        { path: '/v1/chat/completions', policy: 'main' },
        ...DEEDS.map(deed => ({
          path: `/v1/${deed}`,
          kind: 'raw',
          provider: 'p',
          price: 'free',
          public: true,
          policy: deed,
        })),
      ],
    },
    policies: {
      main: { steps: [cors, { use: 'api-key' }, { use: 'schema' }, desk, { use: 'route' }] },
      catalog: { steps: [{ use: 'api-key' }] },
      ...Object.fromEntries(
        DEEDS.map(deed => [deed, { steps: [{ use: 'npm:stranger', id: `the-${deed}`, with: { deed } }] }]),
      ),
    },
  })
  key = (await createAccount(gateway, { credit: 1 })).key
})
afterAll(async () => {
  await provider.close()
})

const MODEL = { targets: [{ provider: 'p', model: 'theirs' }], price: 'free', context: 8192, max_output: 100 }

async function writeFiles(dir: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(dir, name)), { recursive: true })
    await writeFile(join(dir, name), text)
  }
}

const chat = (body: object = {}, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hello' }], ...body }),
  })

const deed = (name: string, init: RequestInit = {}) =>
  fetch(`${gateway.url}/v1/${name}`, { method: 'POST', body: '{}', redirect: 'manual', ...init })

const idOf = (answer: Response) => answer.headers.get('x-request-id')

/** The log's text about a step's mistake. */
const mistakeOf = (answer: Response) =>
  gateway.waitForLog(line => line['msg'] === 'a plugin failed' && line['exchange'] === idOf(answer))

describe('a plugin in its own file', () => {
  test('refuses, with a message and the place', async () => {
    const asked = provider.requests.length
    const answer = await chat({
      messages: [
        { role: 'user', content: 'Hello' },
        { role: 'user', content: 'a forbidden word' },
      ],
    })
    const error = await expectRefusal(answer, 'invalid_value')
    expect(error).toMatchObject({ message: 'The word "forbidden" is not allowed.', param: 'messages[1].content' })
    expect(provider.requests.length).toBe(asked)
  })

  test('sets a header after a whole answer that it has edited; a duration arrives as a number', async () => {
    const answer = await chat()
    expect(answer.status).toBe(200)
    expect(answer.headers.get('x-desk')).toBe('1500 number answered')
    const completion = (await answer.json()) as { choices: { message: { content: string } }[] }
    expect(completion.choices[0]!.message.content).toBe('WELL SAID')
  })

  test('edits a stream, which still ends properly', async () => {
    const answer = await chat({ stream: true })
    const stream = parseSse(await answer.text())
    expect(stream).toMatchObject({ done: true, rest: '' })
    expect(contentOf(stream)).toBe('WELL SAID')
    expect(chunksOf(stream).at(-1)!.choices[0]!.finish_reason).toBe('stop')
  })

  test('logs under the name of its step, with the time of the clock', async () => {
    const line = await gateway.waitForLog(line => line['msg'] === 'desk served')
    expect(line).toMatchObject({ step: 'desk', key: expect.stringMatching(/^key_/) })
    expect(line['chunks']).toBeGreaterThan(0)
    expect(line['seconds']).toBeGreaterThan(0)
    expect(line['seconds']).toBeLessThan(60)
  })
})

describe('@koa/cors', () => {
  const origin = { origin: ORIGIN }
  const allowed = (answer: Response) => answer.headers.get('access-control-allow-origin')

  test('a preflight is answered before a key is required', async () => {
    const asked = provider.requests.length
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'OPTIONS',
      headers: {
        ...origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type',
      },
    })
    expect(answer.status).toBe(204)
    expect(allowed(answer)).toBe('*')
    expect(answer.headers.get('access-control-allow-methods')).toContain('POST')
    expect(answer.headers.get('access-control-allow-headers')).toBe('authorization,content-type')
    expect(answer.headers.get('access-control-max-age')).toBe('600')
    expect(await answer.text()).toBe('')
    expect(provider.requests.length).toBe(asked)
    const line = await gateway.waitForLog(line => line['id'] === idOf(answer))
    expect(line).toMatchObject({ status: 204, outcome: 'answered', method: 'OPTIONS' })
  })

  test('OPTIONS that is not a preflight reaches the steps after it; without such a step it is refused', async () => {
    const options = (path: string, headers: Record<string, string> = {}) =>
      fetch(`${gateway.url}${path}`, { method: 'OPTIONS', headers })
    await expectRefusal(await options('/v1/chat/completions'), 'missing_api_key')
    await expectRefusal(
      await options('/v1/models', { ...origin, 'access-control-request-method': 'GET' }),
      'method_not_allowed',
    )
  })

  test('its headers are on whole answers and on streams', async () => {
    for (const stream of [false, true]) {
      const answer = await chat({ stream }, origin)
      expect(answer.status).toBe(200)
      expect(allowed(answer)).toBe('*')
      expect(answer.headers.get('access-control-expose-headers')).toBe('x-request-id')
      expect(answer.headers.get('vary')).toBe('Origin')
      await answer.text()
    }
  })

  test('its headers are on errors, besides those of the error itself', async () => {
    const refused = await chat({}, { ...origin, authorization: '' })
    await expectRefusal(refused, 'missing_api_key')
    expect(allowed(refused)).toBe('*')
    expect(refused.headers.get('www-authenticate')).toBe('Bearer')
    expect(refused.headers.get('vary')).toBe('Origin')

    const own = await chat({ messages: [{ role: 'user', content: 'forbidden' }] }, origin)
    expect(own.status).toBe(400)
    expect(allowed(own)).toBe('*')

    for (const stream of [false, true]) {
      provider.script(errorAnswer(429, undefined, { 'retry-after': '3' }))
      const failed = await chat({ stream }, origin)
      provider.script(exact())
      await expectRefusal(failed, 'upstream_rate_limited')
      expect(allowed(failed)).toBe('*')
      expect(failed.headers.get('retry-after')).toBe('3')
    }
  })
})

describe('an ordinary Koa middleware', () => {
  test.each([
    ['throws', 403, 'forbidden', 'Not from here.', { 'x-reason': 'office', vary: 'X-Office' }],
    ['teapot', 418, 'bad_request', 'Short and stout.', {}],
    ['jwt', 401, 'unauthorized', 'Authentication Error', { 'www-authenticate': 'Bearer realm="app"' }],
  ] as const)('ctx.throw (%s, %i) becomes the envelope', async (name, status, code, message, headers) => {
    const asked = provider.requests.length
    const answer = await deed(name)
    expect(answer.status).toBe(status)
    expect(answer.headers.get('content-type')).toBe('application/json')
    const { error } = (await answer.json()) as ErrorEnvelope
    expect(error).toEqual({ message, type: expect.any(String), param: null, code })
    for (const [name, value] of Object.entries(headers)) expect(answer.headers.get(name)).toBe(value)
    expect(provider.requests.length).toBe(asked)
    const line = await gateway.waitForLog(line => line['id'] === idOf(answer))
    expect(line).toMatchObject({ outcome: 'refused', status, code })
  })

  test.each([
    ['answers', 200, '{"from":"stranger","path":"/v1/answers"}', 'application/json; charset=utf-8'],
    ['status', 204, '', null],
    ['stream', 200, 'one two three', 'text/plain; charset=utf-8'],
    ['redirects', 302, expect.stringContaining('https://example.com/elsewhere'), expect.any(String)],
  ])('answers before next (%s)', async (name, status, body, type) => {
    const asked = provider.requests.length
    const answer = await deed(name)
    expect(answer.status).toBe(status)
    expect(await answer.text()).toEqual(body)
    expect(answer.headers.get('content-type')).toEqual(type)
    expect(provider.requests.length).toBe(asked)
    expect(await gateway.waitForLog(line => line['id'] === idOf(answer))).toMatchObject({ outcome: 'answered', status })
  })

  test('continues: headers before and after', async () => {
    const passed = await deed('jwt', { headers: { authorization: 'Bearer something' } })
    expect(passed.status).toBe(200)
    const answer = await deed('header')
    expect(answer.status).toBe(200)
    expect(answer.headers.get('x-before')).toBe('1')
    expect(answer.headers.get('x-after')).toBe('no user')
  })

  test.each([
    ['after', 'threw', 'ctx.body after next()'],
    ['forgets', 'returned without next(), an answer or a refusal', null],
    ['crashes', 'threw', 'hunter2'],
  ])('its mistake (%s) is a 500, and the log names the step', async (name, what, detail) => {
    const answer = await deed(name)
    const error = await expectRefusal(answer, 'plugin_error')
    expect(JSON.stringify(error)).not.toMatch(/hunter2|stranger|after next/)
    const line = await mistakeOf(answer)
    expect(line).toMatchObject({ policy: name, step: `the-${name}`, what })
    if (detail !== null) expect(JSON.stringify(line)).toContain(detail)
  })

  test('can neither hide a failure nor send twice', async () => {
    provider.script(errorAnswer(500))
    const asked = provider.requests.length
    const swallowed = await deed('swallows')
    await expectRefusal(swallowed, 'upstream_error')
    expect(await mistakeOf(swallowed)).toMatchObject({ step: 'the-swallows' })
    expect(provider.requests.length).toBe(asked + 1)
    provider.script(exact())
    expect((await deed('twice')).status).toBe(200)
    expect(provider.requests.length).toBe(asked + 2)
  })
})

test('its stream breaks: the answer is cut and does not look complete', async () => {
  const client = await openRaw(gateway.url)
  await client.post('/v1/breaks', {})
  const answer = await client.readResponse()
  expect(answer).toMatchObject({ status: 200, end: 'cut' })
  expect(answer.text()).toBe('one ')
})

test('it bypasses Koa: its bytes are sent, the log names it, and the gateway continues', async () => {
  const answer = await deed('raw')
  expect(await answer.text()).toBe('raw')
  const line = await gateway.waitForLog(line => line['msg'] === 'a plugin failed' && line['step'] === 'the-raw')
  expect(line).toMatchObject({ what: 'returned without next(), an answer or a refusal' })
  expect((await chat()).status).toBe(200)
})

test('at the shutdown each step releases its resources, once', async () => {
  expect(await gateway.stop()).toBe(0)
  const closed = gateway.logs().filter(line => line['msg'] === 'desk closed')
  expect(closed).toEqual([expect.objectContaining({ step: 'desk', policy: 'main', id: 'desk' })])
  expect(gateway.stderr()).toBe('')
})

describe('an unusable plugin: nothing starts, and the place is named', () => {
  const SETTINGS = "settings: { type: 'object', additionalProperties: false, properties: {} }"
  const CREATE = 'create: () => (_ctx, next) => next()'
  const define = (parts: string) =>
    `import { definePlugin } from 'tollgate/plugin'\nexport default definePlugin({ name: 'own', ${parts} })\n`
  const USE = /policies\/main\.yaml:4:10\b/
  /** These need their own process: the test runner reads files here, and accepts syntax that Node.js does not. */
  const REFUSED_BY_NODE: ReadonlySet<string> = new Set(['a syntax error', 'syntax that needs a build'])

  async function serveAlone(config: string) {
    const { code, stdout, stderr } = await tollgate(['serve'], { config })
    return { code, out: stdout, err: stderr }
  }

  test.each<[string, string, RegExp, RegExp]>([
    ['a syntax error', 'export default {\n  name: "own",,\n}\n', USE, /\(plugins\/own\.ts:2:15\) failed to load: /],
    ['no default export', 'export const own = 1\n', USE, /own\.ts\) has no default export/],
    ['another default export', 'export default () => {}\n', USE, /was not made by definePlugin/],
    ['syntax that needs a build', 'export enum Mood { Good }\nexport default Mood\n', USE, /failed to load: .*enum/],
    ['an unknown fact', define(`needs: ['tenant'], ${SETTINGS}, ${CREATE}`), USE, /the fact "tenant" does not exist/],
    ['an unknown service', define(`uses: ['clok'], ${SETTINGS}, ${CREATE}`), USE, /"?clok"?/],
    ['a fact that comes later', define(`needs: ['targets'], ${SETTINGS}, ${CREATE}`), USE, /targets.*route/s],
    [
      'a step that cannot be created',
      define(`${SETTINGS}, create() { throw new Error('no licence') }`),
      /"own"/,
      /no licence/,
    ],
  ])('%s', async (title, text, place, says) => {
    const dir = await temporaryDirectory()
    await writeFiles(dir, { 'plugins/own.ts': text })
    const config = await writeConfiguration(dir, {
      yaml: {
        version: 1,
        listen: '127.0.0.1:0',
        store: 'memory',
        providers: { p: { dialect: 'demo' } },
        models: { m: MODEL },
        routes: [{ path: '/v1/chat/completions', policy: 'main' }],
      },
      policies: {
        main: 'steps:\n  - use: api-key\n  - use: schema\n  - use: ../plugins/own.ts\n  - use: route\n',
        catalog: 'steps:\n  - use: api-key\n',
      },
    })
    const { code, out, err } = REFUSED_BY_NODE.has(title)
      ? await serveAlone(config)
      : await runCommand(dir, ['serve', '--config', config])
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toMatch(place)
    expect(err).toMatch(says)
    // A message, not a stack.
    expect(err).not.toMatch(/^\s+at .*(node:|\.ts:\d+)/m)
  })
})
