/** Orders the model's targets, gives them as the fact `targets`, best first, and limits the attempts. */
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
  description: "Orders the model's targets and limits the attempts.",
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
    // The other orders do not draw, so `sticky` would have no effect.
    if: { type: 'object', properties: { order: { enum: ['listed', 'latency'] } }, required: ['order'] },
    then: { type: 'object', properties: { sticky: { const: 'none' } } },
    properties: {
      order: {
        enum: ['weights', 'listed', 'latency'],
        default: 'weights',
        description: 'The order of targets of one priority: drawn by their weights, as written, or the fastest first.',
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
        description:
          'The maximum number of attempts for a request, over all targets. After the first byte of an answer no other attempt follows.',
      },
      on_dropped: {
        enum: ['tell', 'refuse_tools', 'refuse'],
        default: 'refuse_tools',
        description:
          'If a target does not support a parameter or tool. `tell`: drop it and list it in x-tollgate-dropped. `refuse`: skip the target. `refuse_tools`: skip it for a tool that the client runs, and drop the rest.',
      },
    },
  },
  create({ order, sticky, attempts, on_dropped }: Settings, { random, targets: figures }) {
    const decide = (ctx: StepContext<'model'>) => {
      const exchange = ctx.exchange as ExchangeWith<'model'>
      const arrange = (group: readonly Target[]): readonly Target[] => {
        if (group.length < 2 || order === 'listed') return group
        if (order === 'latency') {
          const streams = exchange.chat?.stream ?? false
          return byLatency(group, target => figures.latencyMs(target, streams))
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

/** The loader has checked that the facts exist: they are in `needs`. */
function nameOf(exchange: ExchangeWith<'model'>, sticky: Exclude<Settings['sticky'], 'none'>): string {
  if (sticky === 'key') return exchange.key!.id
  return sticky === 'account' ? exchange.account!.id : conversationOf(exchange.chat!.body.messages)
}
