/**
 * The cost of a step alone, without a network: the real plan, runner, exchange and conditions, but no upstream call. A policy
 * has 20 steps of one kind after five others; the cost of those five in the same round is subtracted. Costs are CPU time of the
 * whole process, including V8's threads. Kinds take turns, so that other load affects all of them.
 */
import type { Context } from 'koa'
import {
  type Account,
  type AnyPlugin,
  type Chat,
  type Chunk,
  definePlugin,
  type Key,
  type Model,
  refuse,
  type StepMiddleware,
} from '#contract'
import { compileWhen } from '../../src/config/conditions/when.ts'
import { createPlan, type Plan, type PlannableStep } from '../../src/loader/plan.ts'
import type { Client } from '../../src/request/answer/client.ts'
import { StreamAnswer } from '../../src/request/answer/stream.ts'
import type { Tap } from '../../src/request/answer/taps.ts'
import type { Exchange } from '../../src/request/exchange.ts'
import { runPlan } from '../../src/request/pipeline/runner.ts'
import { mistakeSentence } from '../../src/request/pipeline/step-report.ts'
import { Contexts } from '../../src/simulate/context.ts'
import { SimulatedExchange, simulatedReply } from '../../src/simulate/exchange.ts'
import { median } from './report.ts'

/** The number of steps of one kind in a policy. */
export const TIMES = 20
const REQUESTS = 3000
const CHUNKS = 20_000
/** Unmeasured rounds, in which V8 compiles. */
const WARM_ROUNDS = 4

/** Microseconds per step and request, or per tap and chunk: a figure for each round. */
export interface StepCosts {
  readonly steps: ReadonlyMap<string, readonly number[]>
  readonly taps: ReadonlyMap<string, readonly number[]>
}

/** @param progress receives a title for each round */
export async function measureStepCosts(rounds: number, progress: (text: string) => void): Promise<StepCosts> {
  const plans = new Map(Object.entries(KINDS).map(([name, kind]) => [name, planOf(kind)]))
  const none = planOf(null)
  const steps = new Map<string, number[]>(Object.keys(KINDS).map(name => [name, []]))
  const taps = new Map<string, number[]>(Object.keys(TAPS).map(name => [name, []]))
  for (let round = -WARM_ROUNDS; round < rounds; round++) {
    progress(`steps alone: round ${Math.max(round + 1, 0)} of ${rounds}`)
    const alone = await costOf(none)
    for (const [name, plan] of inTurn([...plans], round)) {
      const cost = ((await costOf(plan)) - alone) / TIMES
      if (round >= 0) steps.get(name)!.push(cost)
    }
    const passed = chunkCost([])
    for (const [name, { tap, times }] of inTurn(Object.entries(TAPS), round)) {
      const cost = chunkCost(Array.from({ length: times }, () => tap)) - passed
      if (round >= 0) taps.get(name)!.push(cost)
    }
  }
  // Only the first edit pays for encoding the chunk again.
  const [first, all] = [taps.get(ONE_EDIT)!, taps.get(MANY_EDITS)!]
  taps.set(
    MANY_EDITS,
    all.map((cost, round) => (cost - first[round]!) / (TIMES - 1)),
  )
  taps.set(
    WATCH,
    taps.get(WATCH)!.map(cost => cost / TIMES),
  )
  return { steps, taps }
}

/** Rotates the items, so that each round begins with another one. */
export function inTurn<Item>(items: readonly Item[], round: number): readonly Item[] {
  const place = Math.abs(round) % items.length
  return [...items.slice(place), ...items.slice(0, place)]
}

interface Kind {
  readonly handle: StepMiddleware
  readonly mode?: PlannableStep['mode']
  readonly when?: string
}

const empty: StepMiddleware = async (_ctx, next) => {
  await next()
}

const KINDS: Readonly<Record<string, Kind>> = {
  'an empty step': { handle: empty },
  'an empty step that returns `next()`': { handle: (_ctx, next) => next() },
  'with a `when` that is true': { handle: empty, when: 'account.plan == "free"' },
  'with a `when` that names three facts': {
    handle: empty,
    when: 'account.plan == "free" && !chat.stream && header("x-team") == ""',
  },
  'left out: a `when` that is false': { handle: empty, when: 'account.plan == "pro"' },
  'left out: `mode: off`': { handle: empty, mode: 'off' },
  'with a note in the trail': {
    handle: async (ctx, next) => {
      ctx.exchange.note('1 of 20 left')
      await next()
    },
  },
  'that watches': {
    handle: async (ctx, next) => {
      ctx.exchange.watch(() => {})
      await next()
    },
  },
  'that edits': {
    handle: async (ctx, next) => {
      ctx.exchange.edit(chunk => chunk)
      await next()
    },
  },
  'an empty step in shadow': { handle: empty, mode: 'shadow' },
  'a step in shadow that would refuse': {
    handle: async () => {
      throw refuse('rate_limit_exceeded', { retryAfterMs: 1000 })
    },
    mode: 'shadow',
  },
}

/** Steps before the measured ones. */
const FRONT = 4

function planOf(kind: Kind | null): Plan {
  const front = Array.from({ length: FRONT }, (_, index) => stepOf(`front-${index}`, { handle: empty }))
  const measured = kind === null ? [] : Array.from({ length: TIMES }, (_, index) => stepOf(`step-${index}`, kind))
  return createPlan('bench', [giver, ...front, ...measured], () => ({}))
}

