/** The effect of a shutdown on the dashboard; gateway/shutdown.test.ts has the effect on clients. */
import { existsSync } from 'node:fs'
import { afterAll, expect, test, vi } from 'vitest'
import { definePlugin } from '#contract'
import type { Logger } from '../../src/observe/log.ts'
import { createShutdown } from '../../src/runtime/shutdown.ts'
import { beside } from '../helpers/edit-configuration.ts'
import { type FakeProvider, gated, startFakeProvider } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, startInProcess } from '../helpers/in-process.ts'

const STREAMS = 4

let provider: FakeProvider | null = null
afterAll(() => provider?.close())

test('playground answers in progress at the shutdown arrive completely', async () => {
  provider = await startFakeProvider({ script: gated({ tokens: 3 }) })
  const gateway = await startInProcess({
    provider: provider.baseUrl,
    yaml: { dashboard: '127.0.0.1:0', registration: { mode: 'open', credit: '$5' } },
  })
  const url = gateway.running.dashboardUrl!
  const post = (path: string, body: object, cookie = '') =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-tollgate-dashboard': '1', origin: url, cookie },
      body: JSON.stringify(body),
    })
  const registered = await post('/api/register', { email: 'ada@example.com', password: 'correct horse battery' })
  expect(registered.status).toBe(201)
  const cookie = registered.headers.getSetCookie()[0]!.split(';')[0]!
  const asked = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] }
  const answers = Array.from({ length: STREAMS }, () => post('/api/playground', asked, cookie))
  await provider.waitForRequest(STREAMS - 1)
  gateway.running.drain()
  provider.release()
  for (const answer of await Promise.all(answers)) {
    expect(answer.status).toBe(200)
    expect((await answer.text()).trimEnd().endsWith('data: [DONE]')).toBe(true)
  }
  expect(await gateway.running.finished).toBe(0)
})

test('a step that fails to dispose blocks neither the others nor the store; the exit code is 1', async () => {
  const settings = { type: 'object', additionalProperties: false, properties: {} } as const
  const disposed: string[] = []
  const plugins = ['rude', 'polite'].map(name =>
    definePlugin<Record<string, never>>({
      name,
      settings,
      create: () => ({
        handle: (_ctx, next) => next(),
        dispose() {
          disposed.push(name)
          if (name === 'rude') throw new Error('it does not go')
        },
      }),
    }),
  )
  const gateway = await startInProcess({
    plugins,
    steps: [{ use: 'rude' }, { use: 'polite' }, ...FIVE_STEPS],
    store: 'sqlite:./ledger.db',
  })
  const owner = beside(gateway, 'ledger.db.owner')
  expect(existsSync(owner)).toBe(true)
  gateway.running.drain()
  expect(await gateway.running.finished).toBe(1)
  expect(disposed).toEqual(['rude', 'polite'])
  expect(JSON.stringify(gateway.log)).toContain('it does not go')
  expect(() => gateway.running.store.reads.findAccount(gateway.accountId)).toThrow()
  expect(existsSync(owner)).toBe(false)
  await gateway.stop()
})

test.each([
  ['even if exchanges do not end', false, 'exchanges did not end after they were cut'],
  ['even if a resource is not released', true, /^every exchange has ended, but some resources/],
])('the process ends %s, and the log has the reason', async (_name, isIdle, says) => {
  vi.useFakeTimers()
  try {
    const never = new Promise<void>(() => {})
    const lines: string[] = []
    const write = (_fields: object, message: string) => void lines.push(message)
    const codes: number[] = []
    let cuts = 0
    const end = createShutdown({
      serving: {
        inflight: () => 0,
        drain() {},
        cut: () => void cuts++,
        idle: () => (isIdle ? Promise.resolve() : never),
        waiting: async () => 0,
        flushed: () => Promise.resolve(),
      },
      log: { log: { info: write, error: write }, flush() {} } as unknown as Logger,
      drainMs: () => 1000,
      undo: [() => never],
      finish: code => codes.push(code),
    })
    end()
    await vi.advanceTimersByTimeAsync(1)
    end()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(codes).toEqual([1])
    expect(lines).toEqual(['shutting down', expect.stringMatching(says)])
    expect(cuts).toBe(isIdle ? 0 : 1)
  } finally {
    vi.useRealTimers()
  }
})
