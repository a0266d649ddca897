/** Where to send it: orders the model's targets, gives them as the fact `targets`, best first, and says how often to try. */
import { asksModel, definePlugin, type ExchangeWith, type StepContext, type Target } from '#contract'
import { byLatency, byName, byPriority, conversationOf, drawOrder } from './order.ts'

interface Settings {
  readonly order: 'weights' | 'listed' | 'latency'
  readonly sticky: 'none' | 'key' | 'account' | 'conversation'
  readonly attempts: number
  readonly on_dropped: 'tell' | 'refuse_tools' | 'refuse'
}

export default definePlugin({
  name: 'route',
  description: "Orders the model's targets, and says how many attempts there may be.",
  dryRun: true,
  needs: ({ sticky }: Settings, kind) => [
    'model',
    ...(sticky === 'key' || sticky === 'account' ? [sticky] : []),
    ...(sticky === 'conversation' && asksModel(kind) ? (['chat'] as const) : []),
  ],
  gives: ['targets'],
  uses: ['random', 'targets'],
  settings: {
    type: 'object',
    additionalProperties: false,
    // Other orders have their own first target: to be sticky would say nothing.
    if: { type: 'object', properties: { order: { enum: ['listed', 'latency'] } }, required: ['order'] },
    then: { type: 'object', properties: { sticky: { const: 'none' } } },
    properties: {
      order: {
        enum: ['weights', 'listed', 'latency'],
        default: 'weights',
        description:
          'Among targets of one priority: by lot with their weights, as they are written, or the quickest first.',
      },
      sticky: {
        enum: ['none', 'key', 'account', 'conversation'],
        default: 'none',
        description: 'With weights: the same key, account or conversation gets the same target, for its prompt cache.',
      },
      attempts: {
        type: 'integer',
        minimum: 1,
        maximum: 10,
        default: 3,
        description: 'Attempts for one request at most, over all targets; only while nothing of the answer has left.',
      },
      on_dropped: {
        enum: ['tell', 'refuse_tools', 'refuse'],
        default: 'refuse_tools',
        description:
          'What a target cannot carry: tell leaves it out and names it in x-tollgate-dropped; refuse passes the target over; refuse_tools passes it over for a tool that the client runs, and does the former for the rest.',
      },
    },
  },
  create({ order, sticky, attempts, on_dropped }: Settings, { random, targets: seen }) {
    const decide = (ctx: StepContext<'model'>) => {
      const exchange = ctx.exchange as ExchangeWith<'model'>
      const arrange = (group: readonly Target[]): readonly Target[] => {
        if (group.length < 2 || order === 'listed') return group
        if (order === 'latency') {
          const streams = exchange.chat?.stream ?? false
          return byLatency(group, target => seen.latencyMs(target, streams))
        }
        return sticky === 'none' ? drawOrder(group, random) : byName(group, nameOf(exchange, sticky))
      }
      exchange.give('targets', byPriority(exchange.model.targets, arrange))
      exchange.attemptsAtMost = attempts
      exchange.onDropped = on_dropped
    }
    return { decide }
  },
})

/** The loader has made sure of the facts: they are in `needs`. */
function nameOf(exchange: ExchangeWith<'model'>, sticky: Exclude<Settings['sticky'], 'none'>): string {
  if (sticky === 'key') return exchange.key!.id
  return sticky === 'account' ? exchange.account!.id : conversationOf(exchange.chat!.body.messages)
}