function stepOf(id: string, { handle, mode = 'enforce', when }: Kind): PlannableStep {
  const plugin = definePlugin({
    name: 'bench',
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => handle,
  })
  return { id, plugin, foreign: false, settings: {}, mode, onError: 'refuse', when: when ? conditionOf(when) : null }
}

function conditionOf(source: string): PlannableStep['when'] {
  const given = new Set(['key', 'account', 'chat', 'model'] as const)
  const compiled = compileWhen(source, { given, missing: fact => ({ message: fact }) })
  if ('error' in compiled) throw new Error(`${source}: ${compiled.error.message}`)
  return compiled.when
}

const body = { model: 'bench', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 400 }
const account = { id: 'acc_1', name: 'customer', plan: 'free' } as Account
const key = { id: 'key_1', name: 'bench' } as Key
const chat = { body, bytes: Buffer.from(JSON.stringify(body)), stream: false, choices: 1, cap: 400 } as unknown as Chat
const model = {
  id: 'bench',
  targets: [] as Model['targets'],
  reasoning: false,
  context: 8192,
  maxOutput: 1024,
} as Model

/** Replaces the steps that provide these facts, so that conditions can use them. */
const giver: PlannableStep = {
  ...stepOf('giver', { handle: empty }),
  plugin: definePlugin({
    name: 'giver',
    gives: ['key', 'account', 'chat', 'model'],
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create:
      () =>
      async ({ exchange }, next) => {
        exchange.give('key', key)
        exchange.give('account', account)
        exchange.give('chat', chat)
        exchange.give('model', model)
        await next()
      },
  }) as AnyPlugin,
}

const ctx = contextOf()

/** Returns microseconds per request. */
async function costOf(plan: Plan): Promise<number> {
  let entries = 0
  const before = process.cpuUsage()
  for (let index = 0; index < REQUESTS; index++) {
    const exchange = exchangeOf(plan)
    await runPlan(exchange, {
      reportStep: report => {
        throw new Error(mistakeSentence(report))
      },
      stepGraceMs: 5000,
    })
    entries += exchange.trail.length
  }
  const spent = spentSince(before)
  if (entries !== REQUESTS * plan.steps.length) throw new Error(`the trails have ${entries} entries`)
  return spent / REQUESTS
}

function exchangeOf(plan: Plan): Exchange {
  return new SimulatedExchange({
    id: 'req_01MCC5RM000002V79Q0Q68211K',
    route: { path: '/v1/chat/completions', kind: 'chat', policy: 'bench', price: null },
    plan,
    ctx,
    bytes: Buffer.alloc(0),
    parse: () => body,
    send: async () => simulatedReply('answered', null),
    answer: () => Promise.reject(new Error('a simulated exchange has no client')),
  })
}

/** All requests share one context, because its cost is not part of a step's. */
function contextOf(): Context {
  const context = new Contexts().koa({ method: 'POST', path: '/v1/chat/completions' })
  // The headers of an answer after the rate limits.
  for (const name of ['x-request-id', 'vary', 'x-ratelimit-limit-requests', 'x-ratelimit-remaining-requests']) {
    context.res.setHeader(name, '20')
  }
  return context
}

export const WATCH = 'a `watch`'
export const ONE_EDIT = 'the first `edit`: the chunk is written anew'
export const MANY_EDITS = 'each further `edit`'

const watch: Tap = { step: 0, kind: 'watch', fn: () => {} }
const edit: Tap = { step: 0, kind: 'edit', fn: chunk => chunk }

const TAPS: Readonly<Record<string, { readonly tap: Tap; readonly times: number }>> = {
  [WATCH]: { tap: watch, times: TIMES },
  [ONE_EDIT]: { tap: edit, times: 1 },
  [MANY_EDITS]: { tap: edit, times: TIMES },
}

const chunk: Chunk = {
  id: 'chatcmpl-CYq0aN9yqQ0J3bV1mH7uZk2w4xT5s',
  object: 'chat.completion.chunk',
  created: 1_795_200_000,
  model: 'bench',
  system_fingerprint: 'fp_5f20662549',
  choices: [{ index: 0, delta: { content: ' word, and' }, logprobs: null, finish_reason: null }],
} as Chunk
const raw = Buffer.from(JSON.stringify(chunk))

/** Returns microseconds per chunk, from the decoder to the client's socket, which here accepts every write. */
function chunkCost(taps: readonly Tap[]): number {
  let bytes = 0
  const client = {
    writeStream(frame: Buffer) {
      bytes += frame.length
      return true
    },
  } as unknown as Client
  const before = process.cpuUsage()
  const stream = new StreamAnswer(client, taps)
  for (let index = 0; index < CHUNKS; index++) stream.chunk(chunk, raw)
  const spent = spentSince(before)
  if (bytes < CHUNKS * raw.length) throw new Error(`the stream has ${bytes} bytes only`)
  return spent / CHUNKS
}

function spentSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return user + system
}

/** Returns the median and the middle half of the rounds: `1.23 (1.18–1.31)`. */
export function spreadOf(values: readonly number[], digits = 2): string {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (part: number) => sorted[Math.round((sorted.length - 1) * part)]!.toFixed(digits)
  return `${median(values)!.toFixed(digits)} (${at(0.25)}–${at(0.75)})`
}
