/** The official OpenAI library for Python, pointed at the gateway. client.py runs it; this file checks its output. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { definePlugin } from '#contract'
import { isFull } from '../helpers/counts.ts'
import {
  type Behaviour,
  errorAnswer,
  exact,
  FAULTS,
  type FakeProvider,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { ROOT } from '../helpers/repository.ts'
import { findPython, type Python } from './python.ts'
import { modelAt, providersWith } from './rig.system.ts'

/** Far longer than all cases take. */
const RUN_MAX_MS = 60_000

interface Row {
  readonly name: string
  readonly request?: object
  /** The key: of an account with credit, with almost none, or frozen; or this text. */
  readonly key?: 'poor' | 'frozen' | 'nonsense'
  readonly policy?: 'hourly' | 'faulty'
  /** The provider's behaviour. */
  readonly provider?: Behaviour
  readonly raises: string
  readonly status: number
  readonly code: string
  readonly param?: string
  /** The number of requests at the gateway, of the three that the library makes at most. */
  readonly tries: number
  /** The number of requests at the provider. */
  readonly sent: number
}

/** A short wait of the provider, to avoid the library's own. */
const SOON = { 'retry-after-ms': '20' }

const ROWS: readonly Row[] = [
  {
    name: 'a parameter of the wrong type',
    request: { temperature: 'hot' },
    raises: 'BadRequestError',
    status: 400,
    code: 'invalid_type',
    param: 'temperature',
    tries: 1,
    sent: 0,
  },
  {
    name: 'an unknown parameter',
    request: { extra_body: { temprature: 1 } },
    raises: 'BadRequestError',
    status: 400,
    code: 'unknown_parameter',
    param: 'temprature',
    tries: 1,
    sent: 0,
  },
  {
    name: 'a malformed key',
    key: 'nonsense',
    raises: 'AuthenticationError',
    status: 401,
    code: 'malformed_api_key',
    tries: 1,
    sent: 0,
  },
  {
    name: 'too little credit',
    key: 'poor',
    raises: 'APIStatusError',
    status: 402,
    code: 'insufficient_quota',
    tries: 1,
    sent: 0,
  },
  {
    name: 'a frozen account',
    key: 'frozen',
    raises: 'PermissionDeniedError',
    status: 403,
    code: 'account_frozen',
    tries: 1,
    sent: 0,
  },
  {
    name: 'a model that does not exist',
    request: { model: 'nothing' },
    raises: 'NotFoundError',
    status: 404,
    code: 'model_not_found',
    param: 'model',
    tries: 1,
    sent: 0,
  },
  {
    name: 'a limit that ends in an hour',
    policy: 'hourly',
    raises: 'RateLimitError',
    status: 429,
    code: 'rate_limit_exceeded',
    tries: 1,
    sent: 0,
  },
  {
    name: 'a provider that limits, for 20 ms',
    provider: errorAnswer(429, undefined, SOON),
    raises: 'RateLimitError',
    status: 429,
    code: 'upstream_rate_limited',
    tries: 3,
    sent: 3,
  },
  {
    name: 'a provider that limits, for 90 s',
    provider: errorAnswer(429, undefined, { 'retry-after': '90' }),
    raises: 'RateLimitError',
    status: 429,
    code: 'upstream_rate_limited',
    tries: 1,
    sent: 1,
  },
  {
    name: 'a provider that refuses the request',
    provider: errorAnswer(400),
    raises: 'BadRequestError',
    status: 400,
    code: 'upstream_rejected',
    tries: 1,
    sent: 1,
  },
  {
    name: 'a provider that refuses the gateway',
    provider: errorAnswer(401),
    raises: 'InternalServerError',
    status: 502,
    code: 'upstream_auth',
    tries: 1,
    sent: 1,
  },
  {
    name: 'a provider without quota',
    provider: errorAnswer(402),
    raises: 'InternalServerError',
    status: 502,
    code: 'upstream_quota',
    tries: 1,
    sent: 1,
  },
  {
    name: 'a provider that fails',
    provider: errorAnswer(500, undefined, SOON),
    raises: 'InternalServerError',
    status: 502,
    code: 'upstream_error',
    tries: 3,
    sent: 3,
  },
  {
    name: 'a provider that is overloaded',
    provider: errorAnswer(503, undefined, SOON),
    raises: 'InternalServerError',
    status: 503,
    code: 'upstream_overloaded',
    tries: 3,
    sent: 3,
  },
  {
    name: 'a provider that is late',
    provider: errorAnswer(504),
    raises: 'InternalServerError',
    status: 504,
    code: 'upstream_timeout',
    tries: 3,
    sent: 3,
  },
  {
    name: 'a step with a bug',
    policy: 'faulty',
    raises: 'InternalServerError',
    status: 500,
    code: 'plugin_error',
    tries: 1,
    sent: 0,
  },
]

