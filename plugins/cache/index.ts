/**
 * Repeats earlier answers: the same request of the same account gets the answer of the first one, whole or as a stream. Only complete
 * answers are kept, in the service `cache`. A change of the configuration removes them, because an answer may depend on it.
 */
import {
  AnswerCollector,
  asksModel,
  type ChatCompletion,
  type Clock,
  definePlugin,
  type ExchangeWith,
  type NanoUsd,
  type Price,
  plainPrice,
  unit,
  type WireUsage,
} from '#contract'
import { keyOf } from './key.ts'
import { type Control, type Question, readControl, type Scope, type SkipKind, whySkipped } from './question.ts'

interface Settings {
  readonly scope: Scope
  readonly ttl: number
  readonly size: number
  readonly largest: number
  readonly temperature: 'zero' | 'any'
  readonly skip: readonly SkipKind[]
  readonly price: 'free' | PriceText
}

interface PriceText {
  readonly per?: '1M tokens' | '1K tokens'
  readonly input?: NanoUsd
  readonly output?: NanoUsd
  readonly request?: NanoUsd
}

/** `hit`, `miss`, or `skip` if the cache was not used. */
const HEADER = 'x-tollgate-cache'
/** Parameters that the provider of the answer did not support; a hit repeats them. */
const DROPPED_HEADER = 'x-tollgate-dropped'

/** A stored answer. The cache keeps its JSON text, so a step that edits a hit cannot change the stored answer. */
interface StoredAnswer {
  readonly completion: ChatCompletion
  readonly storedAt: number
  readonly dropped: string
}

/** The largest cache that serving threads share, in bytes. A single thread has no such limit. */
const MAX_SHARED_BYTES = 2 ** 30

const SENTENCE_PRICE = 'must be "free" or a map with request, or per and input or output'

const warning = (at: string, message: string) => ({ at, level: 'warning', message }) as const

export default definePlugin({
  name: 'cache',
  description: 'Repeats earlier answers.',
  dryRun: true,
  needs: ({ scope, price }: Settings, kind) => [
    ...(asksModel(kind) ? (['chat', 'model'] as const) : []),
    ...(scope === 'everybody' ? [] : [scope]),
    // Before `credits` no step would charge the price.
    ...(price === 'free' ? [] : (['hold'] as const)),
  ],
  uses: ['clock', 'cache'],
  settings: {
    type: 'object',
    additionalProperties: false,
    properties: {
      scope: {
        enum: ['account', 'key', 'everybody'],
        default: 'account',
        description: 'Who shares answers: the same account, the same key, or `everybody`.',
      },
      ttl: { ...unit('duration'), default: '1h', description: 'The maximum age of an answer: "10m", "1h", "7d".' },
      size: {
        ...unit('bytes'),
        default: '64MiB',
        description: 'Memory for answers; several threads use at most 1GiB. When it is full, old answers are removed.',
      },
      largest: { ...unit('bytes'), default: '1MiB', description: 'A larger answer is not kept.' },
      temperature: {
        enum: ['zero', 'any'],
        default: 'zero',
        description: 'zero: only requests with temperature 0, whose answers vary little anyway; any: all requests.',
      },
      skip: {
        type: 'array',
        items: { enum: ['tools', 'choices'] },
        uniqueItems: true,
        default: ['tools', 'choices'],
        description: 'Requests that bypass the cache: with tools, with several choices.',
      },
      price: {
        type: ['string', 'object'],
        default: 'free',
        description: 'The price of a repeated answer: "free", or dollars for its request and its tokens.',
        if: { type: 'string' },
        then: { const: 'free', sentence: SENTENCE_PRICE },
        else: {
          type: 'object',
          additionalProperties: false,
          minProperties: 1,
          dependentRequired: { input: ['per'], output: ['per'] },
          if: { required: ['per'] },
          then: { anyOf: [{ required: ['input'] }, { required: ['output'] }] },
          properties: {
            per: { enum: ['1M tokens', '1K tokens'], description: 'The number of tokens that a price is for.' },
            input: { ...unit('money'), description: 'Dollars for tokens of the prompt. Default: 0.' },
            output: { ...unit('money'), description: 'Dollars for tokens of the answer. Default: 0.' },
            request: { ...unit('money'), description: 'Dollars for each repeated answer. Default: 0.' },
          },
        },
      },
    },
  },
  check: ({ ttl, size }: Settings) => [
    ...(ttl === 0 ? [warning('/ttl', 'with ttl 0s no answer is ever repeated')] : []),
    ...(size > MAX_SHARED_BYTES ? [warning('/size', 'several threads use at most 1GiB of it')] : []),
  ],
  create(settings: Settings, { clock, cache }, { policy, id }) {
    const price = priceOf(settings.price)
    const answers = cache.open(`${policy}/${id}`, settings.size)
    return async (ctx, next) => {
      const exchange = ctx.exchange as ExchangeWith<'chat' | 'model'>
      const control = readControl(ctx.get('cache-control'))
      const skipped = exchange.route.counts
        ? 'not cached: it counts tokens'
        : whySkipped(exchange.chat, control, settings)
      if (skipped !== null) {
        ctx.set(HEADER, 'skip')
        exchange.note(skipped)
        return next()
      }
      const { model } = exchange
      const { id, dated } = model
      // One id covers several models whose names end with a date.
      const modelId = dated ? exchange.chat.body.model : id
      const question: Question = { ...exchange.chat, modelId, owner: ownerOf(exchange, settings) }
      const key = keyOf(question)
      const found = control.noCache ? null : fresh(await answers.get(key), clock, settings, control)
      if (found) {
        ctx.set(HEADER, 'hit')
        ctx.set('age', String(Math.floor(ageOf(found, clock) / 1000)))
        if (found.dropped !== '') ctx.set(DROPPED_HEADER, found.dropped)
        return exchange.answer({ ...found.completion, id: exchange.id }, price ?? undefined)
      }
      ctx.set(HEADER, 'miss')
      const collector = new AnswerCollector({ maxCharacters: settings.largest, onOverflow: 'discard' })
      exchange.watch(chunk => collector.add(chunk))
      await next()
      // A budget may have made another model answer.
      if (exchange.model !== model || !isUnchanged(exchange, question)) return
      const completion = completionOf(exchange, collector)
      if (completion === null || settings.ttl === 0) return
      const stored: StoredAnswer = {
        storedAt: clock.now(),
        dropped: ctx.response.get(DROPPED_HEADER) ?? '',
        completion,
      }
      answers.set(key, JSON.stringify(stored), settings.ttl)
    }
  },
})

