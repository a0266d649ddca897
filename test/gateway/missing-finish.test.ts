/** Answers that end properly without a finish reason: an error, unless the provider's `missing_finish` adds one. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Delta } from '#contract'
import { type Behaviour, type FakeProvider, sendStreamHead, sse, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'
import { chunksOf, contentOf, parseSse, textOf } from '../helpers/sse.ts'
import { expectRefusal } from './refusal.ts'

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: ending() })
  const remote = { dialect: 'openai', base_url: provider.baseUrl }
  const model = (of: string) => ({
    targets: [{ provider: of, model: 'x' }],
    price: PRICE,
    context: 8192,
    max_output: 100,
  })
  gateway = await startInProcess({
    yaml: {
      providers: { strict: remote, lax: { ...remote, missing_finish: 'stop' } },
      models: { strict: model('strict'), lax: model('lax') },
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const HEAD = { id: 'c', created: 1, model: 'x' }
const USAGE = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
const CALL = { index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } } as const

/** An answer of two words, or of these deltas, whose finish reason is always null. */
function ending(
  deltas: readonly Delta[] = [{ content: 'one' }, { content: ' two' }],
  end = 'data: [DONE]\n\n',
): Behaviour {
  return {
    name: 'no finish reason',
    async run(call) {
      if ((call.request.body as { stream?: boolean }).stream !== true) {
        const message = {
          role: 'assistant',
          content: deltas.map(({ content }) => content ?? '').join(''),
          ...(deltas[0]?.tool_calls ? { tool_calls: [CALL] } : {}),
        }
        call.head(200, { 'content-type': 'application/json' })
        const choices = [{ index: 0, message, finish_reason: null }]
        await call.end(JSON.stringify({ ...HEAD, object: 'chat.completion', choices, usage: USAGE }))
        return
      }
      sendStreamHead(call)
      const chunk = { ...HEAD, object: 'chat.completion.chunk' }
      for (const delta of deltas)
        await call.write(sse({ ...chunk, choices: [{ index: 0, delta, finish_reason: null }] }))
      await call.write(sse({ ...chunk, choices: [], usage: USAGE }))
      await call.end(end)
    },
  }
}

describe('by default', () => {
  test('a stream ends in an error event', async () => {
    provider.script(ending())
    const stream = parseSse(await textOf(await gateway.chat({ model: 'strict', stream: true })))
    expect(stream.done).toBe(false)
    expect(chunksOf(stream).at(-1)?.error?.code).toBe('upstream_truncated')
  })

  test('a whole answer is an error', async () => {
    provider.script(ending())
    await expectRefusal(await gateway.chat({ model: 'strict' }), 'upstream_truncated')
  })
})

describe('missing_finish: stop', () => {
  test.each([
    ['text', undefined, 'stop'],
    ['a call of a tool', [{ tool_calls: [CALL] }], 'tool_calls'],
  ] as const)('%s: the reason is filled in, and the answer is charged', async (_name, deltas, reason) => {
    provider.script(ending(deltas as readonly Delta[] | undefined))
    const before = gateway.balance().posted
    const stream = parseSse(await textOf(await gateway.chat({ model: 'lax', stream: true })))
    expect(stream).toMatchObject({ done: true, rest: '' })
    const reasons = chunksOf(stream).flatMap(({ choices }) => choices.map(choice => choice.finish_reason))
    expect(reasons.filter(Boolean)).toEqual([reason])
    if (deltas === undefined) expect(contentOf(stream)).toBe('one two')
    const whole = await gateway.chat({ model: 'lax' })
    expect(whole.status).toBe(200)
    expect(await whole.json()).toMatchObject({ choices: [{ finish_reason: reason }] })
    expect(before - gateway.balance().posted).toBe(2n * (3n * 1_000n + 2n * 2_000n))
  })

  test('but an answer without content is still an error, and costs nothing', async () => {
    const before = gateway.balance()
    for (const stream of [false, true]) {
      provider.script(ending([{ role: 'assistant' }]))
      await expectRefusal(await gateway.chat({ model: 'lax', stream }), 'upstream_truncated')
    }
    expect(gateway.balance()).toEqual(before)
  })

  test('but a stream that ends without [DONE] is still an error', async () => {
    provider.script(ending(undefined, ''))
    const answer = await gateway.chat({ model: 'lax', stream: true })
    expect(await textOf(answer)).toContain('upstream_truncated')
  })
})
