/** The cache key: a digest of all parts of a request that can change its answer. */
import { hash } from 'node:crypto'
import type { Question } from './question.ts'

/** Members that do not change the answer: its transport, its user, and the accounting of the provider. */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set([
  'stream',
  'stream_options',
  'user',
  'safety_identifier',
  'metadata',
  'store',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  // The key has these as the id of the model, the cap that is sent, and the number of choices.
  'model',
  'max_tokens',
  'max_completion_tokens',
  'n',
])

/**
 * The order of the members of a body and of a message does not matter. Deeper down it does: a model answers in the order of the
 * schema in its request.
 */
export function keyOf({ owner, modelId, cap, choices, hidesReasoning = false, body }: Question): string {
  const members = Object.entries(body)
    .filter(([name, value]) => !WITHOUT_EFFECT.has(name) && value !== null && value !== undefined)
    .map(([name, value]) => [name, name === 'messages' ? body.messages.map(sorted) : value] as const)
    .sort(byName)
  return hash('sha256', JSON.stringify([owner, modelId, cap, choices, hidesReasoning, members]), 'base64url')
}

function sorted(message: object): (readonly [string, unknown])[] {
  return Object.entries(message)
    .filter(([, value]) => value !== null && value !== undefined)
    .sort(byName)
}

function byName([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number {
  return one < other ? -1 : one > other ? 1 : 0
}
