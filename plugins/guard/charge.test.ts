/** A client pays only for the received part of an answer that a step stops. With the real guard and ledger. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { definePlugin, type Outcome, refuse } from '#contract'
import {
  type Behaviour,
  exact,
  type FakeProvider,
  type Script,
  sendStreamHead,
  sse,
  startFakeProvider,
} from '../../test/helpers/fake-provider.ts'
import { shareGateways } from '../../test/helpers/in-process.ts'
import { textOf } from '../../test/helpers/sse.ts'

let provider: FakeProvider
beforeAll(async () => {
  provider = await startFakeProvider({ script: exact() })
})
afterAll(() => provider.close())

const event = (delta: object, finish: string | null = null) =>
  sse({
    id: 'x',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason: finish }],
  })

/** These pieces, and then the end without a finish reason. */
const brokenOff = (...pieces: readonly string[]): Behaviour => ({
  name: 'broken off',
  async run(call) {
    sendStreamHead(call)
    for (const content of pieces) await call.write(event({ content }))
    await call.end()
  },
})

/** The first word of a stream is its last one. */
const atOnce: Behaviour = {
  name: 'at once',
  async run(call) {
    sendStreamHead(call)
    await call.write(event({ role: 'assistant', content: 'Hello' }, 'stop'))
    await call.write('data: [DONE]\n\n')
    await call.end()
  },
}

const NONE = { type: 'object', additionalProperties: false, properties: {} } as const

const bug = definePlugin({
  name: 'bug',
  settings: NONE,
  create: () => async (ctx, next) => {
    ctx.exchange.edit(chunk => {
      if (chunk.choices.some(({ delta }) => delta.content)) throw new TypeError('a bug')
      return chunk
    })
    await next()
  },
})

const behind = definePlugin({
  name: 'behind',
  settings: NONE,
  create: () => async (_ctx, next) => {
    await next()
    throw refuse('content_filter')
  },
})

const guard = (pattern: string, action = 'refuse') => ({
  use: 'guard',
  with: { rules: [{ name: 'p', pattern, on: 'answer', action }] },
})
/** The guard withholds all of it, because all of it may be the beginning of a match. */
const HOLDS = 'a{3,200}X'

const start = shareGateways(() => ({ provider: provider.baseUrl, plugins: [bug, behind] }))

type Row = [
  name: string,
  step: object,
  script: Script,
  stream: boolean,
  outcome: Outcome,
  status: number,
  isCharged: boolean,
]
test.each<Row>([
  ['refused', guard('secret'), exact({ tokens: ['the ', 'secret'] }), false, 'refused', 400, false],
  ['refused at its first word', guard('secret'), exact({ tokens: ['secret', ' is'] }), true, 'refused', 200, false],
  ['refused before anything', guard('Hello'), atOnce, true, 'refused', 400, false],
  [
    'refused while all of it was held',
    guard(HOLDS),
    exact({ tokens: ['aaaa', 'aaaa', 'X', 'X'] }),
    true,
    'refused',
    200,
    false,
  ],
  ['refused behind its first word', guard('secret'), exact({ tokens: ['the ', 'secret'] }), true, 'failed', 200, true],
  ['broken off while all of it was held', guard(HOLDS, 'redact'), brokenOff('aaaa', 'aa'), true, 'failed', 200, false],
  ['broken off behind a word', guard(HOLDS, 'redact'), brokenOff('the ', 'aa'), true, 'failed', 200, true],
  ['edited by a step with a bug', { use: 'bug' }, atOnce, true, 'failed', 500, false],
  ['refused behind its end, whole', { use: 'behind' }, exact(), false, 'refused', 400, false],
  ['refused behind its end', { use: 'behind' }, exact(), true, 'failed', 200, true],
  ['refused behind its end, before a word has left', { use: 'behind' }, atOnce, true, 'refused', 400, false],
])('an answer %s', async (_name, step, script, stream, outcome, status, isCharged) => {
  provider.script(script)
  const gateway = await start({
    steps: [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits' }, step, { use: 'route', with: { attempts: 1 } }],
  })
  const before = gateway.balance().posted
  const answer = await gateway.chat({ stream })
  const text = await textOf(answer)
  expect(text).toContain('"error"')
  const paid = before - gateway.balance().posted
  expect({ status: answer.status, isCharged: paid > 0n }).toEqual({ status, isCharged })
  expect(gateway.receipt(answer)).toMatchObject({
    outcome,
    charged: paid,
    ...(isCharged ? {} : { source: 'released', usage: {} }),
  })
  const line = await gateway.exchangeLine(answer.headers.get('x-request-id')!)
  // The log still has the usage: the operator pays the provider for it.
  expect(line).toMatchObject({ outcome, usage_source: expect.stringMatching(/reported|estimated/) })
  expect(gateway.balance().held).toBe(0n)
  expect(gateway.running.store.reads.verify()).toMatchObject({ violations: [], openHolds: 0 })
})
