/**
 * How many at once: at most so many exchanges of a key, an account, a model, an address, or everybody. A slot is held
 * until the answer is over, so a stream holds its own for as long as it flows; it is freed once, on every ending.
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
import { type Per, WHO, whoIs } from './who.ts'

interface Settings {
  readonly per: Per
  readonly limit: number
  readonly queue?: Queue
}

/** Nobody can say when a slot will be free; a client library that tries again after that often finds one. */
const RETRY_AFTER_MS = 1000

export default definePlugin({
  name: 'concurrency',
  description: 'Limits how many exchanges are under way at once, for each key, account, model or address, or for all.',
  dryRun: true,
  needs: ({ per }: Settings) => (per === 'address' || per === 'everybody' ? [] : [per]),
  // A slot that everybody wants is not held while a body comes: a few that never end would shut all others out.
  needsBody: ({ per }: Settings) => per === 'everybody',
  uses: ['clock', 'slots'],
  settings: {
    type: 'object',
    additionalProperties: false,
    required: ['per', 'limit'],
    properties: {
      per: { enum: WHO, description: 'Who has slots of their own; everybody: all together.' },
      limit: { type: 'integer', minimum: 1, maximum: 1_000_000, description: 'How many exchanges may go on at once.' },
      queue: {
        description: 'Lets those beyond the limit wait for a slot, in the order in which they came.',
        type: 'object',
        additionalProperties: false,
        required: ['length', 'wait'],
        properties: {
          length: { type: 'integer', minimum: 1, maximum: 100_000, description: 'How many may wait at once.' },
          wait: {
            ...unit('duration'),
            within: { unit: 'duration', from: '10ms', to: '5m' },
            description: 'How long each may wait: "5s".',
          },
        },
      },
    },
  },
  create({ per, limit, queue }: Settings, { clock, slots }, { policy, id, mode }) {
    // A step's own, and found again after a reload: the exchanges of the generation before are still inside.
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
        (await (mode === 'shadow' ? queuedInShadow(slots, name, waiting) : waitedFor(slots, name, waiting)))
      if (slot === 'left') return null
      if (slot === null) throw refused(per, limit, queue)
      return enter(ctx, slot)
    }
    return {
      decide(ctx) {
        const name = prefix + whoIs(ctx.exchange, per)
        const entered = slots.enter(name, limit)
        return entered === null || entered instanceof Promise ? wait(ctx, name, entered) : enter(ctx, entered)
      },
      after(_ctx, _outcome, slot: Slot | null) {
        slot?.free()
      },
    }
  },
})

interface Waiting {
  readonly limit: number
  readonly queue: Queue | undefined
  readonly clock: Clock
  readonly exchange: { readonly signal: AbortSignal; note(text: string): void }
}

/**
 * A slot, or null when none came free in time. `left`: the client has gone while it waited. Such a request goes on
 * without a slot, because nothing is sent for it any more: the end of the pipeline sees to that, and records it as what it is.
 */
async function waitedFor(slots: Slots, name: string, { limit, queue, clock, exchange }: Waiting) {
  if (!queue) return null
  const sinceMs = clock.now()
  const slot = await slots.wait(name, limit, queue, exchange.signal)
  if (slot !== null && slot !== 'left') exchange.note(`waited ${formatSpan(clock.now() - sinceMs)} for a slot`)
  return slot
}

/**
 * In shadow nobody waits. Who would have waited goes on and takes a place in the queue for as long as its answer takes: so
 * only a full queue would refuse, and for how long somebody would have waited is not known.
 */
async function queuedInShadow(slots: Slots, name: string, { limit, queue, exchange }: Waiting): Promise<Slot | null> {
  if (!queue) return null
  const slot = await slots.enter(name, limit + queue.length)
  if (slot) exchange.note('would have waited for a slot')
  return slot
}

function refused(per: Per, limit: number, queue: Queue | undefined) {
  const whose = per === 'everybody' ? 'this gateway' : `this ${per}`
  const requests = limit === 1 ? '1 request' : `${limit} requests`
  const waited = queue ? ', and those that wait for their turn are too many or have waited too long' : ''
  return refuse('rate_limit_exceeded', {
    message: `Too many requests at once: ${whose} may have ${requests} under way${waited}. Try again when one of them is over.`,
    retryAfterMs: RETRY_AFTER_MS,
    headers: limitHeaders(limit, 0),
  })
}

/** The part of Koa's context that headers need. */
interface Headers {
  set(name: string, value: string): void
  readonly response: { get(name: string): string }
}

/** Of several limits a client should see the one that it will meet first, so a tighter one that stands there is left. */
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
