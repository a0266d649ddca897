/**
 * Forty secrets, and every way in which a request can fail. Then all output is searched: the log, the clients' data, /metrics,
 * the files beside the database, the output of commands, the providers' data. Each secret is found in its only place, and in no
 * other.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseMoney } from '#contract'
import { type Running, serve } from '../../src/main.ts'
import { LOG_LEVELS } from '../../src/observe/log.ts'
import { isFull } from '../helpers/counts.ts'
import {
  type Behaviour,
  exact,
  FAULTS,
  type FakeProvider,
  type FaultMode,
  type ProviderRequest,
  sse,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { temporaryDirectory, tollgate, writeConfiguration } from '../helpers/gateway.ts'
import { FIVE_STEPS, PRICE } from '../helpers/in-process.ts'
import { openRaw } from '../helpers/raw-client.ts'
import { type Canary, createCanaries, filesOf, misplaced, type Place, upstreamOf } from './canaries.ts'

const full = isFull('clients')

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
console.log(`secrets: SEED=${seed}`)
const make = createCanaries(seed)
const several = (count: number, of: (index: number) => Canary) => Array.from({ length: count }, (_, index) => of(index))

/** The prefixes of keys of providers; some have none. */
const LOOKS = ['sk-', 'sk-proj-', 'gsk_', 'xai-', 'AIzaSy', '', '', 'hf_']
const PROVIDER_KEYS = several(8, index => make(`key of provider ${index}`, 'upstream', LOOKS[index]))
const HEADERS = several(4, index => make(`header of provider ${index}`, 'upstream', '', 24))
const UNUSED_KEY = make('key of a provider that is away', null, 'sk-')
const HMAC = make('secret of the digests', null, '', 48)
const STRANGER = make('variable of another program', null, 'postgres://u:')
const PROMPTS = several(8, index => make(`prompt ${index}`, 'upstream', 'keep secret '))
const CONTENT = several(3, index => make(`content of an answer ${index}`, 'answers', 'between us '))
const SAID = several(4, index => make(`what a provider lets slip ${index}`, null, ['sk-', 'tok', 'gsk_', ''][index]))
const REQUEST = {
  query: make('password in the query', null),
  cookie: make('cookie', null),
  proxy: make('proxy credentials', null),
  header: make('header x-api-key', null),
  wrongKey: make('key of another service', null, 'sk-'),
  halfKey: make('key that is mistyped', null, 'tg_live_'),
  wrongField: make('text where a number belongs', null, '', 32),
}

const FAULT_TIMEOUTS = { connect: '500ms', first_byte: '400ms', idle: '400ms', total: '1500ms' }
const AT_ONCE = 16
const COMMANDS = [['account', 'list'], ['account', 'show', 'test'], ['key', 'list', '--account', 'test'], ['check']]

