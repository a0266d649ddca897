/** Where to send it: orders the model's targets by their weights, by lot, and gives the fact `targets`, best first. */
import { definePlugin, type Random, type Target } from '#contract'

export default definePlugin({
  name: 'route',
  description: "Draws the order in which the model's targets are tried, by their weights.",
  needs: ['model'],
  gives: ['targets'],
  uses: ['random'],
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create(_settings: Record<string, never>, { random }) {
    return async (ctx, next) => {
      ctx.exchange.give('targets', drawOrder(ctx.exchange.model.targets, random))
      await next()
    }
  },
})

/**
 * A draw without replacement: each place goes to one of the remaining targets with a chance of its weight among them.
 * So the first is chosen by weight, and when it fails, its load is shared out by weight as well. Targets without weight
 * come last, in their written order.
 */
export function drawOrder(targets: readonly Target[], random: Random): readonly Target[] {
  if (targets.length < 2) return targets
  const left = [...targets]
  const order: Target[] = []
  while (left.length > 0) {
    const total = left.reduce((sum, target) => sum + target.weight, 0)
    let lot = random() * total
    // Rounding may leave a remainder after the last weight: then it is the last one that has any.
    let drawn = left.findLastIndex(target => target.weight > 0)
    for (let i = 0; i < drawn; i++) {
      lot -= left[i]!.weight
      if (lot < 0) {
        drawn = i
        break
      }
    }
    order.push(left.splice(Math.max(0, drawn), 1)[0]!)
  }
  return order
}
