/** The rules of the runner, in a real gateway: the mistakes of a step and their charges. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { definePlugin, type Exchange, refuse, type StepMiddleware } from '#contract'
import { StoreUnavailable } from '../../../src/store/store.ts'
import { errorAnswer, exact, type FakeProvider, gated, startFakeProvider } from '../../helpers/fake-provider.ts'
import { type Account, FIVE_STEPS, shareGateways, startInProcess } from '../../helpers/in-process.ts'
import { ownAnswer } from '../../helpers/own-answer.ts'
import { contentOf, parseSse, textOf } from '../../helpers/sse.ts'

let provider: FakeProvider
let gateway: Account
/** The behaviour of the step under test; set by each test. */
let behaviour: StepMiddleware = (_ctx, next) => next()
let seen: { outcome: Exchange['outcome']; usage: Exchange['usage'] } | null = null

/** A step whose behaviour each test sets. */
const acts = definePlugin({
  name: 'tested',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => (ctx, next) => behaviour(ctx, next),
})

/** An outer step that only records the end. */
const witness = definePlugin({
  name: 'witness',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async (ctx, next) => {
    try {
      await next()
    } finally {
      seen = { outcome: ctx.exchange.outcome, usage: ctx.exchange.usage }
    }
  },
})

/** An outer step that refuses answered exchanges. */
const outer = definePlugin({
  name: 'outer',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async (ctx, next) => {
    ctx.exchange.edit(() => {
      throw refuse('content_filter')
    })
    await next()
  },
})

/** An outer step whose edit changes the text to upper case. */
const shout = definePlugin({
  name: 'shout',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async (ctx, next) => {
    ctx.exchange.edit(chunk => ({
      ...chunk,
      choices: chunk.choices.map(choice => ({
        ...choice,
        delta: { ...choice.delta, ...(choice.delta.content ? { content: choice.delta.content.toUpperCase() } : {}) },
      })),
    }))
    await next()
  },
})

const start = shareGateways(() => ({
  provider: provider.baseUrl,
  plugins: [acts, witness, outer, shout],
}))

/** witness, then the five steps, with the step under test at the named place. */
const policy = (step: object, place: 'outside' | 'inside') =>
  place === 'outside'
    ? [{ use: 'witness' }, step, ...FIVE_STEPS]
    : [{ use: 'witness' }, ...FIVE_STEPS.slice(0, 4), step, ...FIVE_STEPS.slice(4)]

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: 3 }) })
  gateway = await start({ steps: policy({ use: 'tested' }, 'inside') })
})
afterAll(() => provider.close())

/** 10 prompt tokens at 1,000 and 3 at 2,000 nano-dollars. */
const CHARGE = 16_000n

async function charged<Result>(act: () => Promise<Result>): Promise<{ result: Result; nano: bigint }> {
  const before = gateway.balance().posted
  const result = await act()
  const after = gateway.balance()
  expect(after.held, 'nothing stays held').toBe(0n)
  return { result, nano: before - after.posted }
}

const MODES = [{ stream: false }, { stream: true }]

describe('the body', () => {
  /** Records the length of the body when the step runs. */
  const looks = (name: string, needsBody: boolean, seen: Record<string, number | string>) =>
    definePlugin({
      name,
      ...(needsBody ? {} : { needsBody }),
      settings: { type: 'object', additionalProperties: false, properties: {} },
      create: () => async (ctx, next) => {
        try {
          seen[name] = ctx.exchange.json() === null ? 0 : ctx.exchange.bytes.length
        } catch (error) {
          seen[name] = (error as Error).message
        }
        await next()
      },
    })

  test('is read before the first step that needs it', async () => {
    const seen: Record<string, number | string> = {}
    await using gateway = await startInProcess({
      provider: provider.baseUrl,
      plugins: [looks('early', false, seen), looks('first', true, seen), looks('late', false, seen)],
      steps: [{ use: 'api-key' }, { use: 'early' }, { use: 'first' }, { use: 'late' }, ...FIVE_STEPS.slice(1)],
    })
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] })
    expect((await gateway.chat({}, { body })).status).toBe(200)
    expect(seen).toEqual({
      early: 'the body has not been read: this plugin says `needsBody: false`',
      first: body.length,
      late: body.length,
    })
  })
})

