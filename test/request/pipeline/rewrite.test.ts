/** `exchange.rewrite()`: the fields that a step may change, the time when it may do so, and the result. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AnyPlugin, type ChatChanges, type ChatRequest, definePlugin, type StepMiddleware } from '#contract'
import { type Bench, openBench } from '../../../src/testing/index.ts'

const NO_SETTINGS = { type: 'object', additionalProperties: false, properties: {} } as const
const INSTRUCTION = { role: 'system', content: 'Be brief.' }

let behaviour: StepMiddleware = (_ctx, next) => next()
const mine: AnyPlugin = definePlugin({
  name: 'mine',
  settings: NO_SETTINGS,
  create: () => (ctx, next) => behaviour(ctx, next),
})

const open = (...steps: readonly string[]) =>
  openBench({
    plugins: [mine],
    steps: steps.map(use => ({ use, ...(use === 'route' ? { with: { attempts: 1 } } : {}) })),
  })

const rewriting = (changes: ChatChanges): StepMiddleware => {
  return async (ctx, next) => {
    ctx.exchange.rewrite(changes)
    await next()
  }
}

let bench: Bench
beforeAll(async () => {
  bench = await open('api-key', 'schema', 'mine', 'credits', 'route')
})
afterAll(() => bench.close())

describe('a rewrite is refused, and nothing is sent or charged,', () => {
  test.each<[string, ChatChanges, string]>([
    ['the model', { model: 'other' }, 'rewrites "model"'],
    ['the form', { stream: true }, 'rewrites "stream"'],
    ['the number of choices', { n: 3 }, 'rewrites "n"'],
    ['the cap', { max_tokens: 1_000_000 }, 'rewrites "max_tokens"'],
    ['the newer name of the cap', { max_completion_tokens: 5 }, 'rewrites "max_completion_tokens"'],
    ['whether usage is sent', { stream_options: null }, 'rewrites "stream_options"'],
  ])('of %s', async (_name, changes, sentence) => {
    behaviour = rewriting(changes)
    const calls = bench.upstream.calls.length
    const answer = await bench.chat()
    expect(answer.error?.code).toBe('plugin_error')
    expect(String((bench.mistakes.at(-1) as { error?: unknown }).error)).toContain(sentence)
    expect(bench.upstream.calls.length).toBe(calls)
    expect(bench.ledger.balance()).toEqual({ posted: 10_000_000_000n, held: 0n })
  })

  test('after next()', async () => {
    behaviour = async (ctx, next) => {
      await next()
      ctx.exchange.rewrite({ messages: [INSTRUCTION] })
    }
    expect((await bench.chat()).error?.code).toBe('plugin_error')
    expect(String((bench.mistakes.at(-1) as { error?: unknown }).error)).toContain('before it calls next()')
  })

  test.each([
    [['api-key', 'mine', 'schema', 'credits', 'route'], 'a request that was not read; add "chat" to its `needs`'],
    [['api-key', 'schema', 'credits', 'mine', 'route'], 'a request after credit was held for it'],
  ])('in the order %j', async (steps, sentence) => {
    behaviour = rewriting({ messages: [INSTRUCTION] })
    await using other = await open(...steps)
    expect((await other.chat()).error?.code).toBe('plugin_error')
    expect(String((other.mistakes[0] as { error?: unknown }).error)).toContain(sentence)
    expect(other.upstream.calls).toEqual([])
    expect(other.ledger.balance()).toEqual({ posted: 10_000_000_000n, held: 0n })
  })
})

describe('a rewritten request', () => {
  test.each([false, true])('is sent and held for, and body and bytes agree (stream: %s)', async stream => {
    const messages = [INSTRUCTION, { role: 'user', content: 'x'.repeat(3_000) }]
    let before: ChatRequest | null = null
    let held = false
    behaviour = async (ctx, next) => {
      const chat = ctx.exchange.chat!
      before = chat.body
      ctx.exchange.rewrite({ messages, user: undefined, metadata: { a: 'b' } })
      held = JSON.stringify(chat.body) === chat.bytes.toString()
      await next()
    }
    const plain = await openPlain(stream)
    const answer = await bench.chat({ stream, user: 'ann', seed: 7 })
    expect(answer.status).toBe(200)
    expect(bench.upstream.calls.at(-1)!.body).toMatchObject({ messages, metadata: { a: 'b' }, seed: 7 })
    expect(bench.upstream.calls.at(-1)!.body).not.toHaveProperty('user')
    expect(held).toBe(true)
    // The original request is not changed.
    expect(before!.messages).toEqual([{ role: 'user', content: 'Hello' }])
    // The hold assumes a token per byte, at a thousand nano-dollars.
    expect(bench.ledger.receipt(answer)!.held - plain).toBeGreaterThan(2_900_000n)
  })

  const openPlain = async (stream: boolean) => {
    const mine = behaviour
    behaviour = (_ctx, next) => next()
    const answer = await bench.chat({ stream })
    behaviour = mine
    return bench.ledger.receipt(answer)!.held
  }

  test('in shadow it is only recorded, and the request is sent unchanged', async () => {
    behaviour = rewriting({ messages: [INSTRUCTION] })
    await using shadow = await openBench({
      plugins: [mine],
      steps: [
        { use: 'api-key' },
        { use: 'schema' },
        { use: 'mine', mode: 'shadow' },
        { use: 'credits' },
        { use: 'route', with: { attempts: 1 } },
      ],
    })
    const answer = await shadow.chat()
    expect(answer.status).toBe(200)
    expect(shadow.upstream.calls[0]!.body!['messages']).toEqual([{ role: 'user', content: 'Hello' }])
    expect(shadow.trail(answer).find(({ step }) => step === 'mine')?.would).toEqual([{ deed: 'rewrite' }])
  })
})