const fault = (title: string): Behaviour => FAULTS.find(each => each.title === title)!.make('stream')

/** The provider's behaviour for the models that are not rows. */
const PROVIDERS: Readonly<Record<string, Behaviour | Behaviour[]>> = {
  m: exact(),
  'fails-twice': [errorAnswer(503, undefined, SOON), errorAnswer(429, undefined, SOON), exact()],
  breaks: fault('reset in the middle'),
  stops: fault('silence in the middle'),
  silent: fault('silence before the head'),
}

const faulty = definePlugin({
  name: 'faulty',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async () => {
    throw new Error('a mistake of this step')
  },
})

const python = await findPython(isFull('clients'))

if ('missing' in python) test('the client in Python', context => context.skip(python.missing))
else describe(`openai ${python.version} for Python`, () => proofs(python))

type Answer = Record<string, unknown>

function proofs(python: Python): void {
  let provider: FakeProvider
  let gateway: InProcess
  let answers: ReadonlyMap<string, Answer>

  beforeAll(async () => {
    provider = await startProvider()
    gateway = await start(provider)
    answers = await run(python, gateway)
  })
  afterAll(async () => {
    await gateway?.stop()
    await provider?.close()
  })

  /** The library's result for a case. */
  const of = (name: string): Answer => {
    const { case: _case, ...answer } = answers.get(name) ?? { crashed: 'not there' }
    expect(answer).not.toHaveProperty('crashed')
    return answer
  }
  const charged = async (id: unknown) => {
    await gateway.exchangeLine(String(id))
    return gateway.running.store.reads.findReceipt(String(id))?.charged
  }
  const sentTo = (model: string) => provider.requests.filter(({ body }) => body?.['model'] === model)

  test('a whole answer: the text, the id of the request, the usage that was charged', async () => {
    const answer = of('whole')
    expect(answer).toMatchObject({ text: 'one two three', finish: 'stop', model: 'demo' })
    expect(answer['request_id']).toMatch(/^req_/)
    expect(await charged(answer['request_id'])).toBe(bill(answer['usage']))
  })

  test('with_raw_response has the headers', async () => {
    const { headers, usage, ...answer } = of('raw_response') as Answer & { headers: Record<string, string> }
    expect(answer).toMatchObject({ status: 200, retries: 0, text: 'one two three' })
    expect(headers['x-request-id']).toBe(answer['request_id'])
    expect(headers['x-tollgate-cost']).toBe(`0.${String(bill(usage)).padStart(9, '0')}`)
    expect(headers['x-ratelimit-remaining-requests']).toMatch(/^\d+$/)
  })

  test('choices and a cap', () => {
    expect(of('choices')).toEqual({ indexes: [0, 1] })
    expect(of('cap')).toEqual({ finish: 'length', tokens: 5 })
  })

  test('a stream, with the usage on request', async () => {
    const plain = of('stream')
    expect(plain).toMatchObject({ text: expect.stringMatching(/^1, 2, 3,.* 20\.$/), finish: 'stop', usages: [] })
    expect(plain['pieces']).toBeGreaterThan(10)
    const { usages, request_id, ...asked } = of('stream_with_usage') as Answer & { usages: unknown[] }
    expect(asked).toMatchObject({ text: 'one two three', finish: 'stop' })
    expect(usages).toHaveLength(1)
    expect(await charged(request_id)).toBe(bill(usages[0]))
  })

  test('the helper with its events', () => {
    const { counts, text } = of('stream_helper') as Answer & { counts: Record<string, number> }
    expect(text).toBe('one two three')
    expect(counts).toMatchObject({ 'content.done': 1 })
    expect(counts['content.delta']).toBeGreaterThan(2)
  })

  test('tools: a call, its result sent back, and the answer', () => {
    const call = { name: 'get_weather', arguments: { city: 'Paris' } }
    expect(of('tools')).toEqual({
      finish: 'tool_calls',
      ...call,
      text: expect.stringContaining('get_weather returned: {"sky":"clear"}'),
    })
    expect(of('tools_streamed')).toEqual({ ...call, pieces: expect.any(Number) })
    expect(of('tools_streamed')['pieces']).toBeGreaterThan(1)
  })

  test('parse returns an object of the class, whole and streamed', () => {
    expect(of('parsed')).toEqual({ is: 'Film' })
    expect(of('parsed_streamed')).toEqual({ is: 'Film' })
  })

  test('models', () => {
    const { ids, one } = of('models') as { ids: string[]; one: string }
    expect(ids).toEqual(expect.arrayContaining(['demo', 'm']))
    expect(one).toBe('demo')
  })

  test('the asynchronous client', () => {
    expect(of('asynchronous')).toMatchObject({
      text: 'one two three',
      streamed: 'one two three',
      is: 'NotFoundError',
      code: 'model_not_found',
    })
  })

  test('a request that fails twice succeeds on the third attempt, after the demanded waits', () => {
    const { seconds, ...answer } = of('in_three_tries')
    expect(answer).toEqual({ text: 't0 t1 t2', retries: 2 })
    expect(sentTo('fails-twice')).toHaveLength(3)
    expect(seconds).toBeGreaterThanOrEqual(0.04)
    // The library's own waits would be at least 0.375 and then 0.75 s.
    expect(seconds).toBeLessThan(1.125)
  })

  describe.each(['false', 'true'])('errors (stream %s)', stream => {
    test.each(ROWS)('$name: $raises, $status $code, $tries requests', async row => {
      const error = of(`${row.name} (stream ${stream})`)
      expect(error).toMatchObject({
        is: row.raises,
        status: row.status,
        code: row.code,
        param: row.param ?? null,
        type: expect.stringMatching(/^[a-z_]+$/),
        request_id: expect.stringMatching(/^req_/),
      })
      expect(error['bases']).toContain('APIStatusError')
      expect(error['message']).not.toMatch(/hunter2|provider\.internal|faulty/)
      await gateway.exchangeLine(String(error['request_id']))
      const route = `${prefixOf(row, stream)}/chat/completions`
      expect(gateway.log.filter(line => line['msg'] === 'exchange' && line['route'] === route)).toHaveLength(row.tries)
      // Whole and streamed requests used the same model.
      expect(sentTo(row.provider ? row.name : 'm')).toHaveLength(2 * row.sent)
    })
  })

  test('an error in the middle of a stream raises once, after the earlier chunks', () => {
    expect(of('broken_stream')).toMatchObject({
      text: 't0 t1',
      is: 'APIError',
      status: null,
      code: 'upstream_truncated',
      type: 'server_error',
    })
    expect(sentTo('breaks')).toHaveLength(1)
  })

  test.each([
    ['closed_stream', 'stops', { text: 't0' }],
    ['impatient', 'silent', { is: 'APITimeoutError' }],
  ])('%s: a client that disconnects closes the connection to the provider', async (name, model, answer) => {
    expect(of(name)).toEqual(answer)
    const [request, ...more] = sentTo(model)
    expect(more).toEqual([])
    expect((await provider.waitForClose(request!)).how).not.toBe('answered')
  })

  test('no credit stays held', async () => {
    await gateway.waitForLog(line => line['model'] === 'silent' && line['msg'] === 'exchange')
    await gateway.waitForLog(line => line['model'] === 'stops' && line['msg'] === 'exchange')
    expect(gateway.balance().held).toBe(0n)
  })
}

