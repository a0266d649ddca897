import { afterEach, describe, expect, it } from 'vitest'
import type { ChatCompletion } from '#contract'
import {
  type Behaviour,
  errorAnswer,
  exact,
  type FakeProvider,
  gated,
  type Script,
  startFakeProvider,
  stream,
  whole,
  withhold,
} from './fake-provider.ts'
import { expectWithin } from './promised.ts'
import { openRaw } from './raw-client.ts'
import { chunksOf, contentOf, readSse, sseEvents } from './sse.ts'

let provider: FakeProvider
afterEach(() => provider.close())

const BODY = { model: 'some-model', messages: [{ role: 'user', content: 'Hello' }] }
const STREAM = { ...BODY, stream: true, stream_options: { include_usage: true } }

describe('how a request ends', () => {
  it.each([
    ['fin', 'fin'],
    ['reset', 'reset'],
  ] as const)('the client leaves by %s in the middle of a stream', async (leave, how) => {
    await start(gated())
    const client = await openRaw(provider.url)
    await client.post('/v1/chat/completions', STREAM)
    await (await provider.waitForRequest()).step(2)
    await client.readUntil('"content":"t0"')
    expect(provider.requests[0]!.ending).toBeNull()
    const leftAt = performance.now()
    client[leave]()
    const ending = await provider.waitForClose(provider.requests[0]!)
    expect(ending.how).toBe(how)
    expect(ending.at - leftAt).toBeGreaterThanOrEqual(0)
    expectWithin(ending.at - leftAt, 1000)
    expect(provider.requests[0]!.emitted.tokens).toBe(1)
  })

  it('the client leaves while nothing was answered', async () => {
    await start(withhold())
    const client = await openRaw(provider.url)
    await client.post('/v1/chat/completions', BODY)
    const request = await provider.waitForRequest()
    client.fin()
    expect((await provider.waitForClose(request)).how).toBe('fin')
    expect(request.emitted).toEqual({ bytes: 0, text: '', tokens: 0, usage: null })
    await request.step()
  })

  it('fetch gives up', async () => {
    await start(gated())
    const leave = new AbortController()
    const response = await Promise.all([post(STREAM, leave.signal), provider.step(1)]).then(([response]) => response)
    expect(response.status).toBe(200)
    leave.abort()
    await expect(response.text()).rejects.toThrow()
    expect(['fin', 'reset']).toContain((await provider.waitForClose(provider.requests[0]!)).how)
  })

  it('the provider breaks off', async () => {
    for (const how of ['fin', 'reset'] as const) {
      await start({ name: how, run: async call => call[how]() })
      await expect(post(BODY)).rejects.toThrow()
      expect((await provider.waitForClose(provider.requests[0]!)).how).toBe('provider')
      await provider.close()
    }
  })

  it('answered, on a connection that is used again', async () => {
    await start(exact())
    const client = await openRaw(provider.url)
    for (let index = 0; index < 3; index++) {
      await client.post('/v1/chat/completions', BODY)
      expect((await client.readResponse()).status).toBe(200)
      expect((await provider.waitForClose(provider.requests[index]!)).how).toBe('answered')
    }
    expect(provider.connections).toBe(1)
    expect(provider.openConnections).toBe(1)
    expect(provider.requests.map(({ index, connection }) => [index, connection])).toEqual([
      [0, 0],
      [1, 0],
      [2, 0],
    ])
  })
})

