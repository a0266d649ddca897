/** Steps that answer: without awaiting the answer, with its refusal caught, or too late. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type AnyPlugin, definePlugin, refuse, type StepMiddleware } from '#contract'
import { FIVE_STEPS, type InProcess, startInProcess } from '../../helpers/in-process.ts'
import { ownAnswer } from '../../helpers/own-answer.ts'
import { textOf } from '../../helpers/sse.ts'

const GRACE_MS = 150

let inner: StepMiddleware
let outer: StepMiddleware
let gateway: InProcess

const step = (name: string, act: () => StepMiddleware): AnyPlugin =>
  definePlugin({
    name,
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => (ctx, next) => act()(ctx, next),
  })

beforeAll(async () => {
  gateway = await startInProcess({
    plugins: [step('outer', () => outer), step('inner', () => inner)],
    steps: [...FIVE_STEPS.slice(0, 4), { use: 'outer' }, { use: 'inner' }, ...FIVE_STEPS.slice(4)],
    stepGraceMs: GRACE_MS,
    yaml: { admin: '127.0.0.1:0' },
  })
})
afterAll(() => gateway.stop())

const pass: StepMiddleware = (_ctx, next) => next()
const MODES = [{ stream: false }, { stream: true }]

test.each(MODES)('a step that does not wait for its own answer has answered (stream $stream)', async mode => {
  outer = pass
  inner = async ctx => {
    void ctx.exchange.answer(ownAnswer('mine'))
  }
  const answer = await gateway.chat(mode)
  expect(answer.status).toBe(200)
  expect(await textOf(answer)).toContain('mine')
  expect(gateway.receipt(answer)).toMatchObject({ outcome: 'answered', charged: 0n })
})

test.each(MODES)('the gateway waits for an answer that a watch delays (stream $stream)', async mode => {
  outer = async (ctx, next) => {
    ctx.exchange.watch(() => new Promise(resolve => setTimeout(resolve, 20)))
    await next()
  }
  inner = async ctx => {
    void ctx.exchange.answer(ownAnswer('mine'))
  }
  const answer = await gateway.chat(mode)
  expect(answer.status).toBe(200)
  const text = await textOf(answer)
  expect(text).toContain('mine')
  if (mode.stream) expect(text).toContain('[DONE]')
  expect(gateway.receipt(answer)).toMatchObject({ outcome: 'answered', charged: 0n })
})

const refuses: StepMiddleware = async (ctx, next) => {
  ctx.exchange.edit(() => {
    throw refuse('content_filter')
  })
  await next()
}

test.each(MODES)('a step cannot suppress the refusal of its own answer (stream $stream)', async mode => {
  outer = refuses
  inner = ctx => ctx.exchange.answer(ownAnswer('mine')).catch(() => {})
  const answer = await gateway.chat(mode)
  const text = await textOf(answer)
  expect(text).toContain('content_filter')
  expect(text).not.toContain('mine')
  expect(gateway.receipt(answer)).toMatchObject({ outcome: 'refused', code: 'content_filter' })
})

test.each(MODES)('a step that hangs cannot suppress the refusal of its own answer (stream $stream)', async mode => {
  outer = refuses
  inner = async ctx => {
    await ctx.exchange.answer(ownAnswer('mine')).catch(() => {})
    await new Promise(() => {})
  }
  const answer = await gateway.chat(mode)
  expect(await textOf(answer)).toContain('content_filter')
  expect(gateway.receipt(answer)).toMatchObject({ outcome: 'refused', code: 'content_filter' })
})

test('a step cannot answer after its own refusal, and the exchange ends', async () => {
  outer = pass
  const late = Promise.withResolvers<unknown>()
  inner = async ctx => {
    ctx.res.once('finish', () => ctx.exchange.answer(ownAnswer('mine')).then(late.resolve, late.resolve))
    throw refuse('forbidden')
  }
  const answer = await gateway.chat()
  expect(answer.status).toBe(403)
  expect(String(await late.promise)).toContain('before it calls next()')
  const metrics = async () => (await fetch(`${gateway.running.adminUrl}/metrics`)).text()
  await expect.poll(metrics).toContain('tollgate_inflight_exchanges 0')
})

test('a step in shadow reads its own assignments, which have no effect', async () => {
  await using shadowed = await startInProcess({
    plugins: [step('inner', () => inner)],
    steps: [...FIVE_STEPS.slice(0, 4), { use: 'inner', mode: 'shadow' }, ...FIVE_STEPS.slice(4)],
  })
  const seen: unknown[] = []
  inner = async (ctx, next) => {
    ctx.exchange.attemptsAtMost = 7
    ctx.exchange.onDropped = 'tell'
    ctx.exchange.onDisconnect = 'drain'
    ctx.exchange.charge = { amount: 5n, overrun: 0n }
    seen.push(ctx.exchange.attemptsAtMost, ctx.exchange.charge)
    await next()
  }
  const answer = await shadowed.chat()
  expect(answer.status).toBe(200)
  expect(seen).toEqual([7, { amount: 5n, overrun: 0n }])
  expect(shadowed.receipt(answer)!.trail.find(each => each.step === 'inner')).toMatchObject({ verdict: 'passed' })
})
