/**
 * Keeps content of the Messages API that the canonical format can only express in another form: images in results, text documents,
 * citations. It is stored beside the canonical message, for providers of the same format. A message that a step rewrites is another
 * object, so it is sent as rewritten.
 */
import { type Fields, isFields } from './value.ts'

/** A block as the client sent it, or null, and the number of its canonical parts. */
export interface WholePiece {
  readonly block: Fields | null
  readonly parts: number
  /** The tool message whose result it shows. */
  readonly result?: object
}

export type Whole =
  /** `shownIn`: the user message with the images of the result. */
  | { readonly kind: 'result'; readonly block: Fields; readonly shownIn: object | null }
  | { readonly kind: 'user'; readonly pieces: readonly WholePiece[] }
  /** Fields of a tool that have no effect at other providers. */
  | { readonly kind: 'tool'; readonly fields: Fields }
  /** By index of the content part. */
  | { readonly kind: 'assistant'; readonly citations: ReadonlyMap<number, readonly unknown[]> }

const KEPT = new WeakMap<object, Whole>()

export function keepWhole(message: object, whole: Whole): void {
  KEPT.set(message, whole)
}

export function wholeOf<Kind extends Whole['kind']>(message: object, kind: Kind): (Whole & { kind: Kind }) | undefined {
  const whole = KEPT.get(message)
  return whole?.kind === kind ? (whole as Whole & { kind: Kind }) : undefined
}

/** The fields of a result, to be sent unchanged; undefined if the provider does not support them or a step rewrote a part. */
export function wholeResult(
  message: object,
  messages: readonly object[],
  takes: (block: Fields) => boolean,
): Fields | undefined {
  const whole = wholeOf(message, 'result')
  if (whole === undefined || !messages.includes(message) || !takes(whole.block)) return undefined
  return whole.shownIn === null || messages.includes(whole.shownIn) ? whole.block : undefined
}

/** Removes cache marks, which are read separately. */
export function unmarked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unmarked)
  if (!isFields(value)) return value
  const kept = Object.entries(value).filter(([name]) => name !== 'cache_control')
  return Object.fromEntries(kept.map(([name, inner]) => [name, NESTED.has(name) ? unmarked(inner) : inner]))
}

const NESTED: ReadonlySet<string> = new Set(['content', 'source'])
