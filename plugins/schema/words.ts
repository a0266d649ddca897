/** Words for messages about a client's own words: shortened values, and what may have been meant. */
import { visible } from '#contract'

/** So much of a value is shown at most. */
const LONGEST = 60

/** A value for a sentence: as JSON, at most 60 characters; an object or a list only by its kind. */
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

/** JSON leaves some line breaks and control characters as they are; here already, because the length counts. */
function quote(text: string): string {
  return visible(JSON.stringify(text))
}

/** Names from elsewhere that a near miss would not find. */
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

/** ` Did you mean 'function'?`, behind a sentence; empty where no known word is near. */
export function meant(value: unknown, known: readonly unknown[]): string {
  const near = typeof value === 'string' ? suggest(value, known as readonly string[]) : undefined
  return near !== undefined && known.includes(near) ? ` Did you mean '${near}'?` : ''
}

/** The known name that was probably meant, if any is near: `maxTokens`, `max-tokens` and `max_token` are `max_tokens`. */
function suggest(name: string, known: readonly string[]): string | undefined {
  if (name.length > 64) return undefined
  const plain = plainOf(name)
  let best: string | undefined
  let least = Math.min(3, Math.floor(plain.length / 3) + 1)
  for (const candidate of known) {
    // Words whose lengths differ by more are farther apart.
    if (Math.abs(candidate.length - name.length) > 4) continue
    const far = distance(plain, plainOf(candidate))
    if (far < least) [best, least] = [candidate, far]
  }
  return best ?? ELSEWHERE.get(name.toLowerCase())
}

function plainOf(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, '')
}

/** How many letters must be added, removed, changed or swapped with their neighbour to make one word from the other. */
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
