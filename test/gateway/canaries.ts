/** Forty secrets, each with the one place where it may be seen, and what looks for them everywhere else. */
import { seeded } from '../helpers/seeded.ts'

/** Where a secret may turn up. */
export type Place = 'log' | 'answers' | 'metrics' | 'files' | 'commands' | 'upstream'

export interface Canary {
  readonly name: string
  readonly value: string
  /** Where it has to be found, because that is what it is for; null: nowhere. */
  readonly home: Place | null
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

/** Makes secrets that share nothing with each other but what their kind begins with. */
export function createCanaries(
  seed: number,
): (name: string, home: Place | null, begin?: string, size?: number) => Canary {
  const random = seeded(seed)
  return (name, home, begin = '', size = 36) => {
    let value = begin
    for (let count = 0; count < size; count++) value += LETTERS[Math.floor(random() * LETTERS.length)]
    return { name, value, home }
  }
}

/** A piece of a secret is a secret too: this many characters of one may not be seen. */
const PIECE = 12

/** A line for each secret that is where it must not be, or is not where it belongs. */
export function misplaced(canaries: readonly Canary[], places: Readonly<Record<Place, string>>): string[] {
  return canaries.flatMap(({ name, value, home }) =>
    (Object.entries(places) as [Place, string][]).flatMap(([place, text]) => {
      if (place === home) return text.includes(value) ? [] : [`${name} is not in ${place}, where it belongs`]
      const found = tracesOf(value).find(trace => text.includes(trace))
      return found === undefined ? [] : [`${name} is in ${place}: ${excerpt(text, found)}`]
    }),
  )
}

/** A secret's beginning, middle and end (without what all of its kind begin with), and other ways to write it. */
function tracesOf(value: string): string[] {
  const middle = (value.length - PIECE) >> 1
  const pieces = [value.slice(-PIECE), value.slice(middle, middle + PIECE), value.slice(-2 * PIECE, -PIECE)]
  const others = [Buffer.from(value).toString('base64').slice(4, -4), Buffer.from(value).toString('hex')]
  return [...pieces.filter(piece => piece.length === PIECE), value, encodeURIComponent(value), ...others]
}

function excerpt(text: string, found: string): string {
  const at = text.indexOf(found)
  return JSON.stringify(text.slice(Math.max(0, at - 120), at + found.length + 40))
}
