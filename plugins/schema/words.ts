/** Values and suggestions in messages: shortened values, and the nearest known name. */
import { visible } from '#contract'

/** The maximum length of a shown value. */
const LONGEST = 60

/** A value for a message: JSON of at most 60 characters, and only the type of an object or a list. */
export function shortJson(value: unknown): string {
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object' && value !== null) return 'an object'
  if (typeof value !== 'string') return JSON.stringify(value)
  const whole = value.length <= LONGEST ? quote(value) : ''
  if (whole !== '' && whole.length <= LONGEST) return whole
  // Each unit becomes six characters at most, and no surrogate pair is cut in two.
  let json = ''
  for (const character of value.slice(0, LONGEST)) {
    const piece = quote(character).slice(1, -1)
    if (json.length + piece.length > LONGEST - 5) break
    json += piece
  }
  return `"${json}..."`
}

/** Escapes the line breaks and control characters that JSON leaves. Before the value is cut, because they change its length. */
function quote(text: string): string {
  return visible(JSON.stringify(text))
}

/** Names of other APIs, which are not similar to ours. */
const ELSEWHERE: ReadonlyMap<string, string> = new Map(
  Object.entries({
    input: 'messages',
    prompt: 'messages',
    instructions: 'messages',
    system: 'messages',
    max_output_tokens: 'max_completion_tokens',
    max_new_tokens: 'max_completion_tokens',
    max_length: 'max_completion_tokens',
    num_predict: 'max_completion_tokens',
    stop_sequences: 'stop',
    thinking: 'reasoning_effort',
    reasoning: 'reasoning_effort',
    response_schema: 'response_format',
    text: 'response_format',
  }),
)

/** ` Did you mean 'function'?` for the end of a message; empty if no known word is similar. */
export function meant(value: unknown, known: readonly unknown[]): string {
  const near = typeof value === 'string' ? suggest(value, known as readonly string[]) : undefined
  return near !== undefined && known.includes(near) ? ` Did you mean '${near}'?` : ''
}

/** The most similar known name, if there is one: `maxTokens`, `max-tokens` and `max_token` are `max_tokens`. */
function suggest(name: string, known: readonly string[]): string | undefined {
  if (name.length > 64) return undefined
  const plain = plainOf(name)
  let best: string | undefined
  let least = Math.min(3, Math.floor(plain.length / 3) + 1)
  for (const candidate of known) {
    // Words with a larger difference in length have a larger distance.
    if (Math.abs(candidate.length - name.length) > 4) continue
    const far = distance(plain, plainOf(candidate))
    if (far < least) [best, least] = [candidate, far]
  }
  return best ?? ELSEWHERE.get(name.toLowerCase())
}

function plainOf(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, '')
}

/** The number of letters to add, remove, change or swap with their neighbour to turn one word into the other. */
function distance(one: string, other: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: other.length + 1 }, (_, i) => i)
  for (let i = 1; i <= one.length; i++) {
    const row = [i]
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1] ? 0 : 1
      let far = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + same)
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) {
        far = Math.min(far, beforeLast[j - 2]! + 1)
      }
      row.push(far)
    }
    ;[beforeLast, last] = [last, row]
  }
  return last[other.length]!
}
