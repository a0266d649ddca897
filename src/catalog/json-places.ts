/** Finds the positions of members in a JSON text. */

/** A member of an object, at any depth. */
export interface MemberPlace {
  readonly name: string
  /** The index of the first character of its key, and of its value. */
  readonly key: number
  readonly value: number
  /** Whether the object has an earlier member with this name, which `JSON.parse` drops. */
  readonly isRepeated: boolean
  /** The names and list indexes from the outermost object to this member. Valid only during the visit. */
  path(): string[]
}

/** Maximum nesting of objects and lists. Price lists have 6 levels. */
export const MAX_DEPTH = 64

/**
 * Visits all members in the order of the text, in one pass. The text must be JSON. Returns false if it stopped at a nesting deeper than
 * `MAX_DEPTH`.
 */
export function eachMember(text: string, visit: (member: MemberPlace) => void): boolean {
  const open: { readonly names: Set<string> | null; name: string | number }[] = []
  const path = () => open.map(({ name }) => String(name))
  for (let index = 0; index < text.length; index++) {
    const character = text[index]
    if (character === '{' || character === '[') {
      if (open.length === MAX_DEPTH) return false
      open.push(character === '{' ? { names: new Set(), name: '' } : { names: null, name: 0 })
    } else if (character === ',') {
      const level = open.at(-1)!
      if (typeof level.name === 'number') level.name++
    } else if (character === '}' || character === ']') open.pop()
    else if (character === '"') {
      const key = index
      index = endOfString(text, key)
      const colon = afterBlanks(text, index + 1)
      if (text[colon] !== ':') continue
      const level = open.at(-1)!
      const written = text.slice(key, index + 1)
      const name = written.includes('\\') ? (JSON.parse(written) as string) : written.slice(1, -1)
      const isRepeated = level.names!.has(name)
      level.name = name
      level.names!.add(name)
      visit({ name, key, value: afterBlanks(text, colon + 1), isRepeated, path })
      index = colon
    }
  }
  return true
}

/** The index of the closing quote of a string. */
function endOfString(text: string, start: number): number {
  let index = start + 1
  while (index < text.length && text[index] !== '"') index += text[index] === '\\' ? 2 : 1
  return index
}

function afterBlanks(text: string, start: number): number {
  let index = start
  while (index < text.length && ' \t\n\r'.includes(text[index]!)) index++
  return index
}

/**
 * The index of the value at each path; keys are the parts of the path joined by `\0`. Paths that do not exist are missing. The text
 * must be JSON, unless all paths are empty.
 */
export function valuesAt(text: string, paths: readonly (readonly string[])[]): Map<string, number> {
  const found = new Map<string, number>()
  const long = paths.filter(path => path.length > 0)
  const wanted = new Set(long.map(path => path.join('\0')))
  const last = new Set(long.map(path => path.at(-1)!))
  if (wanted.size === 0) return found
  eachMember(text, ({ name, value, path }) => {
    if (!last.has(name)) return
    const whole = path().join('\0')
    if (wanted.has(whole) && !found.has(whole)) found.set(whole, value)
  })
  return found
}

/** The line and column (from 1) where a text stops being JSON; null if it is JSON. */
export function brokenAt(text: string): { readonly line: number; readonly column: number } | null {
  const whole = failureOf(text)
  if (whole === null) return null
  let at = whole
  if (Number.isNaN(at)) {
    // For an unexpected token the error has no position. It is the last character of the shortest prefix with this error.
    let [sound, broken] = [0, text.length]
    while (broken - sound > 1) {
      const middle = Math.floor((sound + broken) / 2)
      const failure = failureOf(text.slice(0, middle))
      if (failure === null || failure >= middle) sound = middle
      else broken = middle
    }
    at = broken - 1
  }
  const before = text.slice(0, at).split('\n')
  return { line: before.length, column: before.at(-1)!.length + 1 }
}

/** The index where a text is not JSON; NaN at an unexpected token; null if it is JSON. */
function failureOf(text: string): number | null {
  try {
    JSON.parse(text)
    return null
  } catch (error) {
    const { message } = error as Error
    const position = / at position (\d+)/.exec(message)?.[1]
    if (position !== undefined) return Number(position)
    return message.startsWith('Unexpected end') ? text.length : Number.NaN
  }
}
