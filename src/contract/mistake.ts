/** Mistakes in the code of plugins, for the people who wrote it: what was thrown, and where in their files. */

/** A place in a source file, from 1 on. Node strips types from TypeScript in place, so it holds there too. */
export interface MistakePlace {
  /** Absolute path. */
  readonly file: string
  readonly line: number
  /** Null where the error does not say it. */
  readonly column: number | null
}

/** The gateway's own code: its frames say nothing about a mistake in a plugin. */
const GATEWAY = pathOf(new URL('..', import.meta.url).href)
/** A cause may have a cause. */
const MAX_CAUSES = 5

/** Where the code of a plugin threw this; null when the error's stack names no such place. */
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
 * The first line of what was thrown, with the place as `(policies/mine.ts:4:11)` where it is known.
 *
 * @param beside gateway.yaml, or a policy of it, by its absolute path: places below the folder of gateway.yaml are told
 * relative to that folder
 */
export function mistakeText(error: unknown, beside?: string): string {
  const place = shownPlace(placeOfMistake(error), beside)
  const line = firstLineOf(error)
  // An error that was told once and passed on has its place already.
  return place === null || line.endsWith(`(${place})`) ? line : `${line} (${place})`
}

/**
 * `policies/mine.ts:4:11`; null for no place.
 *
 * @param beside as for `mistakeText`
 */
export function shownPlace(place: MistakePlace | null, beside?: string): string | null {
  if (place === null) return null
  const { file, line, column } = place
  return `${shownFile(file, beside)}:${line}${column === null ? '' : `:${column}`}`
}

/**
 * The path of a plugin's file.
 *
 * @param beside as for `mistakeText`
 */
export function shownFile(file: string, beside?: string): string {
  const project = beside?.replace(/[^/]*$/, '').replace(/\/policies\/$/, '/')
  return project && file.startsWith(project) ? file.slice(project.length) : file
}

/** The first line of what was thrown. */
export function firstLineOf(error: unknown): string {
  const { message, name } = Object(error) as Partial<Error>
  const text = error instanceof Error || typeof message === 'string' ? message || name : error
  return String(text).split('\n', 1)[0]!
}

/** The innermost frame outside of node_modules; without one, the innermost frame in there (a plugin from npm). */
function placeInStack(stack: string): MistakePlace | null {
  const header = placeInHeader(stack)
  const places = header === null ? [] : [header]
  // `at f (file:///a/b.ts?content=0f:3:37)`, `at async /a/b.cjs:2:7`
  const frames = /^ +at (?:.*? \()?(?:async )?((?:file:\/)?\/.+?)(?:\?[^:/]*)?:(\d+):(\d+)\)?$/gm
  for (const [, path, line, column] of stack.matchAll(frames)) {
    places.push({ file: pathOf(path!), line: Number(line), column: Number(column) })
  }
  // Who called the gateway did not make the mistake: a test of the plugin, for example.
  const begin = places.findIndex(({ file }) => !file.startsWith(GATEWAY))
  const end = places.findIndex(({ file }, nth) => nth > begin && file.startsWith(GATEWAY))
  const outside = begin < 0 ? [] : places.slice(begin, end < 0 ? undefined : end)
  return outside.find(({ file }) => !file.includes('/node_modules/')) ?? outside[0] ?? null
}

/** Of a file that cannot be parsed, Node says place and text before the message: `file:///a/b.ts:2`, lines, `   ^^^`. */
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
