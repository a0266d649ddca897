/** Orders of targets: by lot and weight, as written, by latency, and the lot that always falls the same way. */
import { hash } from 'node:crypto'
import type { ChatMessage, Random, Target } from '#contract'

/** Targets of the first priority, then of the next; within one as `arrange` says. */
export function byPriority(
  targets: readonly Target[],
  arrange: (targets: readonly Target[]) => readonly Target[],
): readonly Target[] {
  if (targets.length < 2) return targets
  const groups = Map.groupBy(targets, ({ priority }) => priority)
  return [...groups].sort(([one], [other]) => one - other).flatMap(([, group]) => arrange(group))
}

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

/**
 * A draw by weight whose lots depend on nothing but the name and the target: whoever has the name comes back to it, and
 * when a target is gone only those who were there move. (Rendezvous hashing with weights: the largest ln(u) / w first.)
 */
export function byName(targets: readonly Target[], name: string): readonly Target[] {
  return byScore(targets, target => Math.log(lotOf(`${name}\n${target.id}`)) / target.weight)
}

/** The quickest first; who has not been asked yet before all, because nobody knows. */
export function byLatency(targets: readonly Target[], latencyMs: (target: string) => number | null): readonly Target[] {
  return byScore(targets, target => -(latencyMs(target.id) ?? 0))
}

/** What stays the same while a conversation goes on, and is the beginning of every prompt of it: its first two messages. */
export function conversationOf(messages: readonly ChatMessage[]): string {
  return hash('sha256', JSON.stringify(messages.slice(0, 2).map(unmarked), withoutMark))
}

/** Marks of caches move from turn to turn. A text with one is a list of parts, and without one mostly a string. */
function unmarked(message: ChatMessage): ChatMessage {
  const { content } = message
  if (typeof content === 'string' || !content?.every(part => part.type === 'text')) return message
  return { ...message, content: content.map(({ text = '' }) => text).join('') }
}

const withoutMark = (name: string, value: unknown) => (name === 'cache_control' ? undefined : value)

function byScore(targets: readonly Target[], score: (target: Target) => number): readonly Target[] {
  return targets
    .map(target => ({ target, score: score(target) }))
    .sort((one, other) => other.score - one.score)
    .map(({ target }) => target)
}

/** Between 0 and 1, neither of them. */
function lotOf(text: string): number {
  return (Number.parseInt(hash('sha256', text).slice(0, 12), 16) + 1) / (16 ** 12 + 2)
}