/** The answer, if it is fresh enough. An answer that is too old for this client stays in the cache, because another client may accept it. */
function fresh(text: string | undefined, clock: Clock, { ttl }: Settings, control: Control): StoredAnswer | null {
  if (text === undefined) return null
  const stored = JSON.parse(text) as StoredAnswer
  const age = ageOf(stored, clock)
  return age >= ttl || age > control.maxAgeMs ? null : stored
}

/** Never negative, also if the clock was set back. */
function ageOf({ storedAt }: StoredAnswer, clock: Clock): number {
  return Math.max(0, clock.now() - storedAt)
}

function ownerOf(exchange: ExchangeWith<'chat' | 'model'>, { scope }: Settings): string {
  if (scope === 'everybody') return 'everybody'
  return `${scope}:${exchange[scope]!.id}`
}

/**
 * Whether the answer belongs to the request as this step saw it. A later step may have lowered the cap for lack of credit, or changed
 * the messages for this client.
 */
function isUnchanged({ chat, outcome }: ExchangeWith<'chat'>, { cap, body, bytes }: Question): boolean {
  return outcome === 'answered' && chat.cap === cap && chat.body === body && chat.bytes === bytes
}

/** The answer to store, with its usage; null if it must not be repeated. */
function completionOf({ usage, chat }: ExchangeWith<'chat'>, collector: AnswerCollector): ChatCompletion | null {
  if (usage === null || usage.source === 'cached') return null
  const completion = collector.completion()
  if (completion === null || completion.choices.length !== chat.choices) return null
  if (!completion.choices.every(({ index }, place) => index === place)) return null
  if (!completion.choices.every(mayRepeat)) return null
  const { input = 0, cached_input: cached_tokens = 0, output = 0, reasoning: reasoning_tokens = 0 } = usage
  const wire: WireUsage = {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens },
    completion_tokens_details: { reasoning_tokens },
  }
  return { ...completion, usage: wire }
}

/** Finish reasons of answers to repeat. `content_filter` is not one: the filter may pass the next answer. */
const GOOD_ENDS: ReadonlySet<string | null> = new Set(['stop', 'length', 'tool_calls', 'function_call'])

function mayRepeat({ finish_reason: finish, message }: ChatCompletion['choices'][number]): boolean {
  return GOOD_ENDS.has(finish) && !message.refusal
}

/** In nano-dollars per million tokens; null: free. */
function priceOf(text: Settings['price']): Price | null {
  if (text === 'free') return null
  const scale = text.per === '1K tokens' ? 1000n : 1n
  return plainPrice({
    input: (text.input ?? 0n) * scale,
    output: (text.output ?? 0n) * scale,
    request: text.request ?? 0n,
  })
}
