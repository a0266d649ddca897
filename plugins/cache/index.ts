/**
 * Answers again what was answered before: the same question, by the same account unless the policy says otherwise, gets
 * the answer that it got, whole or as a stream as it is asked for this time. Only answers that ended well are kept, in the
 * service `cache`, for this configuration: what the configuration was may be a part of what they say.
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
import { type Control, type Question, readControl, type Scope, type Skippable, whySkipped } from './question.ts'

interface Settings {
  readonly scope: Scope
  readonly ttl: number
  readonly size: number
  readonly largest: number
  readonly temperature: 'zero' | 'any'
  readonly skip: readonly Skippable[]
  readonly price: 'free' | PriceText
}

interface PriceText {
  readonly per?: '1M tokens' | '1K tokens'
  readonly input?: NanoUsd
  readonly output?: NanoUsd
  readonly request?: NanoUsd
}

/** Says what became of the request: `hit`, `miss`, or `skip` when it was not looked for. */
const HEADER = 'x-tollgate-cache'
/** What was not sent to the provider that gave the answer; a hit says it again. */
const DROPPED_HEADER = 'x-tollgate-dropped'

/** An answer as it is kept: as JSON text, so that nobody who gets it can change it for those who come after. */
interface Kept {
  readonly completion: ChatCompletion
  readonly storedAt: number
  readonly dropped: string
}

/** What serving threads can share of a part of `cache`, in bytes; one thread alone has no such limit. */
const MOST_SHARED = 2 ** 30

const SENTENCE_PRICE = 'must be "free" or a map with request, or per and input or output'

const warning = (at: string, message: string) => ({ at, level: 'warning', message }) as const

export default definePlugin({
  name: 'cache',
  description: 'Answers again what was answered before.',
  dryRun: true,
  needs: ({ scope, price }: Settings, kind) => [
    ...(asksModel(kind) ? (['chat', 'model'] as const) : []),
    ...(scope === 'everybody' ? [] : [scope]),
    // In front of the step that takes the money nobody would ever charge it.
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
        description: 'Whose answers somebody may get: those of the account, those of the key, or everybody’s.',
      },
      ttl: { ...unit('duration'), default: '1h', description: 'How old an answer may become: "10m", "1h", "7d".' },
      size: {
        ...unit('bytes'),
        default: '64MiB',
        description: 'Memory for answers, at most 1GiB of it with several threads; old ones make room.',
      },
      largest: { ...unit('bytes'), default: '1MiB', description: 'A larger answer is not kept.' },
      temperature: {
        enum: ['zero', 'any'],
        default: 'zero',
        description: 'zero: only requests that say temperature 0, so that no variety is taken away; any: all.',
      },
      skip: {
        type: 'array',
        items: { enum: ['tools', 'choices'] },
        uniqueItems: true,
        default: ['tools', 'choices'],
        description: 'Requests that pass by: those that offer tools, those that want several choices.',
      },
      price: {
        type: ['string', 'object'],
        default: 'free',
        description: 'What a repeated answer costs: "free", or dollars for its request and its tokens.',
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
            per: { enum: ['1M tokens', '1K tokens'], description: 'How many tokens the prices are for.' },
            input: { ...unit('money'), description: 'Dollars for tokens of the prompt. Default: 0.' },
            output: { ...unit('money'), description: 'Dollars for tokens of the answer. Default: 0.' },
            request: { ...unit('money'), description: 'Dollars for each repeated answer. Default: 0.' },
          },
        },
      },
    },
  },
  check: ({ ttl, size }: Settings) => [
    ...(ttl === 0 ? [warning('/ttl', 'with ttl 0s no answer is ever given again')] : []),
    ...(size > MOST_SHARED ? [warning('/size', 'several threads use at most 1GiB of it')] : []),
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
      // Names with a day behind them are other models under one id.
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
      if (exchange.model !== model || !isAsItWas(exchange, question)) return
      const completion = completionOf(exchange, collector)
      if (completion === null || settings.ttl === 0) return
      const kept: Kept = { storedAt: clock.now(), dropped: ctx.response.get(DROPPED_HEADER) ?? '', completion }
      answers.set(key, JSON.stringify(kept), settings.ttl)
    }
  },
})

/** A fresh enough answer; one that is too old for this client only is left to the others. */
function fresh(text: string | undefined, clock: Clock, { ttl }: Settings, control: Control): Kept | null {
  if (text === undefined) return null
  const kept = JSON.parse(text) as Kept
  const age = ageOf(kept, clock)
  return age >= ttl || age > control.maxAgeMs ? null : kept
}

/** A clock that was set back makes nothing younger than new. */
function ageOf({ storedAt }: Kept, clock: Clock): number {
  return Math.max(0, clock.now() - storedAt)
}

function ownerOf(exchange: ExchangeWith<'chat' | 'model'>, { scope }: Settings): string {
  if (scope === 'everybody') return 'everybody'
  return `${scope}:${exchange[scope]!.id}`
}

/**
 * Whether what was answered is what was asked here: an inner step may have lowered the cap because the credit was short,
 * or changed the messages for this client.
 */
function isAsItWas({ chat, outcome }: ExchangeWith<'chat'>, { cap, body, bytes }: Question): boolean {
  return outcome === 'answered' && chat.cap === cap && chat.body === body && chat.bytes === bytes
}

/** The answer as it is kept, with its usage; null when it is none that may be given again. */
function completionOf({ usage, chat }: ExchangeWith<'chat'>, collector: AnswerCollector): Kept['completion'] | null {
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

/** Ends of an answer that is worth repeating. A filter's end is not: the next time it may not strike. */
const GOOD_ENDS: ReadonlySet<string | null> = new Set(['stop', 'length', 'tool_calls', 'function_call'])

function mayRepeat({ finish_reason: finish, message }: ChatCompletion['choices'][number]): boolean {
  return GOOD_ENDS.has(finish) && !message.refusal
}

/** Per million tokens, as prices are everywhere; null: free. */
function priceOf(text: Settings['price']): Price | null {
  if (text === 'free') return null
  const scale = text.per === '1K tokens' ? 1000n : 1n
  return plainPrice({
    input: (text.input ?? 0n) * scale,
    output: (text.output ?? 0n) * scale,
    request: text.request ?? 0n,
  })
}