describe('mistakes of a step', () => {
  test.each(MODES)('it returns without next(): 500, named in the log, nothing charged (stream $stream)', async mode => {
    behaviour = async () => {}
    const calls = provider.requests.length
    const { result: answer, nano } = await charged(() => gateway.chat(mode))
    expect(answer.status).toBe(500)
    expect(await answer.json()).toMatchObject({ error: { code: 'plugin_error', type: 'server_error', param: null } })
    expect(nano).toBe(0n)
    expect(provider.requests.length).toBe(calls)
    const id = answer.headers.get('x-request-id')
    await gateway.waitForLog(line => line['exchange'] === id && line['step'] === 'tested')
    expect(seen?.outcome).toBe('failed')
  })

  test.each(MODES)(
    'it does not await next(): the answer is complete, charged and reported (stream $stream)',
    async mode => {
      behaviour = async (_ctx, next) => {
        next().catch(() => {})
      }
      const { result, nano } = await charged(async () => {
        const answer = await gateway.chat(mode)
        return { answer, text: await textOf(answer) }
      })
      expect(result.answer.status).toBe(200)
      if (mode.stream) expect(parseSse(result.text).done).toBe(true)
      expect(nano).toBe(CHARGE)
      const id = result.answer.headers.get('x-request-id')
      await gateway.waitForLog(line => line['exchange'] === id && /pending/.test(String(line['what'])))
    },
  )

  test('it calls next() twice: sent once', async () => {
    behaviour = async (_ctx, next) => {
      await Promise.all([next(), next()])
      await next()
    }
    const calls = provider.requests.length
    const { result: answer, nano } = await charged(() => gateway.chat())
    expect(answer.status).toBe(200)
    expect(provider.requests.length).toBe(calls + 1)
    expect(nano).toBe(CHARGE)
  })

  test.each(MODES)('it throws before next(): plugin_error, nothing charged (stream $stream)', async mode => {
    behaviour = async () => {
      throw new Error('a bug with a secret: sk-canary-0123456789')
    }
    const { result: answer, nano } = await charged(() => gateway.chat(mode))
    const body = await textOf(answer)
    expect(answer.status).toBe(500)
    expect(answer.headers.get('x-should-retry')).toBe('false')
    expect(JSON.parse(body).error.code).toBe('plugin_error')
    expect(body).not.toContain('canary')
    expect(nano).toBe(0n)
  })

  test('it throws the error of an unavailable store: 503 store_unavailable, retryable, nothing charged', async () => {
    behaviour = () => Promise.reject(new StoreUnavailable('not_written', new Error('ECONNREFUSED')))
    const { result: answer, nano } = await charged(() => gateway.chat())
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
    expect(await answer.json()).toMatchObject({
      error: { code: 'store_unavailable', message: 'The store is not available. Nothing was charged.' },
    })
    expect(nano).toBe(0n)
  })

  test('it throws after a whole answer: the client gets plugin_error and pays nothing', async () => {
    behaviour = async (_ctx, next) => {
      await next()
      throw new Error('a bug')
    }
    const { result: answer, nano } = await charged(() => gateway.chat())
    expect(answer.status).toBe(500)
    expect(await answer.json()).toMatchObject({ error: { code: 'plugin_error' } })
    expect(nano).toBe(0n)
    expect(seen?.outcome).toBe('failed')
  })

  test('it throws after a stream: an error event instead of the finish, charged as delivered', async () => {
    behaviour = async (_ctx, next) => {
      await next()
      throw new Error('a bug')
    }
    const { result: text, nano } = await charged(async () => textOf(await gateway.chat({ stream: true })))
    const stream = parseSse(text)
    expect(stream.done).toBe(false)
    expect(contentOf(stream)).not.toBe('')
    expect(text).not.toContain('"finish_reason":"stop"')
    expect(JSON.parse(stream.events.at(-1)!.data).error.code).toBe('plugin_error')
    expect(nano).toBe(CHARGE)
  })

  test('a refusal after a whole answer (an output guard): the client gets it and pays nothing', async () => {
    behaviour = async (_ctx, next) => {
      await next()
      throw refuse('content_filter', { message: 'Not this.' })
    }
    const { result: answer, nano } = await charged(() => gateway.chat())
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ error: { code: 'content_filter', message: 'Not this.' } })
    expect(nano).toBe(0n)
    expect(seen?.outcome).toBe('refused')
  })

  test('a refusal after a stream: an error event, charged as delivered, and no refusal to the ledger', async () => {
    behaviour = async (_ctx, next) => {
      await next()
      throw refuse('content_filter', { message: 'Not this.' })
    }
    const { result, nano } = await charged(async () => {
      const answer = await gateway.chat({ stream: true })
      return { answer, text: await textOf(answer) }
    })
    const stream = parseSse(result.text)
    expect(stream.done).toBe(false)
    expect(contentOf(stream)).not.toBe('')
    expect(JSON.parse(stream.events.at(-1)!.data).error.code).toBe('content_filter')
    expect(nano).toBe(CHARGE)
    expect(seen?.outcome).toBe('failed')
    expect(gateway.receipt(result.answer)).toMatchObject({
      outcome: 'failed',
      code: 'content_filter',
      source: 'reported',
      charged: CHARGE,
    })
    expect(gateway.running.store.reads.verify().violations).toEqual([])
  })

  test('a refusal before any part of a stream was sent: its status, and nothing is charged', async () => {
    behaviour = async (ctx, next) => {
      ctx.exchange.edit(() => null)
      await next()
      throw refuse('content_filter')
    }
    const { result: answer, nano } = await charged(() => gateway.chat({ stream: true }))
    expect(answer.status).toBe(400)
    expect(nano).toBe(0n)
    expect(seen?.outcome).toBe('refused')
  })

  test('its watch throws in the middle of a stream: an error event, no [DONE], upstream closed, charged as delivered', async () => {
    provider.script(gated({ tokens: 5 }))
    let chunks = 0
    behaviour = async (ctx, next) => {
      ctx.exchange.watch(() => {
        if (++chunks === 3) throw new Error('a bug')
      })
      await next()
    }
    const { result: text, nano } = await charged(async () => {
      const index = provider.requests.length
      const answer = gateway.chat({ stream: true })
      const request = await provider.waitForRequest(index)
      await request.step(3)
      const text = await textOf(await answer)
      await provider.waitForClose(request)
      return text
    })
    provider.script(exact({ tokens: 3 }))
    const stream = parseSse(text)
    expect(stream.done).toBe(false)
    expect(JSON.parse(stream.events.at(-1)!.data).error.code).toBe('plugin_error')
    expect(nano).toBeGreaterThan(0n)
    expect(nano).toBeLessThan(CHARGE)
  })
})

