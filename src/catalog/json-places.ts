/** Where the members of a JSON text are. */

/** A member of an object, at any depth. */
export interface MemberPlace {
  readonly path: readonly string[]
  /** The index of its key, and of the first character of its value. */
  readonly key: number
  readonly value: number
  /** Whether the object has an earlier member of this name, which `JSON.parse` drops. */
  readonly isRepeated: boolean
}

const TOKEN = /"((?:[^"\\]|\\.)*)"(\s*:\s*)?|[{}[\]]/gs

/** All members, in the order of the text. The text must be JSON. */
export function* membersIn(text: string): Generator<MemberPlace> {
  const open: { names: Set<string> | null; name: string }[] = []
  for (const { 0: token, 1: name, 2: colon, index } of text.matchAll(TOKEN)) {
    if (token === '{') open.push({ names: new Set(), name: '' })
    else if (token === '[') open.push({ names: null, name: '' })
    else if (token === '}' || token === ']') open.pop()
    else if (colon !== undefined && name !== undefined) {
      const level = open.at(-1)!
      level.name = name
      const isRepeated = level.names?.has(name) === true
      level.names?.add(name)
      yield {
        path: open.filter(each => each.names !== null).map(each => each.name),
        key: index,
        value: index + token.length,
        isRepeated,
      }
    }
  }
}

/** The index of the value at each path, by its parts with `\0` between them; a path that the text does not have is missing. */
export function valuesAt(text: string, paths: readonly (readonly string[])[]): Map<string, number> {
  const wanted = new Set(paths.map(path => path.join('\0')))
  const found = new Map<string, number>()
  for (const { path, value } of membersIn(text)) {
    const name = path.join('\0')
    if (wanted.has(name) && !found.has(name)) found.set(name, value)
  }
  return found
}
