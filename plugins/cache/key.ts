/** The name under which an answer is kept: a digest of everything in the request that can change it. */
import { hash } from 'node:crypto'
import type { Question } from './question.ts'

/** Members that do not change what is answered: how it is sent, for whom, and how the provider books it. */
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
  // In the name of the model, the cap that goes upstream, and the number of choices.
  'model',
  'max_tokens',
  'max_completion_tokens',
  'n',
])

/**
 * Members of the body, and of each message, count in whichever order they were sent; below that the order stands as it
 * is: a model answers in the order of the schema that it was given.
 */
export function keyOf({ owner, modelId, cap, choices, hidesThoughts = false, body }: Question): string {
  const members = Object.entries(body)
    .filter(([name, value]) => !WITHOUT_EFFECT.has(name) && value !== null && value !== undefined)
    .map(([name, value]) => [name, name === 'messages' ? body.messages.map(sorted) : value] as const)
    .sort(byName)
  return hash('sha256', JSON.stringify([owner, modelId, cap, choices, hidesThoughts, members]), 'base64url')
}

function sorted(message: object): (readonly [string, unknown])[] {
  return Object.entries(message)
    .filter(([, value]) => value !== null && value !== undefined)
    .sort(byName)
}

function byName([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number {
  return one < other ? -1 : one > other ? 1 : 0
}
