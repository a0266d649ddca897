/**
 * The secrets of every dialect (keys, tokens, signatures, accounts, projects) at providers that echo what they receive. The echoes are in
 * error bodies, error events and headers; whole, streamed and raw. Then all output is searched, as in secrets.test.ts. Facts for
 * operators only, such as a project's name, are searched in the clients' data.
 */
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseMoney } from '#contract'
import { type Running, serve } from '../../src/main.ts'
import { LOG_LEVELS } from '../../src/observe/log.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { isFull } from '../helpers/counts.ts'
import {
  type Behaviour,
  type Call,
  type FakeProvider,
  type FaultMode,
  insideOf,
  type ProviderRequest,
  speak,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { temporaryDirectory, writeConfiguration } from '../helpers/gateway.ts'
import { FIVE_STEPS, PRICE } from '../helpers/in-process.ts'
import { VOICES, type Voice } from '../helpers/voices/index.ts'
import { faultyConnector } from '../store/faulty.ts'
import { type Canary, createCanaries, filesOf, misplaced, type Place, upstreamOf } from './canaries.ts'

const full = isFull('clients')

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
console.log(`secrets of every dialect: SEED=${seed}`)
const make = createCanaries(seed)
const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
const LOWER = 'abcdefghijklmnopqrstuvwxyz'
const BASE64 = `${LOWER}ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/`

/** Not secret to the operator, who configured it. */
const operators = (canary: Canary): Canary => ({ ...canary, also: ['log', 'files'] })
const PROJECT = operators(make('project of Google', 'upstream', 'quiet-harbour-', 14, LOWER))
const RESOURCE = { ...make('resource of Azure', null, 'deep-forest-', 14, LOWER), also: ['log'] } satisfies Canary
const GROUP = { ...make('resource group of Azure', null, 'rg-', 20, LOWER), also: ['log'] } satisfies Canary
const NUMBER = { ...make('number of a project', null, '4', 11, '0123456789'), also: ['log'] } satisfies Canary
const ACCOUNT = { ...make('account of AWS', null, '7', 11, '0123456789'), also: ['log'] } satisfies Canary
const ROLE = { ...make('role of AWS', null, 'gateway-', 16, LOWER), also: ['log'] } satisfies Canary
const PLACES = [PROJECT, RESOURCE, GROUP, NUMBER, ACCOUNT, ROLE]

/** The client's own text: it may see it in its errors, but it must not be logged. */
const PROMPTS = Array.from({ length: 6 }, (_, index): Canary => {
  return { ...make(`prompt ${index}`, 'upstream', 'keep secret '), also: ['answers'] }
})
const WRONG = ['x-api-key', 'bearer', 'query', 'beta', 'version', 'cookie', 'body'].map(name =>
  make(`a client's mistake: ${name}`, null, name === 'x-api-key' ? 'sk-ant-api03-' : ''),
)

/** A provider of the configuration, and its secrets. */
interface ProviderEntry {
  readonly name: string
  readonly voice: Voice
  /** Follows the provider's address. */
  readonly base: string
  readonly who: object
  readonly headers: Canary
  readonly canaries: readonly Canary[]
}

const env: Record<string, string> = {}
const ENTRIES: readonly ProviderEntry[] = [
  ...Object.keys(VOICES).map(dialect =>
    entry(dialect, dialect, dialect === 'azure' ? { api_version: '2024-10-21' } : {}),
  ),
  entry('azure', 'azure-v1', { auth: 'bearer' }),
  entry('bedrock', 'bedrock-keys', { aws: {} }),
  entry('bedrock-invoke', 'invoke-keys', { aws: {} }),
]

function entry(
  dialect: string,
  name: string,
  own: { readonly auth?: string; readonly api_version?: string; readonly aws?: object } = {},
): ProviderEntry {
  const variable = (canary: Canary, what: string) => {
    const id = `${name}_${what}`.toUpperCase().replaceAll('-', '_')
    env[id] = canary.value
    return `\${${id}}`
  }
  const headers = make(`header of ${name}`, 'upstream', '', 30)
  const header = variable(headers, 'header')
  const common = { name, voice: VOICES[dialect]!, base: baseOf(dialect, own.auth), headers }
  const shown = { headers: { 'x-team': header } }
  if (own.aws) {
    const id = make(`access key of ${name}`, 'upstream', 'ASIA', 16, UPPER)
    // The secret signs requests, and is never sent.
    const secret = make(`secret key of ${name}`, null, '', 40, BASE64)
    const token = make(`session token of ${name}`, 'upstream', 'IQoJb3JpZ2luX2Vj', 300, BASE64)
    const aws = {
      access_key_id: variable(id, 'id'),
      secret_access_key: variable(secret, 'secret'),
      session_token: variable(token, 'token'),
      region: 'eu-central-1',
    }
    return { ...common, who: { ...shown, aws }, canaries: [headers, id, secret, token] }
  }
  const count = ['openai', 'anthropic', 'gemini', 'azure'].includes(name) ? 3 : 1
  const keys = Array.from({ length: count }, (_, index) => keyOf(dialect, own.auth, `key ${index} of ${name}`))
  const values = keys.map((key, index) => variable(key, `key_${index}`))
  const said = count > 1 ? { api_keys: values } : { api_key: values[0] }
  return { ...common, who: { ...shown, ...said, ...own }, canaries: [headers, ...keys] }
}

/** In the form in which each provider issues them. */
function keyOf(dialect: string, auth: string | undefined, name: string): Canary {
  if (auth === 'bearer') return make(name, 'upstream', 'eyJhbGciOiJSUzI1NiJ9.eyJ0aWQi', 120)
  switch (dialect) {
    case 'anthropic':
      return make(name, 'upstream', 'sk-ant-api03-', 90)
    case 'gemini':
      return make(name, 'upstream', 'AIzaSy', 33)
    case 'vertex':
    case 'vertex-anthropic':
      return make(name, 'upstream', 'ya29.c.', 180)
    case 'bedrock':
    case 'bedrock-invoke':
      return make(name, 'upstream', 'ABSK', 128, BASE64)
    case 'azure':
      return make(name, 'upstream', '', 32, '0123456789abcdef')
    default:
      return make(name, 'upstream', '', 40)
  }
}

function baseOf(dialect: string, auth?: string): string {
  switch (dialect) {
    case 'gemini':
      return '/v1beta'
    case 'vertex':
      return `/v1/projects/${PROJECT.value}/locations/europe-west4/publishers/google`
    case 'vertex-anthropic':
      return `/v1/projects/${PROJECT.value}/locations/europe-west4/publishers/anthropic`
    case 'azure':
      return auth === 'bearer' ? '/openai/v1' : ''
    case 'bedrock':
    case 'bedrock-invoke':
    case 'ollama':
      return ''
    default:
      return '/v1'
  }
}

/** Texts of providers; the words in capitals are replaced by what they received, or know. */
const SENTENCES = [
  'Incorrect API key provided: KEY. (x-team HEADER)',
  'Headers were HEADERS',
  'Request was BODY',
  'PATH at HOST does not take AUTH',
  'KEY '.repeat(600),
  `Publisher Model \`projects/${PROJECT.value}/locations/europe-west4/publishers/x/models/y\` was not found.`,
  `Project ${PROJECT.value} (project_number:${NUMBER.value}) may not do that, see project=${PROJECT.value}`,
  `User: arn:aws:sts::${ACCOUNT.value}:assumed-role/${ROLE.value}/i-0 may not do bedrock:InvokeModel`,
  `Invocation of model ID arn:aws:bedrock:eu-central-1:${ACCOUNT.value}:application-inference-profile/${ROLE.value} failed, KEY`,
  `Account ${ACCOUNT.value} has no access to bedrock-runtime.eu-central-1.amazonaws.com`,
  "The Canonical String should have been 'POST\nPATH\n\nhost:HOST\nx-amz-security-token:TOKEN\n\nSIGNATURE'",
  `/subscriptions/00000000-1111-2222-3333-444444444444/resourceGroups/${GROUP.value}/providers/accounts/${RESOURCE.value}`,
  `The deployment at https://${RESOURCE.value}.openai.azure.com/openai is not at ${RESOURCE.value}.services.ai.azure.com`,
]
/** `answer`: an answer with that status. `inside`: a 200 with the text, in a stream an event after the first token. */
const WAYS = [
  ['answer', 400],
  ['answer', 404],
  ['inside', 400],
  ['answer', 401],
  ['plain', 422],
  ['answer', 413],
  ['inside', 404],
  ['answer', 429],
  ['inside', 500],
  ['answer', 503],
  ['answer', 403],
] as const
type Way = (typeof WAYS)[number]

/** All possible behaviours, and one that is held until the provider releases it. */
const WISHES = SENTENCES.flatMap(says => WAYS.map(([how, status]) => ({ says, how, status })))
const HELD = 'held'
/** A record of the spool. */
const SPOOLED = /^[0-9a-f]{16} \{.*"exchange"/m

/** A request to this route tries all keys of a provider, one after the other. */
const AGAIN = '/again/v1/chat/completions'
const FRONTS = ['/v1/chat/completions', AGAIN, '/v1/messages', '/v1/responses', '/raw/', '/form/'] as const
type Front = (typeof FRONTS)[number]
const ASKS_MODEL = FRONTS.filter(front => front.includes('/v1'))

const AT_ONCE = 16
/** In an ordinary run: one of this many behaviours per provider. */
const SHARE = 7

describe('every dialect', () => {
  let provider: FakeProvider
  let running: Running
  let dir: string
  const { faults, connector } = faultyConnector()
  let token: Canary
  const seen = { log: '', answers: '' }

  beforeAll(async () => {
    provider = await startFakeProvider({ script: behaviourOf })
    dir = await temporaryDirectory()
    running = await serve({
      configFile: await writeConfiguration(dir, {
        yaml: configuration(provider.url),
        policies: {
          test: { steps: FIVE_STEPS },
          again: { steps: STEPS_AGAIN },
          raw: { steps: [{ use: 'api-key' }, { use: 'credits' }] },
        },
      }),
      // The lowest level: higher ones only omit lines.
      env: { ...env, LOG_LEVEL: LOG_LEVELS[0]! },
      signals: false,
      stdout: text => {
        seen.log += text
      },
      open: options => openStore({ ...options, connector }),
    })
    const account = await running.store.createAccount({ name: 'test' })
    await running.store.credit({ account: account.id, amount: parseMoney('1000'), reference: 'start', actor: 'test' })
    const key = await running.store.createKey({ account: account.id, name: 'key' })
    token = { name: 'key of a client', value: key.token, home: null }
  })
  afterAll(async () => {
    provider.release()
    running.drain()
    running.drain()
    await running.finished
    await provider.close()
  })

  test('each secret of each dialect is where it belongs, and nowhere else', async () => {
    await askAll()
    await misuse()
    const whileHeld = await filesOfADeadProcess()
    const metrics = await (await fetch(`${running.adminUrl}/metrics`)).text()
    running.drain()
    expect(await running.finished).toBe(0)

    const host: Canary = { name: 'address of the provider', value: new URL(provider.url).host, home: 'upstream' }
    const signatures = signaturesOf(provider)
    const canaries = [
      ...ENTRIES.flatMap(each => each.canaries),
      ...[...PLACES, ...PROMPTS, ...WRONG, ...signatures, token],
      { ...host, also: ['log', 'files'] } satisfies Canary,
    ]
    const places: Record<Place, string> = {
      ...seen,
      metrics,
      files: `${whileHeld}\n${filesOf(dir)}`,
      upstream: upstreamOf(provider),
      commands: '',
    }
    // The searched secrets had their chances to appear.
    expect(signatures.length).toBeGreaterThan(20)
    for (const mark of ['[secret]', '[hidden]', '[address]']) expect(seen.answers).toContain(mark)
    expect(seen.log).toContain('the provider refuses this credential')
    expect(misplaced(canaries, places)).toEqual([])
    console.log(
      `${canaries.length} secrets, ${signatures.length} of them signatures; ` +
        `${provider.requests.length} requests to the provider; searched ` +
        Object.entries(places)
          .map(([place, text]) => `${place} ${Math.ceil(text.length / 1024)} KiB`)
          .join(', '),
    )
  })

  /** Every behaviour at every provider, each in one of the request formats; in a full run in all of them. */
  async function askAll(): Promise<void> {
    const asks = ENTRIES.flatMap((each, place) =>
      WISHES.flatMap((_, wish) => {
        if (!full && (wish + place) % SHARE !== seed % SHARE) return []
        const { status } = WISHES[wish]!
        const fronts = status === 401 || status === 403 || full ? FRONTS : FRONTS.filter(front => front !== AGAIN)
        const ways = full ? FRONTS : [fronts[(wish + place) % fronts.length]!]
        const stream = Math.floor((wish + place) / FRONTS.length) % 2 === 0
        return ways
          .filter(front => isOurs(front, each, wish, stream))
          .map(front => ({ entry: each, wish, front, stream }))
      }),
    )
    const work = async () => {
      for (let one = asks.pop(); one; one = asks.pop()) await ask(one.entry, one.front, one.stream, one.wish)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
  }

  async function ask({ name }: ProviderEntry, front: Front, stream: boolean, wish: number | string): Promise<void> {
    const prompt = PROMPTS[(typeof wish === 'number' ? wish : 0) % PROMPTS.length]!.value
    const words = `${prompt} wish-${wish}-${stream ? 'stream' : 'whole'}`
    const answer = await send(
      ASKS_MODEL.includes(front) ? front : `${front}${name}/x`,
      bodyOf(front, name, words, stream),
      front === '/v1/messages' ? { 'x-api-key': token.value } : { authorization: `Bearer ${token.value}` },
    )
    const id = answer.headers.get('x-request-id')
    await note(await fetch(`${running.url}/v1/receipts/${id}`, { headers: { authorization: `Bearer ${token.value}` } }))
  }

  /** The disk during answers, with charges in the spool that could not be written. */
  async function filesOfADeadProcess(): Promise<string> {
    const before = provider.requests.length
    const held = ENTRIES.slice(0, 4).map(each => ask(each, '/v1/chat/completions', true, HELD))
    await provider.waitForRequest(before + held.length - 1)
    if (full) faults.before = 1_000_000
    let files = filesOf(dir)
    provider.release()
    if (full) {
      for (let tries = 0; !SPOOLED.test(files) && tries < 300; tries++) {
        await new Promise(resolve => setTimeout(resolve, 50))
        files = filesOf(dir)
      }
      expect(files).toMatch(SPOOLED)
      faults.before = 0
    }
    await Promise.all(held)
    return files
  }

  /** Mistakes of clients of the other formats. */
  async function misuse(): Promise<void> {
    const [apiKey, bearer, query, beta, version, cookie, field] = WRONG.map(({ value }) => value)
    const good = { model: 'openai', max_tokens: 10, messages: [{ role: 'user', content: 'Hello wish-0-whole' }] }
    const own = { 'x-api-key': token.value }
    const asks: [path: string, body: unknown, headers: Record<string, string>][] = [
      ['/v1/messages', good, { 'x-api-key': apiKey! }],
      ['/v1/messages', good, { 'x-api-key': `tg_live_${apiKey}` }],
      ['/v1/messages', good, { 'x-api-key': `${token.value}x` }],
      ['/v1/messages', good, { ...own, authorization: `Bearer ${bearer}` }],
      ['/v1/messages', good, { 'x-api-key': `${token.value}, ${apiKey}` }],
      ['/v1/messages', `{"model":"openai","max_tokens":"${field}`, own],
      ['/v1/messages', { ...good, max_tokens: field }, own],
      ['/v1/messages', { ...good, model: 'unknown', system: { text: field } }, own],
      ['/v1/messages', { ...good, messages: [{ role: 'user', content: [{ type: 'image', source: field }] }] }, own],
      ['/v1/messages', { ...good, tools: [{ name: { first: field } }] }, own],
      ['/v1/messages', { ...good, metadata: { user_id: [field] } }, own],
      [`/v1/messages?beta=${query}`, good, own],
      [`/v1/messages/count_tokens?api_key=${query}`, good, own],
      ['/v1/messages', good, { ...own, 'anthropic-beta': beta!, 'anthropic-version': version! }],
      ['/v1/messages', good, { ...own, cookie: `session=${cookie}` }],
      ['/v1/responses', good, { 'x-api-key': apiKey! }],
      ['/v1/responses', { model: 'openai', input: { text: field } }, { authorization: `Bearer ${token.value}` }],
      ['/v1/responses', { model: 'openai', input: 'x', previous_response_id: field }, { authorization: token.value }],
      ['/v1/responses', `{"input":"${field}`, { authorization: `Bearer ${token.value}` }],
      [`/raw/openai/x?key=${'x'}`, good, { authorization: `Bearer ${bearer}`, 'x-api-key': apiKey! }],
    ]
    for (const [path, body, headers] of asks) await send(path, body, headers)
  }

  async function send(path: string, body: unknown, headers: Record<string, string>): Promise<Response> {
    const isForm = body instanceof FormData
    const answer = await fetch(running.url + path, {
      method: 'POST',
      headers: isForm ? headers : { 'content-type': 'application/json', ...headers },
      body: isForm || typeof body === 'string' ? body : JSON.stringify(body),
    })
    await note(answer)
    return answer
  }

  async function note(answer: Response): Promise<void> {
    const text = await answer.text().catch(() => '')
    seen.answers += `${answer.status} ${[...answer.headers].flat().join(' ')}\n${text}\n`
  }
})

/** A raw route passes status 200 unchanged, except for events that OpenAI's or Anthropic's clients read as an error. */
function isOurs(front: Front, { voice }: ProviderEntry, wish: number, stream: boolean): boolean {
  if (ASKS_MODEL.includes(front) || WISHES[wish]!.how !== 'inside') return true
  return stream && voice.framing === 'sse' && 'error' in voice.error(500).body
}

/** The same question in the format of each route. */
function bodyOf(front: Front, model: string, words: string, stream: boolean): object {
  const messages = [{ role: 'user', content: words }]
  switch (front) {
    case '/v1/chat/completions':
    case AGAIN:
      return { model, stream, messages }
    case '/v1/messages':
      return { model, stream, messages, max_tokens: 20 }
    case '/v1/responses':
      return { model, stream, input: words }
    case '/raw/':
      return { model, input: words }
    case '/form/': {
      const form = new FormData()
      form.set('model', model)
      form.set('file', new Blob([words], { type: 'text/plain' }), 'a.txt')
      return form
    }
  }
}

/** A signature is for one request; its holder could send that request again. */
function signaturesOf({ requests }: FakeProvider): Canary[] {
  return requests.flatMap(({ headers, index }) => {
    const value = /Signature=([0-9a-f]{64})$/.exec(headers['authorization'] ?? '')?.[1]
    return value === undefined ? [] : [{ name: `signature of request ${index}`, value, home: 'upstream' as const }]
  })
}

/** The behaviour that the message requests. */
function behaviourOf(request: ProviderRequest): Behaviour {
  const name = /^\/([^/]+)/.exec(request.path)![1]!
  const { voice } = ENTRIES.find(each => each.name === name)!
  const [, wish, mode] = /wish-(\w+)-(stream|whole)/.exec(request.raw.toString('utf8')) ?? []
  if (wish === undefined) return speak(voice, 'whole')
  if (wish === HELD) return heldBehind(speak(voice, 'stream'))
  return leak(WISHES[Number(wish)]!, voice, mode as FaultMode)
}

function heldBehind(then: Behaviour): Behaviour {
  return {
    name: 'held',
    run: async call => void ((await call.step(async () => {})) && (await then.run(call))),
  }
}

function leak({ says, how, status }: { says: string; how: Way[0]; status: number }, voice: Voice, mode: FaultMode) {
  return {
    name: `blabs with ${status}`,
    async run(call: Call) {
      const { message, header } = saidTo(call, says)
      // Only characters that a header may have.
      const leaky = { 'x-debug-key': header, 'www-authenticate': `Bearer realm="${header}"`, server: header }
      if (how === 'plain') {
        call.head(status, { 'content-type': 'text/plain', ...leaky })
        return call.end(message)
      }
      const error = voice.error(status, message)
      if (how === 'answer') {
        call.head(status, { 'content-type': 'application/json', ...error.headers, ...leaky })
        return call.end(JSON.stringify(withKey(error.body, header)))
      }
      call.head(200, { 'content-type': voice.types[mode], ...leaky })
      if (mode === 'whole') return call.end(JSON.stringify(withKey(insideOf(voice, status, message), header)))
      const said = voice.stream({}, call.request)
      const first = said.findIndex(({ kind }) => kind === 'token')
      for (const { bytes } of status === 500 ? said.slice(0, first + 1) : []) await call.write(bytes)
      await call.write(voice.errorEvent(status, message))
      await call.end()
    },
  }
}

/** In the fields that are not for people. */
function withKey(body: object, param: string): object {
  const { error } = body as { error?: unknown }
  return typeof error === 'object' && error !== null ? { ...body, error: { ...error, param } } : { ...body, param }
}

function saidTo({ request, url }: Call, says: string): { readonly message: string; readonly header: string } {
  const { headers } = request
  const auth = headers['authorization'] ?? headers['x-api-key'] ?? headers['x-goog-api-key'] ?? headers['api-key'] ?? ''
  const signature = /Signature=(\w+)/.exec(auth)?.[1] ?? 'none'
  const key = /Credential=(\w+)/.exec(auth)?.[1] ?? auth.replace('Bearer ', '')
  const words: Readonly<Record<string, string>> = {
    KEY: key,
    AUTH: auth,
    HEADER: headers['x-team'] ?? 'none',
    HEADERS: JSON.stringify(headers),
    BODY: request.raw.toString('utf8'),
    PATH: request.path.replace(/^\/[^/]+/, ''),
    HOST: new URL(url).host,
    TOKEN: headers['x-amz-security-token'] ?? 'none',
    SIGNATURE: signature,
  }
  const message = says.replace(/\b[A-Z]{3,}\b/g, word => words[word] ?? word)
  return { message, header: signature === 'none' ? key : signature }
}

const STEPS_AGAIN = FIVE_STEPS.map(step =>
  (step as { use: string }).use === 'route' ? { use: 'route', with: { attempts: 3 } } : step,
)

/** A provider, a model of the same name and two raw routes for each endpoint. */
function configuration(url: string): object {
  const raw = { kind: 'raw', policy: 'raw', price: 'free', upstream_path: '/' }
  return {
    version: 1,
    listen: '127.0.0.1:0',
    admin: '127.0.0.1:0',
    store: `sqlite:${join('.', 'data', 'tollgate.db')}`,
    providers: Object.fromEntries(
      ENTRIES.map(({ name, voice, base, who }) => [
        name,
        { dialect: voice.dialect, base_url: `${url}/${name}${base}`, ...who },
      ]),
    ),
    models: Object.fromEntries(
      ENTRIES.map(({ name }) => [
        name,
        { targets: [{ provider: name, model: 'claude-upstream-model' }], price: PRICE, context: 8192, max_output: 64 },
      ]),
    ),
    routes: [
      ...ASKS_MODEL.map(path => ({ path, policy: path === AGAIN ? 'again' : 'test' })),
      ...ENTRIES.flatMap(({ name }) =>
        ['raw', 'form'].map(kind => ({ ...raw, path: `/${kind}/${name}/{id}`, provider: name })),
      ),
    ],
  }
}
