import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { exact, FAULTS, type FaultMode, startFakeProvider, UNREACHABLE } from './fake-provider.ts'
import { openRaw, type RawClient, type RawResponse } from './raw-client.ts'
import { parseSse } from './sse.ts'

const MODES: FaultMode[] = ['whole', 'stream']

describe('before a provider is reached', () => {
  const expected: Record<string, RegExp> = {
    F01: /ECONNREFUSED/,
    F02: /TimeoutError|aborted/,
    F03: /ENOTFOUND|EAI_AGAIN/,
    F04: /ERR_SSL|EPROTO|self.signed|SELF_SIGNED|ECONNRESET|other side closed/i,
  }
  it.each(UNREACHABLE.map(row => [row.id, row.title, row] as const))('%s %s', async (id, _title, { open }) => {
    await using place = await open()
    const failure = await fetch(place.url, { signal: AbortSignal.timeout(id === 'F02' ? 300 : 5000) }).catch(
      error => error,
    )
    expect(`${failure} ${failure.cause?.code} ${failure.cause?.message}`).toMatch(expected[id]!)
  })
})

describe('the list', () => {
  it('has F05 to F30, each title once', () => {
    const ids = Array.from({ length: 26 }, (_, at) => `F${String(at + 5).padStart(2, '0')}`)
    expect([...new Set(FAULTS.map(({ id }) => id))]).toEqual(ids)
    expect(new Set(FAULTS.map(({ id, title }) => id + title)).size).toBe(FAULTS.length)
  })
})

/** The expected bytes on the wire, for one fault or all of an id. */
const WIRE: Record<string, (seen: WireRecord, mode: FaultMode) => void> = {
  'F05 reset before the head': ({ error, closed }) =>
    expect([error, closed]).toEqual(['before a response head', 'reset']),
  'F06 closed before the head': ({ error, closed }) =>
    expect([error, closed]).toEqual(['before a response head', 'fin']),
  'F09 reset in the middle': ({ response, closed }) => expect([response?.end, closed]).toEqual(['cut', 'reset']),
  'F10 closed in the middle': ({ response, closed }) => expect([response?.end, closed]).toEqual(['cut', 'fin']),
  'F10 ended in the middle, in good HTTP': ({ response }, mode) => {
    expect(response?.end).toBe(mode === 'stream' ? 'chunked' : 'length')
    if (mode === 'stream') expect(parseSse(response!.text())).toMatchObject({ done: false, rest: '' })
    else expect(() => JSON.parse(response!.text())).toThrow()
  },
  F13: ({ response }) => expect(response?.header('content-type')).toBe('application/json'),
  F14: ({ response }) => expect(response?.end).toBe('cut'),
  'F15 bad JSON in an event': ({ response }) =>
    expect(response?.text()).toContain('data: {"choices": [{"index": 0,\n\n'),
  'F15 carriage returns alone': ({ response }) => expect(response?.text()).not.toContain('\n'),
  F17: ({ response }) => expect([response?.status, response?.header('content-type')]).toEqual([200, 'text/html']),
  F18: ({ response }) => expect([response?.status, response?.text().includes('"error":{')]).toEqual([200, true]),
  F19: ({ response }) => expect([response?.status, response?.header('retry-after')]).toEqual([429, expect.any(String)]),
  F20: ({ response }) => expect(response?.status).toBeGreaterThanOrEqual(500),
  F21: ({ response }) => expect(response?.header('location')).toMatch(/^http:\/\/localhost:/),
  'F23 status 999': ({ response }) => expect(response?.status).toBe(999),
  'F23 10,000 early hints': ({ response }) => expect([response?.status, response?.end]).toEqual([200, 'length']),
  'F24 usage: absent': ({ response }) => expect(response?.text()).not.toContain('prompt_tokens'),
  'F24 usage: negative': ({ response }) => expect(response?.text()).toContain('"prompt_tokens":-5'),
  'F24 usage: NaN': ({ response }) => expect(response?.text()).toContain('"prompt_tokens":NaN'),
  'F24 usage: twice, with different values': ({ response }) =>
    expect([...response!.text().matchAll(/"completion_tokens":(\d+)/g)].map(match => match[1]).toSorted()).toEqual([
      '3',
      '99',
    ]),
  'F22 a gzip bomb': ({ response }) => {
    expect(response!.body.length).toBeLessThan(1.2 * 1024 * 1024)
    expect(gunzipSync(response!.body.subarray(0, response!.body.length / 64)).length * 64).toBe(1024 ** 3)
  },
  'F24 usage: before the content': ({ response }, mode) => {
    const text = response!.text()
    expect(text.indexOf('"completion_tokens":1')).toBeLessThan(text.indexOf('"content"'))
    if (mode === 'whole') JSON.parse(text)
    expect([...text.matchAll(/"usage"/g)]).toHaveLength(1)
  },
  'F25 more after the end': ({ response }, mode) =>
    mode === 'stream'
      ? expect(() => parseSse(response!.text())).toThrow('after [DONE]')
      : expect(response!.text()).toContain('}{'),
  'F25 two finishes': ({ response }) =>
    expect([...response!.text().matchAll(/"finish_reason":"stop"/g)]).toHaveLength(2),
  'F26 tool call index 1e9': ({ response }, mode) =>
    mode === 'stream' && expect(response!.text()).toContain('"index":1000000000'),
  'F26 tool call index -1': ({ response }, mode) =>
    mode === 'stream' && expect(response!.text()).toContain('[{"index":-1'),
  'F27 200 with nothing': ({ response }) => expect([response?.status, response?.body.length]).toEqual([200, 0]),
  'F27 204': ({ response }) => expect(response?.status).toBe(204),
  F28: ({ response }) => expect(response?.status).toBe(200),
  'F29 three times the allowed tokens': ({ response }) => expect(response!.text()).toContain('t17'),
  'F30 bytes that are no UTF-8': ({ response }) => expect(response!.body.includes(0xff)).toBe(true),
  'F30 a byte order mark': ({ response }) => expect(response!.body.subarray(0, 3)).toEqual(Buffer.of(0xef, 0xbb, 0xbf)),
  'F30 a NUL': ({ response }) => expect(response!.text()).toContain('b\\u0000c'),
  'F30 a NUL without its escape': ({ response }) => expect(response!.body.includes(0)).toBe(true),
}