describe('the trail', () => {
  const verdictOf = (answer: Response) => gateway.receipt(answer)!.trail.find(({ step }) => step === 'tested')

  test.each([
    ['refuses', () => refuse('content_filter'), { verdict: 'refused', code: 'content_filter' }],
    ['breaks', () => new Error('a bug'), { verdict: 'failed', code: 'plugin_error' }],
  ] as const)(
    'a step whose edit %s in the middle of the answer has not passed, whatever else the step does',
    async (_what, thrown, entry) => {
      behaviour = async (ctx, next) => {
        let chunks = 0
        ctx.exchange.edit(chunk => {
          if (++chunks > 2 || !ctx.exchange.chat?.stream) throw thrown()
          return chunk
        })
        try {
          await next()
        } finally {
          ctx.exchange.note('saw one')
        }
      }
      for (const mode of MODES) {
        const { result: answer } = await charged(async () => {
          const answer = await gateway.chat(mode)
          await textOf(answer)
          return answer
        })
        expect(verdictOf(answer)).toEqual({ step: 'tested', ...entry, why: 'in_answer', note: 'saw one' })
        // The role and a word of the stream were sent, and nothing of the whole answer.
        const outcome = entry.verdict === 'refused' && !mode.stream ? 'refused' : 'failed'
        expect(gateway.receipt(answer)).toMatchObject({ outcome, code: entry.code })
      }
    },
  )

  test.each(MODES)(
    'if an outer step refuses the answer of a step, the trail has `answered` for the inner and `refused` for the outer step',
    async mode => {
      behaviour = ctx => ctx.exchange.answer(ownAnswer('Mine'))
      const other = await start({
        steps: [...FIVE_STEPS.slice(0, 4), { use: 'outer' }, { use: 'tested' }, ...FIVE_STEPS.slice(4)],
      })
      const answer = await other.chat(mode)
      expect(await textOf(answer)).toContain('content_filter')
      const { trail, outcome } = other.receipt(answer)!
      expect(trail.slice(-2)).toEqual([
        { step: 'outer', verdict: 'refused', code: 'content_filter', why: 'in_answer' },
        { step: 'tested', verdict: 'answered' },
      ])
      expect(outcome).toBe('refused')
    },
  )

  test('an exchange whose step answers and then refuses is refused', async () => {
    behaviour = async ctx => {
      await ctx.exchange.answer(ownAnswer('Mine'))
      throw refuse('forbidden')
    }
    const { result: answer } = await charged(() => gateway.chat())
    expect(answer.status).toBe(403)
    expect(seen?.outcome).toBe('refused')
    expect(gateway.receipt(answer)).toMatchObject({ outcome: 'refused', code: 'forbidden' })
  })
})