// A higher level only omits lines, so the lowest has the lines of all.
describe.each(full ? LOG_LEVELS : (['info'] as const))('with the log level %s', level => {
  let provider: FakeProvider
  let running: Running
  let dir: string
  let config: string
  const env: Record<string, string> = { LOG_LEVEL: level, DATABASE_URL: STRANGER.value, TOLLGATE_SECRET: HMAC.value }
  const seen: Record<'log' | 'answers' | 'commands', string> = { log: '', answers: '', commands: '' }
  const tokens: Canary[] = []

  beforeAll(async () => {
    provider = await startFakeProvider({ script: behaviourOf })
    dir = await temporaryDirectory()
    config = await writeConfiguration(dir, {
      yaml: configuration(provider.url, env),
      policies: { test: { steps: FIVE_STEPS } },
    })
    running = await serve({
      configFile: config,
      env,
      signals: false,
      stdout: text => {
        seen.log += text
      },
    })
    const account = await running.store.createAccount({ name: 'test' })
    await running.store.credit({ account: account.id, amount: parseMoney('1000'), reference: 'start', actor: 'test' })
    for (let index = 0; index < 4; index++) {
      const { token } = await running.store.createKey({ account: account.id, name: `key ${index}` })
      tokens.push({ name: `key of a client ${index}`, value: token, home: null })
    }
  })
  afterAll(async () => {
    running.drain()
    running.drain()
    await running.finished
    await provider.close()
  })

  test('each of 40 secrets is where it belongs, and nowhere else', async () => {
    await askAll()
    await misuse()
    await Promise.all(COMMANDS.map(command))
    const metrics = await (await fetch(`${running.adminUrl}/metrics`)).text()
    // The database's own log is removed when it is closed.
    const open = filesOf(dir)
    running.drain()
    expect(await running.finished).toBe(0)

    const places: Record<Place, string> = {
      ...seen,
      metrics,
      files: open + filesOf(dir),
      upstream: upstreamOf(provider),
    }
    expect(Object.entries(places).filter(([place, text]) => text.length < 500 && place !== 'log')).toEqual([])
    const canaries = [
      ...[...PROVIDER_KEYS, ...HEADERS, UNUSED_KEY, HMAC, STRANGER, ...PROMPTS, ...CONTENT, ...SAID],
      ...[...Object.values(REQUEST), ...tokens],
    ]
    expect(canaries.length).toBeGreaterThanOrEqual(40)
    expect(misplaced(canaries, places)).toEqual([])
    console.log(
      `level ${level}: ${canaries.length} secrets, ${provider.requests.length} requests to the provider; searched ` +
        Object.entries(places)
          .map(([place, text]) => `${place} ${Math.ceil(text.length / 1024)} KiB`)
          .join(', '),
    )
  })

  async function command(args: readonly string[]): Promise<void> {
    const { stdout, stderr } = await tollgate([...args, ...(args[0] === 'check' ? [] : ['--json'])], { config, env })
    expect(stderr).toBe('')
    seen.commands += stdout
  }

  /** Every fault, whole and streamed, and every way in which a provider leaks what it knows. */
  async function askAll(): Promise<void> {
    const wishes = [
      ...FAULTS.map((_, index) => `fault ${index}`),
      ...LEAKS.map((_, index) => `leak ${index}`),
      ...Array.from(PROVIDER_KEYS, () => 'fine 0'),
    ]
    const asks = wishes.flatMap((wish, index) =>
      [true, false].map(stream => ({ model: `m${index % PROVIDER_KEYS.length}`, wish, stream, index })),
    )
    const away = [true, false].map((stream, index) => ({ model: 'away', wish: 'fine 0', stream, index }))
    const work = async () => {
      for (let one = asks.pop() ?? away.pop(); one; one = asks.pop() ?? away.pop()) await ask(one)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
  }

  async function ask({ model, wish, stream, index }: { model: string; wish: string; stream: boolean; index: number }) {
    const prompt = PROMPTS[index % PROMPTS.length]!.value
    const body = { model, stream, user: wish, messages: messagesWith(prompt, index) }
    const answer = await send(body, { authorization: `Bearer ${tokens[index % tokens.length]!.value}` })
    const id = answer?.headers.get('x-request-id')
    // The receipt of the failed request.
    if (id) await look(`/v1/receipts/${id}`, tokens[index % tokens.length]!.value)
  }

  /** Mistakes of clients. */
  async function misuse(): Promise<void> {
    const bearer = { authorization: `Bearer ${tokens[0]!.value}` }
    const good = { model: 'm0', user: 'fine 0', messages: messagesWith(PROMPTS[0]!.value, 0) }
    await send(good, { ...bearer, cookie: `session=${REQUEST.cookie.value}`, 'x-api-key': REQUEST.header.value })
    await send(good, { ...bearer, 'proxy-authorization': `Basic ${REQUEST.proxy.value}` })
    await send(good, { ...bearer, authorization: `Bearer ${REQUEST.wrongKey.value}` })
    await send(good, { ...bearer, authorization: `Bearer ${REQUEST.halfKey.value}` })
    await send(good, { ...bearer, authorization: `${REQUEST.wrongKey.value}` })
    await send(good, bearer, `/v1/chat/completions?api_key=${REQUEST.query.value}`)
    await send(good, bearer, `/v1/nothing/here?token=${REQUEST.query.value}`)
    await look(`/v1/models?password=${REQUEST.query.value}`, tokens[1]!.value)
    for (const messages of [
      [{ role: 'user', content: { text: PROMPTS[1]!.value } }],
      [{ role: 'user', content: 'x', name: { first: PROMPTS[2]!.value } }],
      PROMPTS[3]!.value,
    ]) {
      await send({ ...good, messages }, bearer)
    }
    await send({ ...good, model: 'unknown', metadata: { note: REQUEST.wrongField.value } }, bearer)
    await send(`{"model":"m0","messages":[{"role":"user","content":"${PROMPTS[4]!.value}"`, bearer)
    const raw = await openRaw(running.url)
    await raw.send(
      `GET /v1/models?key=${REQUEST.query.value} HTTP/1.1\r\nAuthorization: Bearer ${tokens[2]!.value}\r\nbad header\r\n\r\n`,
    )
    seen.answers += (await raw.readToEnd()).toString('latin1')
  }

  async function send(
    body: unknown,
    headers: Record<string, string>,
    path = '/v1/chat/completions',
  ): Promise<Response | null> {
    const answer = await fetch(running.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    await note(answer)
    return answer
  }

  async function look(path: string, token: string): Promise<void> {
    await note(await fetch(running.url + path, { headers: { authorization: `Bearer ${token}` } }))
  }

  async function note(answer: Response): Promise<void> {
    const text = await answer.text().catch(() => '')
    seen.answers += `${answer.status} ${[...answer.headers].flat().join(' ')}\n${text}\n`
  }
})

/** The prompt in one of its possible places. */
function messagesWith(prompt: string, index: number): object[] {
  const user = { role: 'user', content: 'Hello' }
  const places = [
    [{ role: 'user', content: prompt }],
    [{ role: 'system', content: prompt }, user],
    [{ role: 'user', content: [{ type: 'text', text: prompt }] }],
    [user, { role: 'assistant', content: prompt }, user],
  ]
  return places[index % places.length]!
}

/** The behaviour that the message requests. */
function behaviourOf(request: ProviderRequest): Behaviour {
  const [kind, index] = String(request.body?.['user']).split(' ')
  const mode: FaultMode = request.body?.['stream'] === true ? 'stream' : 'whole'
  if (kind === 'fault') return FAULTS[Number(index)]!.make(mode)
  if (kind === 'leak') return leak(LEAKS[Number(index)]!, mode)
  return exact({ tokens: CONTENT.map(({ value }) => `${value} `) })
}

interface Leak {
  readonly status: number
  /** Its text; `KEY` and `HEADER` are replaced by what it received. */
  readonly says: string
}

/** A provider that repeats what it received, or its own secrets, in texts for people. */
const SENTENCES = [
  'Incorrect API key provided: KEY. You can find your key at https://platform.example.com.',
  'Authorization "Bearer KEY" is not valid for x-team HEADER',
  `upstream https://admin:${SAID[0]!.value}@10.1.2.3:8000/v1?key=${SAID[1]!.value} failed`,
  `could not connect with token=${SAID[2]!.value} password=${SAID[3]!.value}`,
]
const LEAKS: readonly Leak[] = [200, 400, 401, 403, 404, 413, 422, 429, 500, 503].flatMap(status =>
  SENTENCES.map(says => ({ status, says })),
)

function leak({ status, says }: Leak, mode: FaultMode): Behaviour {
  return {
    name: `blabs with ${status}`,
    async run(call) {
      const { headers } = call.request
      const key = headers['authorization']?.replace('Bearer ', '') ?? ''
      const message = says.replaceAll('KEY', key).replaceAll('HEADER', headers['x-team'] ?? 'none')
      const error = { error: { message, type: 'invalid_request_error', param: key, code: key } }
      const isStream = mode === 'stream' && status === 200
      call.head(status, {
        'content-type': isStream ? 'text/event-stream' : 'application/json',
        'x-debug-key': key,
        'set-cookie': `upstream=${SAID[3]!.value}`,
        'openai-organization': SAID[2]!.value,
      })
      await call.end(isStream ? `event: error\n${sse(error)}` : JSON.stringify(error))
    },
  }
}

/** Providers at one address, each with its own key; some also have a secret header. Adds the keys to the environment. */
function configuration(url: string, env: Record<string, string>): object {
  const providers: Record<string, object> = {}
  for (const [index, { value }] of PROVIDER_KEYS.entries()) {
    env[`KEY_${index}`] = value
    const header = HEADERS[index]
    if (header) env[`HEADER_${index}`] = header.value
    providers[`p${index}`] = {
      dialect: 'openai',
      base_url: `${url}/p${index}/v1`,
      api_key: `\${KEY_${index}}`,
      ...(header ? { headers: { 'x-team': `\${HEADER_${index}}` } } : {}),
      timeouts: FAULT_TIMEOUTS,
    }
  }
  env['KEY_AWAY'] = UNUSED_KEY.value
  // A port that the kernel assigns to no process.
  providers['away'] = { dialect: 'openai', base_url: 'http://127.0.0.1:1', api_key: '${KEY_AWAY}' }
  const model = (provider: string) => ({
    targets: [{ provider, model: 'upstream-model' }],
    price: PRICE,
    context: 8192,
    max_output: 64,
  })
  const names = Object.keys(providers)
  return {
    version: 1,
    listen: '127.0.0.1:0',
    admin: '127.0.0.1:0',
    store: 'sqlite:./data/tollgate.db',
    secret: '${TOLLGATE_SECRET}',
    providers,
    models: Object.fromEntries(names.map(name => [name.replace('p', 'm'), model(name)])),
    routes: [{ path: '/v1/chat/completions', policy: 'test' }],
  }
}
