import { afterEach, describe, expect, it } from 'vitest'
import { exact, type FakeProvider, gated, startFakeProvider, stream } from './fake-provider.ts'
import { type ConnectionFaults, type FaultProxy, startFaultProxy } from './fault-proxy.ts'
import { expectWithin } from './promised.ts'
import { openRaw } from './raw-client.ts'
import { contentOf, parseSse } from './sse.ts'
import { REFUSED_URL } from './unreachable.ts'

let provider: FakeProvider
let proxy: FaultProxy
afterEach(async () => {
  await proxy.close()
  await provider.close()
})

const BODY = { model: 'm', stream: true, messages: [{ role: 'user', content: 'Hello' }] }

describe('breaking', () => {
  it.each([
    ['fin', 'fin'],
    ['rst', 'reset'],
  ] as const)('cuts the answer at a byte by %s, and the provider sees it', async (how, seen) => {
    await start({ down: { cut: { afterBytes: 200, how } } }, gated())
    const client = await openRaw(proxy.url)
    await client.post('/v1', BODY)
    await provider.step()
    expect((await client.readToEnd()).length).toBe(200)
    expect(await client.closed).toBe(seen)
    await (await proxy.waitForConnection()).closed
    expect((await provider.waitForClose(provider.requests[0]!)).how).toBe(seen)
    expect(proxy.connections[0]!.passed.down).toBe(200)
  })

  it('cuts the request at a byte', async () => {
    await start({ up: { cut: { afterBytes: 20, how: 'fin' } } })
    const client = await openRaw(proxy.url)
    await client.post('/v1', BODY)
    expect(await client.closed).toMatch(/fin|reset/)
    expect(proxy.connections[0]!.passed.up).toBe(20)
    expect(provider.requests).toHaveLength(0)
  })

  it('cuts on request', async () => {
    await start({}, gated())
    const client = await openRaw(proxy.url)
    await client.post('/v1', BODY)
    await provider.step()
    await client.readUntil('assistant')
    proxy.connections[0]!.cut('rst')
    expect(await client.closed).toBe('reset')
    expect((await provider.waitForClose(provider.requests[0]!)).how).toBe('reset')
  })

  it('refuses single connections', async () => {
    await start(connection => ({ refuse: connection === 0 }))
    expect(await endOfConnecting()).toMatch(/reset/i)
    expect(await ask()).toContain('[DONE]')
  })

  it('a target that is not there is a reset', async () => {
    provider = await startFakeProvider({ script: exact() })
    proxy = await startFaultProxy({ target: REFUSED_URL })
    expect(await endOfConnecting()).toMatch(/reset/i)
  })

  it.each([
    ['fin', 'fin'],
    ['reset', 'reset'],
  ] as const)('a client that leaves by %s does so through the proxy', async (leave, how) => {
    await start({}, gated())
    const client = await openRaw(proxy.url)
    await client.post('/v1', BODY)
    await provider.step()
    client[leave]()
    expect((await provider.waitForClose(provider.requests[0]!)).how).toBe(how)
  })
})

describe('delaying', () => {
  it('passes everything as it was, by default', async () => {
    await start({})
    const text = await ask()
    expect(contentOf(parseSse(bodyOf(text)))).toBe('t0 t1 t2')
  })

  it('slices: the reader gets the same bytes in many pieces', async () => {
    await start({ down: { sliceBytes: 1 } })
    const client = await openRaw(proxy.url)
    let pieces = 0
    client.socket.on('data', () => pieces++)
    await client.post('/v1', BODY)
    const response = await client.readResponse()
    expect(contentOf(parseSse(response.text()))).toBe('t0 t1 t2')
    expect(pieces).toBeGreaterThan(50)
    client.fin()
  })

  it('latency is added once a way, not once a packet', async () => {
    await start({ up: { latencyMs: 60 }, down: { latencyMs: 60 } }, stream({ tokens: 50 }))
    const startedAt = performance.now()
    await ask()
    const ms = performance.now() - startedAt
    expect(ms).toBeGreaterThanOrEqual(119)
    expectWithin(ms, 1500)
  })

  it('bandwidth', async () => {
    await start({ up: { bytesPerSecond: 1000 } })
    const startedAt = performance.now()
    const client = await openRaw(proxy.url)
    await client.send(`POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nx: ${'a'.repeat(100)}\r\n\r\n`)
    await proxy.waitForConnection()
    await client.send('{}')
    await provider.waitForRequest()
    expect(performance.now() - startedAt).toBeGreaterThan(100)
    client.reset()
  })

  it('holds after a byte until it is released', async () => {
    await start({ down: { holdAfterBytes: 100 } })
    const client = await openRaw(proxy.url)
    await client.post('/v1', BODY)
    await provider.waitForClose(await provider.waitForRequest())
    await client.readUntil('HTTP/1.1 200')
    const connection = await proxy.waitForConnection()
    expect(connection.passed.down).toBe(100)
    connection.release()
    expect((await client.readResponse()).end).toBe('chunked')
    client.fin()
  })
})

async function start(
  faults: ConnectionFaults | ((connection: number) => ConnectionFaults),
  script = exact(),
): Promise<void> {
  provider = await startFakeProvider({ script })
  proxy = await startFaultProxy({ target: provider.url, faults })
}

/** A reset may arrive before the `connect` event. */
async function endOfConnecting(): Promise<string> {
  return openRaw(proxy.url).then(
    client => client.closed,
    error => (error as NodeJS.ErrnoException).code!,
  )
}

async function ask(): Promise<string> {
  const client = await openRaw(proxy.url)
  await client.post('/v1', BODY, { connection: 'close' })
  const response = await client.readResponse()
  client.fin()
  return `${response.end}\n${response.text()}`
}

function bodyOf(text: string): string {
  return text.slice(text.indexOf('\n') + 1)
}
