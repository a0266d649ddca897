/** Orders of targets: drawn by weight, as written, by latency, and drawn by name so that the result is always the same. */
import { hash } from 'node:crypto'
import type { ChatMessage, Random, Target } from '#contract'

/** Sorts targets by priority, and those of one priority by `arrange`. */
export function byPriority(
  targets: readonly Target[],
  arrange: (targets: readonly Target[]) => readonly Target[],
): readonly Target[] {
  if (targets.length < 2) return targets
  const groups = Map.groupBy(targets, ({ priority }) => priority)
  return [...groups].sort(([one], [other]) => one - other).flatMap(([, group]) => arrange(group))
}

/**
 * Draws without replacement: each place goes to one of the remaining targets, with a chance by its weight. So if the first one fails, its
 * load is spread by weight too. Targets without weight come last, in their written order.
 */
export function drawOrder(targets: readonly Target[], random: Random): readonly Target[] {
  if (targets.length < 2) return targets
  const left = [...targets]
  const order: Target[] = []
  while (left.length > 0) {
    const total = left.reduce((sum, target) => sum + target.weight, 0)
    let lot = random() * total
    // Rounding may leave a remainder after the last weight: it belongs to the last target with a weight.
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
 * Draws by weight from a hash of the name and the target, so that a name always gets the same target. If a target is removed, only its own
 * names move. (Rendezvous hashing with weights: the largest ln(u) / w first.)
 */
export function byName(targets: readonly Target[], name: string): readonly Target[] {
  return byScore(targets, target => Math.log(lotOf(`${name}\n${target.id}`)) / target.weight)
}

/** The fastest first. Targets without a measurement come before all, so that they get one. */
export function byLatency(targets: readonly Target[], latencyMs: (target: string) => number | null): readonly Target[] {
  return byScore(targets, target => -(latencyMs(target.id) ?? 0))
}

/** Identifies a conversation by its first two messages, with which each of its prompts begins. */
export function conversationOf(messages: readonly ChatMessage[]): string {
  return hash('sha256', JSON.stringify(messages.slice(0, 2).map(unmarked), withoutMark))
}

/** The message without cache marks, which move from turn to turn. A text with a mark is a list of parts, else usually a string. */
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

/** Between 0 and 1, without both. */
function lotOf(text: string): number {
  return (Number.parseInt(hash('sha256', text).slice(0, 12), 16) + 1) / (16 ** 12 + 2)
}
