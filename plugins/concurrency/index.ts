/**
 * Limits the exchanges in progress of a key, an account, a model, an address, or of all together. An exchange has a slot until its
 * answer has ended, also while it streams. Each ending frees the slot once.
 */
import {
  type Clock,
  definePlugin,
  formatSpan,
  type Queue,
  refuse,
  type Slot,
  type Slots,
  type StepContext,
  unit,
} from '#contract'
import { type Per, SUBJECTS, subjectOf } from './subject.ts'

interface Settings {
  readonly per: Per
  readonly limit: number
  readonly queue?: Queue
}

/** The time until a slot is free is not known. A client library that retries after a second often finds one. */
const RETRY_AFTER_MS = 1000

export default definePlugin({
  name: 'concurrency',
  description: 'Limits the exchanges in progress of each key, account, model or address, or of all together.',
  dryRun: true,
  needs: ({ per }: Settings) => (per === 'address' || per === 'everybody' ? [] : [per]),
  // All clients share these slots. So a slot is taken after the body: otherwise a few slow uploads could take all slots.
  needsBody: ({ per }: Settings) => per === 'everybody',
  uses: ['clock', 'slots'],
  settings: {
    type: 'object',
    additionalProperties: false,
    required: ['per', 'limit'],
    properties: {
      per: {
        enum: SUBJECTS,
        description: 'Each key, account, model or address has its own slots; `everybody`: all share them.',
      },
      limit: {
        type: 'integer',
        minimum: 1,
        maximum: 1_000_000,
        description: 'The maximum number of exchanges in progress.',
      },
      queue: {
        description: 'Requests above the limit wait for a slot, in the order of their arrival.',
        type: 'object',
        additionalProperties: false,
        required: ['length', 'wait'],
        properties: {
          length: {
            type: 'integer',
            minimum: 1,
            maximum: 100_000,
            description: 'The maximum number of waiting requests.',
          },
          wait: {
            ...unit('duration'),
            within: { unit: 'duration', from: '10ms', to: '5m' },
            description: 'The maximum time of a wait: "5s".',
          },
        },
      },
    },
  },
  create({ per, limit, queue }: Settings, { clock, slots }, { policy, id, mode }) {
    // The same name after a reload: exchanges of the earlier generation still have slots.
    const prefix = `${policy}/${id}/`
    const enter = (ctx: Headers, slot: Slot): Slot => {
      try {
        showLimit(ctx, limit, slot.inside)
      } catch (error) {
        slot.free()
        throw error
      }
      return slot
    }
    const wait = async (ctx: StepContext, name: string, entered: Slot | null | Promise<Slot | null>) => {
      const waiting = { limit, queue, clock, exchange: ctx.exchange }
      const slot =
        (entered instanceof Promise ? await entered : entered) ??
        (await (mode === 'shadow' ? queueInShadow(slots, name, waiting) : waitForSlot(slots, name, waiting)))
      if (slot === 'left') return null
      if (slot === null) throw refused(per, limit, queue)
      return enter(ctx, slot)
    }
    return {
      decide(ctx) {
        const name = prefix + subjectOf(ctx.exchange, per)
        const entered = slots.enter(name, limit)
        return entered === null || entered instanceof Promise ? wait(ctx, name, entered) : enter(ctx, entered)
      },
      after(_ctx, _outcome, slot: Slot | null) {
        slot?.free()
      },
    }
  },
})

interface WaitContext {
  readonly limit: number
  readonly queue: Queue | undefined
  readonly clock: Clock
  readonly exchange: { readonly signal: AbortSignal; note(text: string): void }
}

/**
 * Waits for a slot; null if none was free in time, `left` if the client disconnected. Such a request continues without a slot: the
 * end of the pipeline sends nothing for it and records the disconnect.
 */
async function waitForSlot(slots: Slots, name: string, { limit, queue, clock, exchange }: WaitContext) {
  if (!queue) return null
  const sinceMs = clock.now()
  const slot = await slots.wait(name, limit, queue, exchange.signal)
  if (slot !== null && slot !== 'left') exchange.note(`waited ${formatSpan(clock.now() - sinceMs)} for a slot`)
  return slot
}

/**
 * In shadow mode no request waits. One that would have waited continues, and counts as waiting until its answer has ended. So only a
 * full queue would refuse; waits that are too long are not detected.
 */
async function queueInShadow(
  slots: Slots,
  name: string,
  { limit, queue, exchange }: WaitContext,
): Promise<Slot | null> {
  if (!queue) return null
  const slot = await slots.enter(name, limit + queue.length)
  if (slot) exchange.note('would have waited for a slot')
  return slot
}

function refused(per: Per, limit: number, queue: Queue | undefined) {
  const whose = per === 'everybody' ? 'this gateway' : `this ${per}`
  const requests = limit === 1 ? '1 request' : `${limit} requests`
  const full = queue ? ', and its queue is full or the wait was too long' : ''
  return refuse('rate_limit_exceeded', {
    message: `Too many requests at once: ${whose} may have ${requests} in progress${full}. Try again when one of them has ended.`,
    retryAfterMs: RETRY_AFTER_MS,
    headers: limitHeaders(limit, 0),
  })
}

/** The part of Koa's context that headers need. */
interface Headers {
  set(name: string, value: string): void
  readonly response: { get(name: string): string }
}

/** A client sees the limit that it reaches first: a tighter one of another step stays. */
function showLimit(ctx: Headers, limit: number, inside: number): void {
  const remaining = Math.max(0, limit - inside)
  const shown = ctx.response.get('x-ratelimit-remaining-concurrency')
  if (shown !== '' && Number(shown) <= remaining) return
  for (const [name, value] of Object.entries(limitHeaders(limit, remaining))) ctx.set(name, value)
}

function limitHeaders(limit: number, remaining: number): Record<string, string> {
  return {
    'x-ratelimit-limit-concurrency': String(limit),
    'x-ratelimit-remaining-concurrency': String(remaining),
  }
}