describe('an inner refusal', () => {
  test.each([
    {
      how: 'catches it',
      act: async (_ctx, next) => {
        await next().catch(() => {})
      },
    },
    {
      how: 'answers with its own error',
      act: async (_ctx, next) => {
        try {
          await next()
        } catch {
          throw new Error('mine')
        }
      },
    },
    {
      how: 'does nothing',
      act: (_ctx, next) => next(),
    },
  ] satisfies { how: string; act: StepMiddleware }[])(
    'reaches the client with its status 402 if an outer step $how',
    async ({ act }) => {
      behaviour = act
      const refuser = await start({
        steps: policy({ use: 'tested', mode: 'enforce' }, 'outside'),
        credit: '0.000000001',
      })
      const answer = await refuser.chat()
      expect(answer.status).toBe(402)
      expect(await answer.json()).toMatchObject({ error: { code: 'insufficient_quota' } })
      expect(answer.headers.get('x-should-retry')).toBe('false')
      expect(refuser.balance()).toMatchObject({ posted: 1n, held: 0n })
    },
  )

  test.each([
    { name: 'shadow', step: { use: 'tested', mode: 'shadow' } },
    { name: 'onError: skip', step: { use: 'tested', onError: 'skip' } },
  ])('reaches the client through an outer step with $name', async ({ step }) => {
    behaviour = (_ctx, next) => next()
    const poor = await start({ steps: policy(step, 'outside'), credit: '0.000000001' })
    const answer = await poor.chat()
    expect(answer.status).toBe(402)
    expect(seen?.outcome).toBe('refused')
  })
})

