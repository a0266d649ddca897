/** More requests than the process can answer: some are refused at once, so that the others are answered in time. */
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { exact, startFakeProvider } from '../helpers/fake-provider.ts'
import { createAccount, startGateway } from '../helpers/gateway.ts'
import { FIVE_STEPS, PRICE } from '../helpers/in-process.ts'
import { openRaw, type RawResponse } from '../helpers/raw-client.ts'
import { until } from '../helpers/until.ts'

const CLIENTS = 300
/** A limit so low that the clients of this test exceed it. */
const EVENT_LOOP = '1ms'
const BODY = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi'.repeat(2000) }] })
/** In chunks of one byte: they cost the gateway more than its clients, so that the gateway is overloaded first. */
const CHUNKS = `${[...BODY].map(byte => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`

test('answers some with 503 and Retry-After, spares /livez, and ends', async () => {
  await using provider = await startFakeProvider({ script: exact() })
  const gateway = await startGateway({
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      admin: '127.0.0.1:0',
      store: 'memory',
      limits: { event_loop: EVENT_LOOP },
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
      models: {
        m: { targets: [{ provider: 'p', model: 'upstream-model' }], price: PRICE, context: 8192, max_output: 100 },
      },
      routes: [{ path: '/v1/chat/completions', policy: 'test' }],
    },
    policies: { test: { steps: FIVE_STEPS } },
  })
  const { key } = await createAccount(gateway, { credit: '1000000' })
  const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nAuthorization: Bearer ${key}\r\n`
  const inChunks = `${head}Transfer-Encoding: chunked\r\n\r\n${CHUNKS}`
  let isRunning = true
  const port = Number(new URL(gateway.url).port)
  const statuses = new Map<string, number>()
  // Each request on its own connection.
  const client = async () => {
    while (isRunning) {
      const status = await new Promise<string>(resolve => {
        let text = ''
        const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(inChunks))
        socket.on('data', bytes => {
          text += bytes.toString('latin1')
          socket.destroy()
        })
        socket.on('error', () => {})
        socket.on('close', () => resolve(text === '' ? 'closed' : text.slice(9, 12)))
      })
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  const clients = Array.from({ length: CLIENTS }, client)
  try {
    await gateway.waitForLog(
      line =>
        line['msg'] === 'the event loop is overloaded: requests of the accounts with most of the work are refused',
    )
    // On a connection that is there already, until an answer ends it.
    let probe = await openRaw(gateway.url)
    let refused: RawResponse | null = null
    while (refused === null) {
      await probe.send(`${head}Content-Length: ${BODY.length}\r\n\r\n${BODY}`)
      const answer = await probe.readResponse()
      if (answer.status === 503) refused = answer
      if (answer.header('connection') === 'close') {
        probe.socket.destroy()
        probe = await openRaw(gateway.url)
      }
      await probe.send('GET /livez HTTP/1.1\r\nHost: gateway\r\n\r\n')
      expect((await probe.readResponse()).status).toBe(200)
    }
    expect(refused.header('retry-after')).toBe('1')
    expect(JSON.parse(refused.text())).toMatchObject({
      error: { code: 'overloaded', type: 'server_error', param: null },
    })
    expect(refused.header('x-request-id')).toMatch(/^req_/)
    probe.socket.destroy()
  } finally {
    isRunning = false
    await Promise.all(clients)
  }
  // The overload may have ended before and started again: the log line may be an earlier one.
  await until(async () => {
    const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
    expect(metrics).toMatch(/^tollgate_inflight_exchanges 0$/m)
    expect(metrics).toMatch(/^tollgate_overloaded 0$/m)
  })
  await gateway.waitForLog(line => line['msg'] === 'the overload of the event loop has ended')
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: BODY,
  })
  expect(answer.status).toBe(200)
  console.log(
    `of ${CLIENTS} clients at once: ${[...statuses].map(([status, count]) => `${status} ${count}`).join(', ')}`,
  )
  expect(await gateway.stop()).toBe(0)
})