describe('the meter', () => {
  it('notes what was asked, to the byte', async () => {
    await start(exact())
    const text = `{ "model": "m",  "messages": [{"role": "user", "content": "na\u00efve"}] }`
    await fetch(`${provider.baseUrl}/chat/completions`, { method: 'POST', body: text, headers: { 'X-One': 'a' } })
    const request = await provider.waitForRequest()
    expect(request.raw.toString()).toBe(text)
    expect(request.body).toEqual({ model: 'm', messages: [{ role: 'user', content: 'naïve' }] })
    expect(request).toMatchObject({ method: 'POST', path: '/v1/chat/completions', headers: { 'x-one': 'a' } })
    expect(request.rawHeaders).toContain('X-One')
  })

  it.each([
    ['whole', BODY, {}, 3],
    ['stream', STREAM, {}, 3],
    ['choices', { ...STREAM, n: 3 }, { tokens: 5 }, 15],
    ['the cap is obeyed', { ...STREAM, max_tokens: 2, n: 2 }, { tokens: 5 }, 4],
    ['as much as allowed', { ...BODY, max_completion_tokens: 7 }, { tokens: 'cap' }, 7],
    ['more than allowed', { ...STREAM, max_tokens: 2 }, { tokens: 5, obeyCap: false }, 5],
    ['thinking', STREAM, { reasoning: ['hm', ' hm'], tokens: 2 }, 4],
    ['calls', STREAM, { toolCalls: [{ name: 'x', arguments: ['{', '}'] }] }, 3],
  ] as const)('counts the tokens that were sent, and reports the same: %s', async (_title, body, options, tokens) => {
    await start(exact(options))
    const response = await post(body)
    const usage =
      'stream' in body
        ? chunksOf(await readSse(response)).at(-1)!.usage
        : ((await response.json()) as ChatCompletion).usage
    const { emitted } = await provider.waitForRequest()
    expect(emitted.tokens).toBe(tokens)
    expect(emitted.usage).toEqual(usage)
    expect(usage).toMatchObject({ prompt_tokens: 10, completion_tokens: tokens, total_tokens: 10 + tokens })
  })

  it('counts only what was sent before the client left', async () => {
    await start(gated({ tokens: 10 }))
    const response = await Promise.all([post(STREAM), provider.step(5)]).then(([response]) => response)
    let seen = 0
    for await (const _event of sseEvents(response)) if (++seen === 5) break
    await provider.waitForClose(provider.requests[0]!)
    expect(provider.requests[0]!.emitted).toMatchObject({ tokens: 4, usage: null })
  })
})

describe('gates', () => {
  it('a step sends one event and nothing more; release sends the rest', async () => {
    await start(gated({ tokens: ['a', 'b', 'c'] }))
    const response = await Promise.all([post(STREAM), provider.step()]).then(([response]) => response)
    const events = sseEvents(response)
    const request = provider.requests[0]!
    const contents: unknown[] = [JSON.parse((await events.next()).value!.data).choices[0].delta.content]
    for (let tokens = 1; tokens <= 2; tokens++) {
      await request.step()
      expect(request.emitted.tokens).toBe(tokens)
      contents.push(JSON.parse((await events.next()).value!.data).choices[0].delta.content)
    }
    expect(contents).toEqual(['', 'a', 'b'])
    provider.release()
    let rest = 0
    for await (const _event of events) rest++
    expect(rest).toBe(3)
    expect((await provider.waitForClose(request)).how).toBe('answered')
    // A step after the end does not hang.
    await request.step(5)
  })

  it('what is withheld goes after one step', async () => {
    await start(withhold(whole({ tokens: ['done'] })))
    const answer = post(BODY)
    const request = await provider.waitForRequest()
    expect(request.emitted.bytes).toBe(0)
    await request.step()
    expect(((await (await answer).json()) as ChatCompletion).choices[0]!.message.content).toBe('done')
  })
})

describe('scripts', () => {
  it('a list is used up in order, and its end is loud', async () => {
    await start([errorAnswer(429, undefined, { 'retry-after': '1' }), whole()])
    const first = await post(BODY)
    expect([first.status, first.headers.get('retry-after')]).toEqual([429, '1'])
    expect((await post(BODY)).status).toBe(200)
    const third = await post(BODY)
    expect(third.status).toBe(500)
    expect(await third.text()).toContain('no behaviour left')
  })

  it('a function sees the request', async () => {
    await start(request => (request.body?.['model'] === 'bad' ? errorAnswer(404) : whole()))
    expect((await post({ ...BODY, model: 'bad' })).status).toBe(404)
    expect((await post(BODY)).status).toBe(200)
    provider.script(errorAnswer(503, ''))
    expect((await post(BODY)).status).toBe(503)
  })

  it('an early behaviour runs before the body is there', async () => {
    const behaviour: Behaviour = { name: 'early', early: true, run: async call => call.end('too soon') }
    await start(behaviour)
    const client = await openRaw(provider.url)
    await client.send('POST /v1 HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\n')
    expect((await client.readResponse()).text()).toBe('too soon')
    expect(provider.requests[0]!.body).toBeUndefined()
    client.reset()
  })
})

describe('a stream', () => {
  it('a stream without [DONE] and with the usage that a test chose', async () => {
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
    await start(stream({ done: false, usage, includeUsage: true, tokens: ['x'] }))
    const sse = await readSse(await post(BODY))
    expect([sse.done, contentOf(sse), chunksOf(sse).at(-1)!.usage]).toEqual([false, 'x', usage])
  })
})

async function start(script: Script): Promise<void> {
  provider = await startFakeProvider({ script })
}

function post(body: unknown, signal: AbortSignal | null = null): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  return fetch(`${provider.baseUrl}/chat/completions`, { method: 'POST', body: JSON.stringify(body), headers, signal })
}
