/** The fields of trail lines: verdict, reason, suppressed actions and notes of a step. */
import { describe, expect, test } from 'vitest'
import { definePlugin, refuse, type StepMiddleware, type TrailEntry, type TrailWhy } from '#contract'
import { openBench, STANDARD_STEPS } from '../../../src/testing/index.ts'
import { ownAnswer } from '../../helpers/own-answer.ts'

/** A bench with the step under test; `further` has more keys of its YAML. */
function benchOf(act: StepMiddleware, further: object = {}) {
  const mine = definePlugin({
    name: 'mine',
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => act,
  })
  return openBench({
    plugins: [mine],
    steps: [...STANDARD_STEPS.slice(0, -1), { use: 'mine', ...further }, ...STANDARD_STEPS.slice(-1)],
    stepGraceMs: 50,
  })
}

const bug = () => {
  throw new Error('a bug')
}
const no = () => {
  throw refuse('forbidden')
}

describe('a step that', () => {
  interface Row {
    readonly act: StepMiddleware
    readonly further?: object
    readonly provider?: object
    readonly entry: Omit<TrailEntry, 'step'>
    readonly decider: string | null
  }
  const failed = (why?: TrailWhy) =>
    ({ verdict: 'failed', code: 'plugin_error', ...(why === undefined ? {} : { why }) }) as const
  const rows: Record<string, Row> = {
    'does nothing': { act: async () => {}, entry: failed('no_decision'), decider: 'mine' },
    throws: { act: bug, entry: failed(), decider: 'mine' },
    'throws with onError: skip': {
      act: bug,
      further: { onError: 'skip' },
      entry: failed('skipped_on_error'),
      decider: null,
    },
    'does not wait for the answer': {
      act: async (_ctx, next) => void next(),
      entry: failed('not_awaited'),
      decider: null,
    },
    'throws after a failed provider': {
      act: (_ctx, next) => next().catch(bug),
      provider: { status: 500 },
      entry: failed('threw_after_error'),
      decider: 'send',
    },
    'suppresses the error of a provider': {
      act: (_ctx, next) => next().catch(() => {}),
      provider: { status: 500 },
      entry: { verdict: 'passed', why: 'kept_error' },
      decider: 'send',
    },
    'has a bug in its watch': {
      act: (ctx, next) => {
        ctx.exchange.watch(bug)
        return next()
      },
      entry: failed('in_answer'),
      decider: 'mine',
    },
    'adds notes while the answer is sent': {
      act: async (ctx, next) => {
        const { exchange } = ctx
        ctx.exchange.watch(() => ctx.exchange.note('watched'))
        ctx.exchange.edit(chunk => {
          exchange.note('edited')
          return chunk
        })
        await next()
        ctx.exchange.note('over')
      },
      entry: { verdict: 'passed', note: 'edited; watched; over' },
      decider: null,
    },
    'refuses an answer in its edit, with a note': {
      act: (ctx, next) => {
        ctx.exchange.note('skipped by onError; in the middle')
        ctx.exchange.edit(no)
        return next()
      },
      entry: { verdict: 'refused', code: 'forbidden', why: 'in_answer', note: 'skipped by onError; in the middle' },
      decider: 'mine',
    },
    'is skipped': {
      act: bug,
      further: { when: 'account.plan == "pro"' },
      entry: { verdict: 'skipped' },
      decider: null,
    },
    'has another id': {
      act: (_ctx, next) => next(),
      further: { id: 'credits-of-mine' },
      entry: { plugin: 'mine', verdict: 'passed' },
      decider: null,
    },
    'would rewrite, set a header and answer': {
      act: async ctx => {
        ctx.exchange.rewrite({ temperature: 0 })
        ctx.set('x-mine', '1')
        ctx.set('x-mine', '2')
        await ctx.exchange.answer(ownAnswer('mine'))
      },
      further: { mode: 'shadow' },
      entry: {
        verdict: 'would_refuse',
        would: [{ deed: 'rewrite' }, { deed: 'answer' }, { deed: 'set_header', header: 'x-mine' }],
      },
      decider: null,
    },
    'would refuse an answer in its edit': {
      act: (ctx, next) => {
        ctx.exchange.edit(no)
        return next()
      },
      further: { mode: 'shadow' },
      entry: { verdict: 'would_refuse', code: 'forbidden', why: 'in_answer', would: [{ deed: 'edit' }] },
      decider: null,
    },
  }

  test.each(Object.entries(rows))('%s', async (_name, { act, further, provider, entry, decider }) => {
    await using bench = await benchOf(act, further)
    if (provider) bench.upstream.script(provider)
    const answer = await bench.chat()
    const id = (further as { id?: string } | undefined)?.id ?? 'mine'
    expect(bench.trail(answer).find(({ step }) => step === id)).toEqual({ step: id, ...entry })
    expect(bench.record(answer)?.decidedBy).toBe(decider)
  })
})

test('steps that pass without details share the entries of their plan', async () => {
  await using bench = await benchOf((_ctx, next) => next())
  const [one, other] = [bench.trail(await bench.chat()), bench.trail(await bench.chat())]
  expect(one).toHaveLength(STANDARD_STEPS.length + 1)
  for (const [index, entry] of one.entries()) expect(other[index]).toBe(entry)
})
