/** All endings of an exchange that `conform` plays: the behaviour of the provider, the client and the steps around the plugin. */
import { type AnyPlugin, definePlugin, refuse } from '#contract'
import type { ScriptedAnswer } from '../simulate/answers.ts'

/** The behaviour of the step after the plugin. */
export type Inner = 'pass' | 'refuse before' | 'refuse after' | 'throw before' | 'throw after' | 'hang after'

/** The behaviour of the step before the plugin. */
export type Outer = 'pass' | 'refuse a chunk' | 'throw after' | 'hang after'

export interface EndingCase {
  readonly name: string
  readonly upstream: ScriptedAnswer
  readonly inner: Inner
  readonly outer?: Outer
  readonly leaveAfter?: number
  /** Number of times the same request is sent, one after another. */
  readonly times?: number
  /** An event during the answer; `another`: the same request once more. */
  readonly during?: 'cut' | 'reload' | 'crash' | 'another'
  /** False: the gateway's services fail for the plugin. Its own errors are then not mistakes. */
  readonly isServed?: false
}

const CONTENT: readonly string[] = ['One', ' two', ' three', ' four', ' five.']
/** A normal answer. */
export const WELL: ScriptedAnswer = { content: CONTENT, usage: { prompt: 10, completion: 5 } }

const of = (name: string, upstream: ScriptedAnswer = WELL, more: Partial<EndingCase> = {}): EndingCase => ({
  name,
  upstream,
  inner: 'pass',
  ...more,
})

/** For both forms. */
export const ENDINGS: readonly EndingCase[] = [
  of('answered'),
  of('answered three times', WELL, { times: 3 }),
  of('refused by a step further in', WELL, { inner: 'refuse before' }),
  of('refused by a step further in, after the answer', WELL, { inner: 'refuse after' }),
  of('a step further in throws', WELL, { inner: 'throw before' }),
  of('a step further in throws after the answer', WELL, { inner: 'throw after' }),
  of('a step further in hangs after the answer', WELL, { inner: 'hang after' }),
  of('a step further out refuses a part of the answer', WELL, { outer: 'refuse a chunk' }),
  of('a step further out throws after the answer', WELL, { outer: 'throw after' }),
  of('a step further out hangs after the answer', WELL, { outer: 'hang after' }),
  of('its services fail', WELL, { isServed: false }),
  of('the provider cannot be reached', { fault: 'unreachable' }),
  of('the provider answers 500', { status: 500 }),
  of('the provider answers 429', { status: 429, headers: { 'retry-after': '7' } }),
  of('the provider is silent', { fault: 'silent' }),
  of('the provider breaks off before its first chunk', { ...WELL, fault: 'reset', after: 0 }),
  of('the provider breaks off after its first chunk', { ...WELL, fault: 'reset', after: 1 }),
  of('the provider falls silent after its first chunk', { ...WELL, fault: 'silent', after: 1 }),
  of('the client disconnects before the first chunk', WELL, { leaveAfter: 0 }),
  of('another request in the middle', WELL, { during: 'another' }),
  of('the gateway is cut in the middle', WELL, { during: 'cut' }),
  of('a reload in the middle', WELL, { during: 'reload' }),
  of('the process is killed in the middle', WELL, { during: 'crash' }),
]

/** For streams only: the client disconnects at each chunk. */
export const STREAM_ENDINGS: readonly EndingCase[] = CONTENT.map((_, nth) =>
  of(`the client disconnects after chunk ${nth + 1}`, WELL, { leaveAfter: nth + 1 }),
)

export const AROUND = { inner: 'conform-inner', outer: 'conform-outer' }

const NO_SETTINGS = { type: 'object', additionalProperties: false, properties: {} } as const

/** The step directly before the plugin, with the behaviour of the ending. */
export function outerStep(doing: () => Outer): AnyPlugin {
  return definePlugin({
    name: AROUND.outer,
    settings: NO_SETTINGS,
    create: () => async (ctx, next) => {
      const what = doing()
      if (what === 'refuse a chunk') {
        let chunks = 0
        ctx.exchange.edit(chunk => {
          // A whole answer is one chunk.
          if (++chunks > 2 || !ctx.exchange.chat?.stream) throw refuse('content_filter')
          return chunk
        })
      }
      await next()
      if (what === 'throw after') throw new Error('thrown by the step further out')
      if (what === 'hang after') await new Promise(() => {})
    },
  })
}

/** The step directly after the plugin, with the behaviour of the ending. */
export function innerStep(doing: () => Inner): AnyPlugin {
  return definePlugin({
    name: AROUND.inner,
    settings: NO_SETTINGS,
    create: () => async (_ctx, next) => {
      const what = doing()
      if (what === 'refuse before') throw refuse('forbidden')
      if (what === 'throw before') throw new Error('thrown by the step further in')
      await next()
      if (what === 'refuse after') throw refuse('forbidden')
      if (what === 'throw after') throw new Error('thrown by the step further in')
      if (what === 'hang after') await new Promise(() => {})
    },
  })
}