/** A provider whose behaviour depends on the name of the model. */
async function startProvider(): Promise<FakeProvider> {
  const rows = ROWS.flatMap(row => (row.provider ? [[row.name, row.provider] as const] : []))
  const behaviours = new Map<unknown, Behaviour | Behaviour[]>([...Object.entries(PROVIDERS), ...rows])
  return startFakeProvider({
    script: request => {
      const behaviour = behaviours.get(request.body?.['model'])!
      return Array.isArray(behaviour) ? behaviour.shift()! : behaviour
    },
  })
}

/** The prefix of a row's own routes, so that its requests can be counted. */
function prefixOf({ name }: Row, stream: string): string {
  return `/${idOf(name)}-${stream}/v1`
}

/** A name for YAML and URLs. */
function idOf(name: string): string {
  return name.replaceAll(/\W+/g, '-')
}

async function start(provider: FakeProvider): Promise<InProcess> {
  const scripted = [...Object.keys(PROVIDERS), ...ROWS.filter(row => row.provider).map(row => row.name)]
  const prefixes = ROWS.flatMap(row => ['false', 'true'].map(stream => [prefixOf(row, stream), row.policy ?? 'test']))
  return startInProcess({
    plugins: [faulty],
    policies: {
      hourly: FIVE_STEPS.map(step =>
        (step as { use: string }).use === 'rate-limit'
          ? { use: 'rate-limit', with: { per: 'key', requests: '1 per hour' } }
          : step,
      ),
      faulty: [{ use: 'api-key' }, { use: 'faulty' }, ...FIVE_STEPS.slice(1)],
    },
    yaml: {
      providers: providersWith(provider),
      models: {
        demo: modelAt('demo', 'demo-small'),
        ...Object.fromEntries(scripted.map(name => [idOf(name), modelAt('scripted', name)])),
      },
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { path: '/hourly/v1/chat/completions', policy: 'hourly' },
        ...prefixes.map(([prefix, policy]) => ({ path: `${prefix}/chat/completions`, policy })),
      ],
    },
  })
}

