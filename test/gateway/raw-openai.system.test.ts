/**
 * Every endpoint besides chat with the official OpenAI library over raw routes: embeddings, pictures, sound, files. Forms and answers
 * pass byte for byte, and each is charged to the nano-dollar.
 */
import { createHash, randomBytes } from 'node:crypto'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { definePlugin, refuse } from '#contract'
import { type Behaviour, type FakeProvider, type ProviderRequest, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { openRaw } from '../helpers/raw-client.ts'
import { textOf } from '../helpers/sse.ts'
import { expectRefusal } from './refusal.ts'

const SILENCE_MS = 1500
const STALL_MS = 1000
const PER_TOKEN = { per: '1M tokens', input: '$1' }
/** Nano-dollars. */
const CENT = 10_000_000n

let provider: FakeProvider
let gateway: InProcess
let client: OpenAI

beforeAll(async () => {
  provider = await startFakeProvider({ script: json({}) })
  const span = `${SILENCE_MS}ms`
  const raw = { kind: 'raw', policy: 'test', provider: 'p' }
  const files = { ...raw, price: 'free' }
  gateway = await startInProcess({
    steps: [{ use: 'api-key' }, { use: 'credits' }],
    yaml: {
      limits: { body: '8MiB', stall: `${STALL_MS}ms` },
      providers: {
        p: {
          dialect: 'openai',
          base_url: provider.baseUrl,
          timeouts: { connect: span, first_byte: span, idle: span, total: '20s' },
        },
      },
      models: {},
      routes: [
        { ...raw, path: '/v1/embeddings', price: PER_TOKEN },
        { ...raw, path: '/v1/moderations', price: 'free' },
        { ...raw, path: '/v1/images/{id}', price: { request: '$0.01' }, models: ['painter'] },
        { ...raw, path: '/v1/audio/speech', price: { request: '$0.01' } },
        { ...raw, path: '/v1/audio/transcriptions', price: PER_TOKEN, models: ['ear', 'other'] },
        { ...files, path: '/v1/files/{id}', methods: ['GET', 'DELETE'] },
        { ...files, path: '/v1/files', methods: ['GET', 'POST'] },
      ],
    },
  })
  client = clientFor(gateway.key)
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const clientFor = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 })

function answer(body: Buffer | string, headers: Record<string, string>): Behaviour {
  return {
    name: 'answer',
    async run(call) {
      call.head(200, { 'content-length': String(Buffer.byteLength(body)), ...headers })
      await call.end(body)
    },
  }
}

function json(value: unknown): Behaviour {
  return answer(JSON.stringify(value), { 'content-type': 'application/json' })
}

/** Pieces without a length, each sent when the gate is stepped. */
function pieces(type: string, all: readonly (Buffer | string)[], end: 'end' | 'reset' | 'hang' = 'end'): Behaviour {
  return {
    name: 'pieces',
    async run(call) {
      call.head(200, { 'content-type': type })
      for (const piece of all) if (!(await call.step(() => call.write(piece)))) return
      await call.step(async () => {
        if (end === 'end') await call.end()
        else if (end === 'reset') call.reset()
      })
      if (end === 'hang') await call.closed
    },
  }
}

const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`

/** Runs an action and returns its charge; nothing may stay held. */
async function charged(run: () => Promise<unknown>): Promise<bigint> {
  const before = gateway.balance().posted
  await run()
  const { posted, held } = gateway.balance()
  expect(held).toBe(0n)
  return before - posted
}

/** The next request at the provider. */
function nextRequest(): Promise<ProviderRequest> {
  return provider.waitForRequest(provider.requests.length)
}

/** The next exchange to end. */
function nextExchange() {
  const since = gateway.log.length
  return gateway.waitForLog(line => line['msg'] === 'exchange' && gateway.log.indexOf(line) >= since)
}

const speech = { model: 'tts', voice: 'alloy', input: 'Hello' }
const sound = (size: number) => toFile(randomBytes(size), 'a.wav', { type: 'audio/wav' })

describe('an answer that breaks in the middle', () => {
  test('bytes: the connection is cut, and nothing is charged', async () => {
    provider.script(pieces('audio/mpeg', [randomBytes(5000), randomBytes(5000), randomBytes(5000)], 'reset'))
    const [asked, over] = [nextRequest(), nextExchange()]
    const cost = await charged(async () => {
      const going = client.audio.speech.create(speech)
      const request = await asked
      await request.step(3)
      const reading = going.then(response => response.arrayBuffer())
      const failed = expect(reading).rejects.toThrow(/terminated|aborted|ECONNRESET|other side/i)
      await request.step()
      await failed
      expect(await over).toMatchObject({ outcome: 'failed', code: 'upstream_truncated' })
    })
    expect(cost).toBe(0n)
  })

  test('events: an error event is the last thing, and nothing is charged', async () => {
    // The last event is withheld: it might not be the end.
    const deltas = ['Hel', 'lo', '!'].map(delta => event({ type: 'transcript.text.delta', delta }))
    provider.script(pieces('text/event-stream', deltas, 'reset'))
    const [asked, over] = [nextRequest(), nextExchange()]
    const cost = await charged(async () => {
      const file = await sound(100)
      const going = client.audio.transcriptions.create({ file, model: 'ear', stream: true })
      const request = await asked
      await request.step(3)
      const said: string[] = []
      const reading = (async () => {
        for await (const each of await going) if (each.type === 'transcript.text.delta') said.push(each.delta)
      })()
      const failed = expect(reading).rejects.toMatchObject({ error: { code: 'upstream_truncated' } })
      await request.step()
      await failed
      expect(said).toEqual(['Hel', 'lo'])
      expect(await over).toMatchObject({ outcome: 'failed', code: 'upstream_truncated' })
    })
    expect(cost).toBe(0n)
  })

  test('error events: the text of the provider stays in the gateway', async () => {
    const events = [
      event({ type: 'transcript.text.delta', delta: 'Hi' }),
      `event: error\n${event({ type: 'error', error: { message: 'sk-canary at 10.0.0.1', code: 'server_error' } })}`,
    ]
    provider.script(pieces('text/event-stream', events))
    const asked = nextRequest()
    const cost = await charged(async () => {
      const going = client.audio.transcriptions.create({ file: await sound(100), model: 'ear', stream: true })
      ;(await asked).release()
      const reading = (async () => {
        for await (const _ of await going);
      })()
      const error = await reading.catch((error: unknown) => error)
      expect(error).toMatchObject({ error: { code: 'upstream_error' } })
      expect(JSON.stringify(error)).not.toMatch(/canary|10\.0\.0\.1/)
    })
    expect(cost).toBe(0n)
  })

  test('before a second piece: still an error with a status', async () => {
    provider.script(pieces('audio/mpeg', [randomBytes(5000)], 'reset'))
    const asked = nextRequest()
    const cost = await charged(async () => {
      const going = client.audio.speech.create(speech)
      ;(await asked).release()
      await expect(going).rejects.toMatchObject({ status: 502, code: 'upstream_truncated' })
    })
    expect(cost).toBe(0n)
  })

  test('silence: the stream is cut after the provider has been silent for too long', async () => {
    provider.script(pieces('audio/mpeg', [randomBytes(5000), randomBytes(5000)], 'hang'))
    const [asked, over] = [nextRequest(), nextExchange()]
    const cost = await charged(async () => {
      const going = client.audio.speech.create(speech)
      ;(await asked).release()
      await expect(going.then(response => response.arrayBuffer())).rejects.toThrow()
      expect(await over).toMatchObject({ outcome: 'failed', code: 'upstream_timeout' })
    })
    expect(cost).toBe(0n)
  })

  test('an endless event is aborted', async () => {
    provider.script({
      name: 'endless',
      async run(call) {
        call.head(200, { 'content-type': 'text/event-stream' })
        while (await call.write(Buffer.alloc(1024 * 1024, 'a')));
      },
    })
    const cost = await charged(async () => {
      const going = client.audio.transcriptions.create({ file: await sound(100), model: 'ear', stream: true })
      await expect(going).rejects.toMatchObject({ status: 502, code: 'upstream_too_large' })
    })
    expect(cost).toBe(0n)
  })

  test('JSON that is too large is a refusal, and not read to its end', async () => {
    provider.script({
      name: 'large',
      async run(call) {
        call.head(200, { 'content-type': 'application/json' })
        while (await call.write(Buffer.alloc(1024 * 1024, '1')));
      },
    })
    const cost = await charged(async () => {
      const going = client.images.generate({ model: 'painter', prompt: 'A cat' })
      await expect(going).rejects.toMatchObject({ status: 502, code: 'upstream_too_large' })
    })
    expect(cost).toBe(0n)
  })
})

describe('a step that refuses an answer', () => {
  const veto = definePlugin({
    name: 'veto',
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => async (_ctx, next) => {
      await next()
      throw refuse('forbidden')
    },
  })
  let vetoed: InProcess
  beforeAll(async () => {
    const raw = { kind: 'raw', policy: 'test', provider: 'p', price: { request: '$0.01' } }
    vetoed = await startInProcess({
      plugins: [veto],
      steps: [{ use: 'api-key' }, { use: 'veto' }, { use: 'credits' }],
      yaml: {
        providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
        models: {},
        routes: [{ ...raw, path: '/v1/audio/{id}' }],
      },
    })
  })
  afterAll(() => vetoed.stop())

  const speak = async () => {
    const asked = nextRequest()
    const headers = { authorization: `Bearer ${vetoed.key}`, 'content-type': 'application/json' }
    const going = fetch(`${vetoed.url}/v1/audio/speech`, { method: 'POST', headers, body: JSON.stringify(speech) })
    ;(await asked).release()
    return going
  }

  test('started bytes do not end properly', async () => {
    provider.script(pieces('audio/mpeg', [randomBytes(5000), randomBytes(5000)]))
    const response = await speak()
    expect(response.status).toBe(200)
    await expect(response.arrayBuffer()).rejects.toThrow()
  })

  test('events end in an error, without the last one', async () => {
    const done = event({ type: 'speech.audio.done', usage: { input_tokens: 3, output_tokens: 9 } })
    const delta = event({ type: 'speech.audio.delta', audio: 'aGk=' })
    provider.script(pieces('text/event-stream', [delta, done, 'data: [DONE]\n\n']))
    const text = await textOf(await speak())
    expect(text.startsWith(delta)).toBe(true)
    expect(text.slice(delta.length)).toMatch(/^data: \{"error":\{.*"code":"forbidden"\},"created":".*"\}\n\n$/)
  })

  test('an answer that has not begun is refused', async () => {
    provider.script(pieces('audio/mpeg', [randomBytes(5000)]))
    await expectRefusal(await speak(), 'forbidden')
  })
})

describe('a gateway that is stopped in the middle of', () => {
  test.each<[string, string, RegExp | null]>([
    ['bytes: they are cut', 'audio/mpeg', null],
    [
      'events: they end in an error',
      'text/event-stream',
      /data: \{"error":\{[^\n]*"code":"shutting_down"\},"created":"[^\n]*"\}\n\n$/,
    ],
  ])('%s, and nothing is charged', async (_title, type, end) => {
    const raw = { kind: 'raw', policy: 'test', provider: 'p', price: { request: '$0.01' } }
    await using stopped = await startInProcess({
      steps: [{ use: 'api-key' }, { use: 'credits' }],
      yaml: {
        providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
        models: {},
        routes: [{ ...raw, path: '/v1/audio/{id}' }],
      },
    })
    provider.script(pieces(type, [event({ a: 1 }), event({ b: 2 }), event({ c: 3 })], 'hang'))
    const asked = nextRequest()
    const headers = { authorization: `Bearer ${stopped.key}` }
    const going = fetch(`${stopped.url}/v1/audio/speech`, { method: 'POST', headers, body: '{}' })
    const request = await asked
    await request.step(3)
    const response = await going
    expect(response.status).toBe(200)
    const reading = textOf(response)
    const failed =
      end === null ? expect(reading).rejects.toThrow('a body broke off') : expect(reading).resolves.toMatch(end)
    expect(await stopped.stop()).toBe(0)
    await failed
    expect((await provider.waitForClose(request)).how).not.toBe('answered')
    const line = stopped.log.find(line => line['msg'] === 'exchange')
    expect(line).toMatchObject({ outcome: 'cut', charged: '0.000000000' })
  })
})

describe('a client that disconnects', () => {
  test('while it uploads its form: nothing is sent or charged', async () => {
    const [asked, over] = [provider.requests.length, nextExchange()]
    const cost = await charged(async () => {
      const raw = await openRaw(gateway.url)
      await raw.send(
        `POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${gateway.key}\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 5000\r\n\r\n--x\r\n`,
      )
      raw.reset()
      expect(await over).toMatchObject({ route: '/v1/audio/transcriptions' })
    })
    expect(cost).toBe(0n)
    expect(provider.requests.length).toBe(asked)
  })

  test('in the middle of bytes: the upstream request ends too, and the request is charged', async () => {
    provider.script(pieces('audio/mpeg', [randomBytes(5000), randomBytes(5000)], 'hang'))
    const [asked, over] = [nextRequest(), nextExchange()]
    const cost = await charged(async () => {
      const controller = new AbortController()
      const going = client.audio.speech.create(speech, { signal: controller.signal })
      const request = await asked
      await request.step(2)
      const reader = (await going).body!.getReader()
      expect((await reader.read()).done).toBe(false)
      const leftMs = performance.now()
      controller.abort()
      const { how, at } = await provider.waitForClose(request)
      expect(how).not.toBe('answered')
      expect(at - leftMs).toBeLessThan(1000)
      expect(await over).toMatchObject({ outcome: 'client_left' })
    })
    expect(cost).toBe(CENT)
  })

  test('before a byte was sent: the request is charged, because it was read', async () => {
    provider.script(pieces('audio/mpeg', [randomBytes(5000)], 'hang'))
    const [asked, over] = [nextRequest(), nextExchange()]
    const cost = await charged(async () => {
      const controller = new AbortController()
      const going = client.audio.speech.create(speech, { signal: controller.signal })
      const failed = expect(going).rejects.toBeInstanceOf(OpenAI.APIUserAbortError)
      await (await asked).step()
      controller.abort()
      await failed
      expect(await over).toMatchObject({ outcome: 'client_left' })
    })
    expect(cost).toBe(CENT)
  })
})

describe('embeddings', () => {
  test('as base64, the default of the library', async () => {
    const vector = [0.25, -1, 3]
    provider.script(request => {
      expect(request.body).toMatchObject({ encoding_format: 'base64', model: 'e', input: ['a', 'b'] })
      const embedding = Buffer.from(Float32Array.from(vector).buffer).toString('base64')
      const data = [{ object: 'embedding', index: 0, embedding }]
      return json({ object: 'list', model: 'e', data, usage: { prompt_tokens: 2, total_tokens: 2 } })
    })
    const cost = await charged(async () => {
      const { data, usage } = await client.embeddings.create({ model: 'e', input: ['a', 'b'] })
      expect(data[0]!.embedding).toEqual(vector)
      expect(usage).toEqual({ prompt_tokens: 2, total_tokens: 2 })
    })
    expect(cost).toBe(2_000n)
  })
})

test('moderations are free here', async () => {
  provider.script(json({ id: 'm', model: 'mod', results: [{ flagged: false }] }))
  const cost = await charged(async () => {
    expect((await client.moderations.create({ input: 'Hello' })).results[0]!.flagged).toBe(false)
  })
  expect(cost).toBe(0n)
})

describe('pictures', () => {
  const usage = { input_tokens: 9, output_tokens: 1056, total_tokens: 1065 }

  test('created', async () => {
    provider.script(json({ created: 1, data: [{ b64_json: 'aGk=' }], usage }))
    const asked = nextRequest()
    const cost = await charged(async () => {
      const { data } = await client.images.generate({ model: 'painter', prompt: 'A cat' })
      expect(data).toEqual([{ b64_json: 'aGk=' }])
    })
    expect((await asked).path).toBe('/v1/images/generations')
    expect(cost).toBe(CENT)
  })

  test('edited: the form is sent byte for byte', async () => {
    provider.script(json({ created: 1, data: [{ b64_json: 'aGk=' }], usage }))
    const asked = nextRequest()
    const picture = randomBytes(300_000)
    const cost = await charged(async () => {
      const image = await toFile(picture, 'a.png', { type: 'image/png' })
      await client.images.edit({ model: 'painter', prompt: 'A hat', image })
    })
    const request = await asked
    expect(request.path).toBe('/v1/images/edits')
    const form = await new Response(request.raw, { headers: { 'content-type': request.headers['content-type']! } })
      .formData()
      .then(fields => [...fields])
    expect(form.map(([name]) => name).sort()).toEqual(['image', 'model', 'prompt'])
    const [, sent] = form.find(([name]) => name === 'image')!
    expect(Buffer.from(await (sent as File).arrayBuffer()).equals(picture)).toBe(true)
    expect(cost).toBe(CENT)
  })

  test('as a stream: the picture with the usage is withheld until it is charged', async () => {
    const picture = randomBytes(200_000).toString('base64')
    const events = [
      event({ type: 'image_generation.partial_image', b64_json: picture, partial_image_index: 0 }),
      event({ type: 'image_generation.completed', b64_json: picture, usage }),
    ]
    provider.script(pieces('text/event-stream', events))
    const asked = nextRequest()
    const types: string[] = []
    const cost = await charged(async () => {
      const going = client.images.generate({ model: 'painter', prompt: 'A cat', stream: true, partial_images: 1 })
      const request = await asked
      await request.step(2)
      const reader = (await going)[Symbol.asyncIterator]()
      types.push((await reader.next()).value!.type)
      const completed = reader.next()
      // It has arrived, and waits for the end.
      expect(gateway.balance().held).toBe(CENT)
      await request.step()
      const { value } = await completed
      expect(gateway.balance().held).toBe(0n)
      expect(value).toMatchObject({ type: 'image_generation.completed', b64_json: picture, usage })
      expect((await reader.next()).done).toBe(true)
    })
    expect(types).toEqual(['image_generation.partial_image'])
    expect(cost).toBe(CENT)
  })
})

describe('sound', () => {
  test.each<[string, unknown, bigint]>([
    ['tokens', { type: 'tokens', input_tokens: 14, output_tokens: 45, total_tokens: 59 }, 14_000n],
  ])('to text, and its usage in %s', async (_title, usage, nano) => {
    provider.script(json({ text: 'Hello', usage }))
    const cost = await charged(async () => {
      const { text } = await client.audio.transcriptions.create({ file: await sound(50_000), model: 'ear' })
      expect(text).toBe('Hello')
    })
    expect(cost).toBe(nano)
  })

  test('to text, and its usage in seconds: estimated by the bytes of the form', async () => {
    provider.script(json({ text: 'Hello', usage: { type: 'duration', seconds: 3 } }))
    const asked = nextRequest()
    const cost = await charged(async () => {
      const going = client.audio.transcriptions.create({ file: await sound(50_000), model: 'ear' }).withResponse()
      const { response } = await going
      expect(gateway.receipt(response)).toMatchObject({ source: 'estimated' })
    })
    expect(cost).toBe(BigInt(Math.ceil((await asked).raw.length / 4)) * 1000n)
  })

  test('to text as a stream: the last usage is charged', async () => {
    const usage = { type: 'tokens', input_tokens: 20, output_tokens: 2, total_tokens: 22 }
    const events = [
      event({ type: 'transcript.text.delta', delta: 'Hello' }),
      event({ type: 'transcript.text.done', text: 'Hello', usage }),
      'data: [DONE]\n\n',
    ]
    provider.script(pieces('text/event-stream; charset=utf-8', events))
    const asked = nextRequest()
    const types: string[] = []
    const cost = await charged(async () => {
      const going = client.audio.transcriptions.create({ file: await sound(100), model: 'ear', stream: true })
      ;(await asked).release()
      for await (const each of await going) types.push(each.type)
    })
    expect(types).toEqual(['transcript.text.delta', 'transcript.text.done'])
    expect(cost).toBe(20_000n)
  })

  test('from text: small and whole, with its cost', async () => {
    const mp3 = randomBytes(4000)
    provider.script(answer(mp3, { 'content-type': 'audio/mpeg' }))
    const cost = await charged(async () => {
      const response = await client.audio.speech.create(speech)
      expect(response.headers.get('x-tollgate-cost')).toBe('0.010000000')
      expect(Buffer.from(await response.arrayBuffer()).equals(mp3)).toBe(true)
    })
    expect(cost).toBe(CENT)
  })

  test('from text, streamed: received one piece behind, and charged before its end', async () => {
    const all = [randomBytes(3000), randomBytes(3000), randomBytes(3000)]
    provider.script(pieces('audio/mpeg', all))
    const asked = nextRequest()
    const cost = await charged(async () => {
      const going = client.audio.speech.create(speech)
      const request = await asked
      await request.step(2)
      const response = await going
      expect(response.headers.get('content-type')).toBe('audio/mpeg')
      const reader = response.body!.getReader()
      expect(Buffer.from((await reader.read()).value!).equals(all[0]!)).toBe(true)
      expect(gateway.balance().held).toBe(CENT)
      await request.step(2)
      const rest: Uint8Array[] = []
      for (let read = await reader.read(); !read.done; read = await reader.read()) rest.push(read.value)
      expect(gateway.balance().held).toBe(0n)
      expect(Buffer.concat(rest).equals(Buffer.concat(all.slice(1)))).toBe(true)
    })
    expect(cost).toBe(CENT)
  })

  test('from text, as events', async () => {
    const events = [
      event({ type: 'speech.audio.delta', audio: 'aGk=' }),
      event({ type: 'speech.audio.done', usage: { input_tokens: 3, output_tokens: 9, total_tokens: 12 } }),
    ]
    provider.script(pieces('text/event-stream', events))
    const asked = nextRequest()
    const cost = await charged(async () => {
      const going = client.audio.speech.create({ ...speech, stream_format: 'sse' })
      ;(await asked).release()
      expect(await (await going).text()).toBe(events.join(''))
    })
    expect(cost).toBe(CENT)
  })
})

describe('files', () => {
  const file = { id: 'file-1', object: 'file', bytes: 3, created_at: 1, filename: 'a.jsonl', purpose: 'batch' }

  test('created, listed, read and deleted', async () => {
    provider.script(request => {
      const at = `${request.method} ${request.path}`
      if (at === 'GET /v1/files?limit=1&purpose=batch') return json({ object: 'list', data: [file], has_more: false })
      if (at === 'POST /v1/files' || at === 'GET /v1/files/file-1') return json(file)
      if (at === 'DELETE /v1/files/file-1') return json({ id: 'file-1', object: 'file', deleted: true })
      if (at === 'GET /v1/files/file-1/content') return answer('{}\n', { 'content-type': 'application/octet-stream' })
      throw new Error(at)
    })
    const cost = await charged(async () => {
      expect(
        await client.files.create({ file: await toFile(Buffer.from('{}\n'), 'a.jsonl'), purpose: 'batch' }),
      ).toEqual(expect.objectContaining(file))
      const list = await client.files.list({ limit: 1, purpose: 'batch' })
      expect(list.data).toEqual([file])
      expect(await client.files.retrieve('file-1')).toMatchObject(file)
      expect(await (await client.files.content('file-1')).text()).toBe('{}\n')
      expect(await client.files.delete('file-1')).toMatchObject({ deleted: true })
    })
    expect(cost).toBe(0n)
  })

  test('larger than any collected answer: it passes, and is never complete in memory', async () => {
    const piece = randomBytes(1024 * 1024)
    const size = 80
    provider.script({
      name: 'large',
      async run(call) {
        call.head(200, { 'content-type': 'application/octet-stream', 'content-length': String(size * piece.length) })
        for (let index = 0; index < size; index++) await call.write(piece)
        await call.end()
      },
    })
    const response = await client.files.content('file-1')
    expect(response.headers.get('content-length')).toBe(String(size * piece.length))
    const seen = createHash('sha256')
    let bytes = 0
    for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
      seen.update(part)
      bytes += part.length
    }
    expect(bytes).toBe(size * piece.length)
    const sent = createHash('sha256')
    for (let index = 0; index < size; index++) sent.update(piece)
    expect(seen.digest('hex')).toBe(sent.digest('hex'))
  })

  test('a client that does not read keeps the provider waiting', async () => {
    let written = 0
    provider.script({
      name: 'endless',
      async run(call) {
        call.head(200, { 'content-type': 'application/octet-stream' })
        while (written < 400 && (await call.write(Buffer.alloc(1024 * 1024)))) written++
      },
    })
    const asked = nextRequest()
    const raw = await openRaw(gateway.url)
    raw.pause()
    await raw.send(`GET /v1/files/file-1/content HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${gateway.key}\r\n\r\n`)
    // The gateway cuts the client after a while; the bytes taken from the provider until then are the cost of the wait.
    expect((await provider.waitForClose(await asked)).how).not.toBe('answered')
    expect(written).toBeLessThan(100)
    raw.socket.destroy()
  })
})

describe('a key with a list of models', () => {
  const narrow = async (models: string[]) => {
    const { token } = await gateway.running.store.createKey({ account: gateway.accountId, name: 'narrow', models })
    return clientFor(token)
  }

  test('can use them in forms too, and no others', async () => {
    provider.script(json({ text: 'Hello', usage: { type: 'tokens', input_tokens: 1, output_tokens: 1 } }))
    const limited = await narrow(['ear', 'painter'])
    const file = await sound(1000)
    expect((await limited.audio.transcriptions.create({ file, model: 'ear' })).text).toBe('Hello')
    await limited.images.edit({ model: 'painter', prompt: 'A hat', image: await toFile(randomBytes(100), 'a "b".png') })
    const asked = provider.requests.length
    await expect(limited.audio.transcriptions.create({ file, model: 'other' })).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
    })
    await expect(limited.files.list()).rejects.toMatchObject({ code: 'model_not_found' })
    expect(provider.requests.length).toBe(asked)
  })
})

test('too little credit: 402 before anything is sent', async () => {
  const poor = await gateway.account('0.009')
  const asked = provider.requests.length
  await expect(clientFor(poor.key).audio.speech.create(speech)).rejects.toMatchObject({ status: 402 })
  expect(provider.requests.length).toBe(asked)
  expect(poor.balance()).toMatchObject({ held: 0n })
})

test('the ledger agrees', () => {
  expect(gateway.running.store.reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
})
