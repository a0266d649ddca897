/** gateway.yaml with what a file of policy tests says in place of its own parts, and each problem at its place in the one or the other. */
import { isDeepStrictEqual } from 'node:util'
import { type Document, isMap, isScalar, isSeq, type Node, parse, parseDocument } from 'yaml'
import type { Problem } from '../../config/yaml/problem.ts'
import { pointer, readSource, type Source } from '../../config/yaml/source.ts'

/** What stands in for the parts of gateway.yaml, by their names there. */
export type Parts = Readonly<Record<string, unknown>>

export interface Merged {
  /** What the loader reads as gateway.yaml. */
  readonly text: string
  /** A problem of that text as one of the file in which its place is written. */
  placed(problem: Problem): Problem
}

/**
 * @param config the path of gateway.yaml, as it stands in problems
 * @param tests the file that says the parts
 */
export async function mergeParts(config: string, text: string, parts: Parts, tests: Source): Promise<Merged> {
  const asItIs: Merged = { text, placed: problem => problem }
  const document = parseDocument(text)
  const values = valuesOf(document)
  // Then the loader has enough to say of the file itself.
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

/** Null when it is no map, or has errors: some come only to light when aliases are followed. */
function valuesOf(document: Document): object | null {
  if (document.errors.length > 0 || !isMap(document.contents)) return null
  try {
    return document.toJS() as object
  } catch {
    return null
  }
}

/** With each value as it is written where that can be: only a plain `${NAME}` may become a number. */
function merge(document: Document, wanted: object, parts: Parts): string {
  for (const [name, value] of Object.entries(parts)) document.set(name, document.createNode(value, { flow: true }))
  try {
    const text = document.toString({ lineWidth: 0 })
    if (isDeepStrictEqual(parse(text), wanted)) return text
  } catch {
    // What is left may name an anchor that stood in what was taken out.
  }
  return JSON.stringify(wanted, null, 2)
}

function offsetOf(text: string, { line, column }: Problem): number {
  const before = text.split('\n').slice(0, line - 1)
  return before.reduce((sum, each) => sum + each.length + 1, 0) + column - 1
}

/** What stands at an offset: the way to it, and whether it is a key. */
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
