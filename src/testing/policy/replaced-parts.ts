/** Merges gateway.yaml with the parts that policy tests replace, and maps each problem to the file it is from. */
import { isDeepStrictEqual } from 'node:util'
import { type Document, isMap, isScalar, isSeq, type Node, parse, parseDocument } from 'yaml'
import type { Problem } from '../../config/yaml/problem.ts'
import { pointer, readSource, type Source } from '../../config/yaml/source.ts'

/** Replacements of parts of gateway.yaml, by their names there. */
export type Parts = Readonly<Record<string, unknown>>

export interface MergedConfig {
  /** The text that the loader reads as gateway.yaml. */
  readonly text: string
  /** Maps a problem of the merged text to its file. */
  placed(problem: Problem): Problem
}

/**
 * @param config the path of gateway.yaml, as in problems
 * @param tests the file with the replacements
 */
export async function mergeParts(config: string, text: string, parts: Parts, tests: Source): Promise<MergedConfig> {
  const asItIs: MergedConfig = { text, placed: problem => problem }
  const document = parseDocument(text)
  const values = valuesOf(document)
  // The loader reports the problems of the file itself.
  if (values === null) return asItIs
  const own = await readSource(config, text, { env: {}, readFile: async () => '' })
  const merged = merge(document, { ...values, ...parts }, parts)
  const { contents } = parseDocument(merged)
  return {
    text: merged,
    placed(problem) {
      if (problem.file !== config) return problem
      const { path, key } = pathAt(contents, offsetOf(merged, problem))
      const source = Object.hasOwn(parts, path[0] ?? '') ? tests : own
      return { ...problem, ...source.position(pointer(...path), { key }) }
    },
  }
}

/** Null if it is not an object or has errors. Some errors occur only when aliases are resolved. */
function valuesOf(document: Document): object | null {
  if (document.errors.length > 0 || !isMap(document.contents)) return null
  try {
    return document.toJS() as object
  } catch {
    return null
  }
}

/** Keeps the notation of values if possible, because only a plain `${NAME}` may become a number. */
function merge(document: Document, wanted: object, parts: Parts): string {
  for (const [name, value] of Object.entries(parts)) document.set(name, document.createNode(value, { flow: true }))
  try {
    const text = document.toString({ lineWidth: 0 })
    if (isDeepStrictEqual(parse(text), wanted)) return text
  } catch {
    // The rest may use an anchor that was in a removed part.
  }
  return JSON.stringify(wanted, null, 2)
}

function offsetOf(text: string, { line, column }: Problem): number {
  const before = text.split('\n').slice(0, line - 1)
  return before.reduce((sum, each) => sum + each.length + 1, 0) + column - 1
}

/** The path at an offset, and whether it is a key. */
function pathAt(
  node: Node | null,
  offset: number,
  path: readonly string[] = [],
): { path: readonly string[]; key: boolean } {
  if (isMap<Node, Node | null>(node)) {
    for (const { key, value } of node.items) {
      const inner = [...path, String(isScalar(key) ? key.value : key)]
      if (covers(key, offset)) return { path: inner, key: true }
      if (covers(value, offset)) return pathAt(value, offset, inner)
    }
  } else if (isSeq<Node | null>(node)) {
    for (const [nth, item] of node.items.entries()) {
      if (covers(item, offset)) return pathAt(item, offset, [...path, String(nth)])
    }
  }
  return { path, key: false }
}

function covers(node: Node | null, offset: number): boolean {
  if (!node?.range) return false
  const [from, to] = node.range
  return from <= offset && offset < Math.max(to, from + 1)
}
