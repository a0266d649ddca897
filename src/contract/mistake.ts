/** Errors in the code of plugins, for their authors: the message, and the place in their files. */

/** A place in a source file; lines and columns begin at 1. Node strips types in place, so TypeScript positions are exact. */
export interface MistakePlace {
  /** Absolute path. */
  readonly file: string
  readonly line: number
  /** Null if the error does not contain it. */
  readonly column: number | null
}

/** The gateway's own code: its frames do not locate an error in a plugin. */
const GATEWAY = pathOf(new URL('..', import.meta.url).href)
/** The maximum depth of the chain of causes. */
const MAX_CAUSES = 5

/** Returns the place in a plugin's code that threw; null if the error's stack has none. */
export function placeOfMistake(error: unknown): MistakePlace | null {
  let at = error
  for (let nth = 0; nth <= MAX_CAUSES && at instanceof Error; nth++) {
    const place = placeInStack(at.stack ?? '')
    if (place !== null) return place
    at = at.cause
  }
  return null
}

/**
 * Returns the first line of a thrown value, followed by the place as `(policies/mine.ts:4:11)` if it is known.
 *
 * @param beside the absolute path of gateway.yaml or of one of its policies: places below the folder of gateway.yaml are shown relative
 * to it
 */
export function mistakeText(error: unknown, beside?: string): string {
  const place = shownPlace(placeOfMistake(error), beside)
  const line = firstLineOf(error)
  // An error that was rethrown may already contain its place.
  return place === null || line.endsWith(`(${place})`) ? line : `${line} (${place})`
}

/**
 * Formats a place as `policies/mine.ts:4:11`; null for no place.
 *
 * @param beside as for `mistakeText`
 */
export function shownPlace(place: MistakePlace | null, beside?: string): string | null {
  if (place === null) return null
  const { file, line, column } = place
  return `${shownFile(file, beside)}:${line}${column === null ? '' : `:${column}`}`
}

/**
 * Formats the path of a plugin's file.
 *
 * @param beside as for `mistakeText`
 */
export function shownFile(file: string, beside?: string): string {
  const project = beside?.replace(/[^/]*$/, '').replace(/\/policies\/$/, '/')
  return project && file.startsWith(project) ? file.slice(project.length) : file
}

/** Returns the first line of a thrown value. */
export function firstLineOf(error: unknown): string {
  const { message, name } = Object(error) as Partial<Error>
  const text = error instanceof Error || typeof message === 'string' ? message || name : error
  return String(text).split('\n', 1)[0]!
}

/** Returns the innermost frame outside of node_modules or, without one, the innermost frame in there (a plugin from npm). */
function placeInStack(stack: string): MistakePlace | null {
  const header = placeInHeader(stack)
  const places = header === null ? [] : [header]
  // `at f (file:///a/b.ts?content=0f:3:37)`, `at async /a/b.cjs:2:7`
  const frames = /^ +at (?:.*? \()?(?:async )?((?:file:\/)?\/.+?)(?:\?[^:/]*)?:(\d+):(\d+)\)?$/gm
  for (const [, path, line, column] of stack.matchAll(frames)) {
    places.push({ file: pathOf(path!), line: Number(line), column: Number(column) })
  }
  // Frames below the gateway's are its caller, such as a test of the plugin.
  const begin = places.findIndex(({ file }) => !file.startsWith(GATEWAY))
  const end = places.findIndex(({ file }, nth) => nth > begin && file.startsWith(GATEWAY))
  const outside = begin < 0 ? [] : places.slice(begin, end < 0 ? undefined : end)
  return outside.find(({ file }) => !file.includes('/node_modules/')) ?? outside[0] ?? null
}

/** If a file cannot be parsed, Node puts place and source before the message: `file:///a/b.ts:2`, lines, `   ^^^`. */
function placeInHeader(stack: string): MistakePlace | null {
  const [first = '', ...lines] = stack.split('\n', 8)
  const [, path, line] = /^((?:file:\/)?\/.+?)(?:\?[^:/]*)?:(\d+)$/.exec(first) ?? []
  if (path === undefined) return null
  const carets = lines.find(each => /^\s*\^+\s*$/.test(each))
  return { file: pathOf(path), line: Number(line), column: carets === undefined ? null : carets.indexOf('^') + 1 }
}

function pathOf(path: string): string {
  try {
    return path.startsWith('file:') ? decodeURIComponent(new URL(path).pathname) : path
  } catch {
    return path
  }
}