/** Some faults never end by themselves. A disconnect of the reader must end them. */
const ENDLESS = /^F07|^F08|^F11|^F12|^F16|^F29 never/

const CASES = FAULTS.flatMap(fault => MODES.map(mode => [`${fault.id} ${fault.title}`, mode, fault] as const))

describe('on the wire', () => {
  it.each(CASES.filter(([name]) => !ENDLESS.test(name)))('%s (%s)', async (name, mode, { make }) => {
    await using provider = await startFakeProvider({ script: make(mode) })
    const seen = await ask(provider.url, mode)
    ;(WIRE[name] ?? WIRE[name.slice(0, 3)])?.(seen, mode)
    await using good = await startFakeProvider({ script: exact() })
    const normal = await ask(good.url, mode)
    expect(fingerprint(seen), 'a fault differs from a good answer').not.toEqual(fingerprint(normal))
    normal.client.reset()
    seen.client.reset()
  })

  it.each(CASES.filter(([name]) => ENDLESS.test(name)))(
    '%s (%s): ends when the reader leaves',
    async (name, mode, { make }) => {
      await using provider = await startFakeProvider({ script: make(mode) })
      const client = await openRaw(provider.url)
      await client.post('/v1/chat/completions', bodyOf(mode))
      const request = await provider.waitForRequest()
      if (!name.startsWith('F07')) await client.readResponse({ toHead: true })
      if (name.startsWith('F12')) await client.readUntil(mode === 'stream' ? ' t1' : '"choices"')
      if (/^F16|^F29/.test(name)) await received(client, 500_000)
      client.reset()
      expect((await provider.waitForClose(request)).how).toMatch(/fin|reset/)
    },
  )
})

interface WireRecord {
  readonly client: RawClient
  readonly response: RawResponse | undefined
  readonly error: string | undefined
  readonly closed: string | undefined
}

async function ask(url: string, mode: FaultMode): Promise<WireRecord> {
  const client = await openRaw(url)
  await client.post('/v1/chat/completions', bodyOf(mode)).catch(() => {})
  try {
    const response = await client.readResponse()
    const closed = response.end === 'cut' ? await client.closed : undefined
    return { client, response, error: undefined, closed }
  } catch (error) {
    const message = /before [\w ]+/.exec((error as Error).message)?.[0]
    return { client, response: undefined, error: message, closed: await client.closed }
  }
}

function fingerprint({ response, error, closed }: WireRecord): unknown {
  const headers = response?.headers.filter(([name]) => name.toLowerCase() !== 'date')
  return [response?.statusLine, headers, response?.end, response?.body.toString('latin1'), error, closed]
}

async function received(client: RawClient, bytes: number): Promise<void> {
  while (client.received().length < bytes) await new Promise(resolve => client.socket.once('data', resolve))
}

function bodyOf(mode: FaultMode): object {
  const messages = [{ role: 'user', content: 'Hello' }]
  return { model: 'm', messages, max_tokens: 6, ...(mode === 'stream' ? { stream: true } : {}) }
}
