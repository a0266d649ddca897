/**
 * Content of the Messages API that the canonical format has in other words only: pictures in results, documents of text,
 * what a text quotes. It is kept beside the canonical message, for providers of the same format. A message that a step has
 * rewritten is another object, and goes as it was rewritten.
 */
import { type Fields, isFields } from './value.ts'

/** A block as the client has sent it, or null, and the number of canonical parts for it. */
export interface WholePiece {
  readonly block: Fields | null
  readonly parts: number
  /** The message of the tool whose result it shows. */
  readonly result?: object
}

export type Whole =
  /** `shownIn`: the message of the user with the pictures of the result. */
  | { readonly kind: 'result'; readonly block: Fields; readonly shownIn: object | null }
  | { readonly kind: 'user'; readonly pieces: readonly WholePiece[] }
  /** Fields of a tool that change nothing for other providers. */
  | { readonly kind: 'tool'; readonly fields: Fields }
  /** By the part of the content. */
  | { readonly kind: 'assistant'; readonly citations: ReadonlyMap<number, readonly unknown[]> }

const KEPT = new WeakMap<object, Whole>()

export function keepWhole(message: object, whole: Whole): void {
  KEPT.set(message, whole)
}

export function wholeOf<Kind extends Whole['kind']>(message: object, kind: Kind): (Whole & { kind: Kind }) | undefined {
  const whole = KEPT.get(message)
  return whole?.kind === kind ? (whole as Whole & { kind: Kind }) : undefined
}

/** The fields of a result that are sent as they came; undefined where they cannot be, or a step has rewritten some of it. */
export function wholeResult(
  message: object,
  messages: readonly object[],
  takes: (block: Fields) => boolean,
): Fields | undefined {
  const whole = wholeOf(message, 'result')
  if (whole === undefined || !messages.includes(message) || !takes(whole.block)) return undefined
  return whole.shownIn === null || messages.includes(whole.shownIn) ? whole.block : undefined
}

/** Marks of caches are read on their own: no block keeps one. */
export function unmarked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unmarked)
  if (!isFields(value)) return value
  const kept = Object.entries(value).filter(([name]) => name !== 'cache_control')
  return Object.fromEntries(kept.map(([name, inner]) => [name, NESTED.has(name) ? unmarked(inner) : inner]))
}

const NESTED: ReadonlySet<string> = new Set(['content', 'source'])