/** Runs the script and returns its lines by the names of the cases. */
async function run(python: Python, gateway: InProcess): Promise<ReadonlyMap<string, Answer>> {
  const poor = await gateway.account('0.000001')
  const frozen = await gateway.account()
  await gateway.running.store.freeze(frozen.accountId, true)
  const used = await gateway.account()
  const keys = { poor: poor.key, frozen: frozen.key, nonsense: 'nonsense' }
  // The only request of this hour.
  const first = await fetch(`${gateway.url}/hourly/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${used.key}` },
    body: JSON.stringify({ model: 'demo', messages: [{ role: 'user', content: 'Hello' }] }),
  })
  expect(first.status, await first.text()).toBe(200)

  const cases = ROWS.map(row => ({
    name: row.name,
    base_url: [`${gateway.url}${prefixOf(row, 'false')}`, `${gateway.url}${prefixOf(row, 'true')}`],
    api_key: row.key ? keys[row.key] : row.policy === 'hourly' ? used.key : gateway.key,
    request: { ...(row.provider ? { model: idOf(row.name) } : {}), ...row.request },
  }))
  const env = { ...python.env, OPENAI_BASE_URL: `${gateway.url}/v1`, OPENAI_API_KEY: gateway.key }
  const child = spawn(python.command, [join(ROOT, 'test/clients/client.py')], { env, timeout: RUN_MAX_MS })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => void (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => void (stderr += text))
  child.stdin.on('error', () => {}).end(JSON.stringify(cases))
  const code = await new Promise((resolve, reject) => child.once('close', resolve).once('error', reject))
  if (code !== 0) throw new Error(`client.py ended with ${code}:\n${stderr}${stdout}`)
  const lines = stdout.trim().split('\n')
  return new Map(lines.map(line => JSON.parse(line) as Answer).map(answer => [String(answer['case']), answer]))
}

/** The cost of a usage in nano-dollars, at 1,000 and 2,000 a token. */
function bill(usage: unknown): bigint {
  const { prompt_tokens, completion_tokens } = usage as { prompt_tokens: number; completion_tokens: number }
  return BigInt(prompt_tokens * 1000 + completion_tokens * 2000)
}