describe('shadow and skip', () => {
  test('shadow records what a step would have done and changes nothing', async () => {
    const shadow = await start({ steps: policy({ use: 'tested', mode: 'shadow' }, 'inside') })
    for (const act of [
      async () => {
        throw refuse('forbidden')
      },
      async () => {
        throw new Error('a bug')
      },
      async ctx => {
        ctx.set('x-shadow', '1')
        ctx.status = 403
        ctx.body = 'no'
      },
      async (ctx, next) => {
        ctx.exchange.edit(() => null)
        ctx.set('x-shadow', '1')
        await next()
      },
      async (_ctx, next) => {
        await next()
        throw refuse('forbidden')
      },
    ] satisfies StepMiddleware[]) {
      behaviour = act
      const answer = await shadow.chat()
      expect(answer.status).toBe(200)
      expect(answer.headers.get('x-shadow')).toBe(null)
      const body = (await answer.json()) as { choices: { message: { content: string } }[] }
      expect(body.choices[0]!.message.content).not.toBe('')
    }
  })

  test('a would-be refusal is in the trail of the receipt', async () => {
    const shadow = await start({ steps: policy({ use: 'tested', mode: 'shadow' }, 'inside') })
    behaviour = async () => {
      throw refuse('forbidden')
    }
    const answer = await shadow.chat()
    expect(shadow.receipt(answer)?.trail).toContainEqual({ step: 'tested', verdict: 'would_refuse', code: 'forbidden' })
  })

  test('in shadow a step reads the facts and the trail like any other', async () => {
    const shadow = await start({ steps: policy({ use: 'tested', mode: 'shadow' }, 'inside') })
    let read: unknown[] = []
    behaviour = async ({ exchange }, next) => {
      const { key, account, chat, model, trail, outcome } = exchange
      read = [key?.name, account?.id, chat?.stream, model?.id, trail.map(({ step }) => step), outcome]
      await next()
    }
    const answer = await shadow.chat()
    expect(answer.status).toBe(200)
    const before = ['witness', 'api-key', 'schema', 'rate-limit', 'credits']
    expect(read).toEqual(['test', shadow.accountId, false, 'm', before, null])
    expect(shadow.receipt(answer)?.trail).toContainEqual({ step: 'tested', verdict: 'passed' })
  })

  test('if a step in shadow returns without next(), the inner steps run once, even if they fail', async () => {
    const shadow = await start({ steps: policy({ use: 'tested', mode: 'shadow' }, 'inside') })
    behaviour = async () => {}
    const asked = provider.requests.length
    provider.script(errorAnswer(500))
    const answer = await shadow.chat()
    provider.script(exact({ tokens: 3 }))
    expect(await answer.json()).toMatchObject({ error: { code: 'upstream_error' } })
    expect(provider.requests.length - asked).toBe(1)
  })

  test('onError: skip continues without a step that failed before next(), but not without a step that refuses', async () => {
    const skip = await start({ steps: policy({ use: 'tested', onError: 'skip' }, 'inside') })
    behaviour = async () => {
      throw new Error('a bug')
    }
    expect((await skip.chat()).status).toBe(200)
    behaviour = async () => {
      throw refuse('forbidden')
    }
    expect((await skip.chat()).status).toBe(403)
  })
})

describe('an answer of a step', () => {
  test.each(MODES)(
    'has the requested form and the edits of outer steps, and is free of charge (stream $stream)',
    async mode => {
      const early = await start({ steps: [{ use: 'shout' }, ...policy({ use: 'tested' }, 'inside')] })
      behaviour = ctx => ctx.exchange.answer(ownAnswer('from the cache'))
      const calls = provider.requests.length
      const answer = await early.chat(mode)
      const text = await textOf(answer)
      if (mode.stream) {
        const stream = parseSse(text)
        expect(stream.done).toBe(true)
        expect(contentOf(stream)).toBe('FROM THE CACHE')
      } else expect(JSON.parse(text).choices[0].message.content).toBe('FROM THE CACHE')
      expect(provider.requests.length).toBe(calls)
      expect(early.receipt(answer)).toMatchObject({ charged: 0n, source: 'cached', outcome: 'answered' })
      expect(early.balance().held).toBe(0n)
    },
  )
})
