/** Plugins that use a service: an unfinished `fetch` is reported; resources that Node keeps for `fetch` are not. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { definePlugin } from '#contract'
import { conform } from '../../src/testing/index.ts'

let server: Server
let url: string
let asked = 0
beforeAll(async () => {
  server = createServer((request, response) => {
    asked++
    if (request.url === '/silent') return
    response.setHeader('content-type', 'application/json')
    response.end('{"allow":true}')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const settings = { type: 'object', additionalProperties: false, properties: {} } as const
const own = globalThis.fetch
const { timeout } = AbortSignal

test('fetch with AbortSignal.timeout passes, and both globals are restored', async () => {
  const asks = definePlugin({
    name: 'asks',
    settings,
    create: () => async (_ctx, next) => {
      const answer = await fetch(`${url}/decide`, { signal: AbortSignal.timeout(60_000) })
      await answer.json()
      await next()
    },
  })
  const before = asked
  const [one, two] = await Promise.all([
    conform(asks, {}, { endings: ['answered', 'client', 'reload', 'cut'] }),
    conform(asks, {}, { endings: ['answered'] }),
  ])
  expect(one.runs + two.runs).toBeGreaterThan(10)
  expect(asked - before).toBeGreaterThanOrEqual(one.runs + two.runs)
  expect([globalThis.fetch, AbortSignal.timeout]).toEqual([own, timeout])
})

test('a fetch that continues after dispose is reported with its place; one that dispose aborts is not', async () => {
  const stops: AbortController[] = []
  const polls = (disposes: boolean) =>
    definePlugin({
      name: 'polls',
      settings,
      create() {
        const stop = new AbortController()
        stops.push(stop)
        fetch(`${url}/silent`, { signal: stop.signal }).catch(() => {})
        return {
          handle: (_ctx, next) => next(),
          dispose() {
            if (disposes) stop.abort()
          },
        }
      },
    })
  const endings = ['answered']
  await conform(polls(true), {}, { endings })
  await expect(conform(polls(false), {}, { endings })).rejects.toThrow(
    /after dispose\(\) something is still active: a fetch made at test\/testing\/conform-fetch\.test\.ts:\d+:\d+/,
  )
  for (const stop of stops) stop.abort()
})

test('the place of a timer is in the plugin, even if it starts later', async () => {
  const late = definePlugin({
    name: 'late',
    settings,
    create: () => async (_ctx, next) => {
      await next()
      setTimeout(() => {}, 60_000).unref()
    },
  })
  await expect(conform(late, {}, { endings: ['answered'] })).rejects.toThrow(
    /something is still active: a timer made at test\/testing\/conform-fetch\.test\.ts:\d+:\d+/,
  )
})
