/**
 * Keeps reasoning between two turns. A client of this format sends thinking blocks back unchanged, but may drop unknown
 * fields. So everything that other providers require back is in fields that clients do not interpret. These are the signature of a
 * thinking block, and the data of a redacted one.
 *
 * A signature of the Messages API itself is kept unchanged. All others begin with a mark:
 *
 * - `tollgate.field.NAME`: the provider does not sign; the reasoning was in the field NAME
 * - `tollgate.google.SIGNATURE`: Google's signature of the call that follows the block
 * - `tollgate.detail.BASE64URL`: in a redacted block: one of the `reasoning_details`, as JSON
 *
 * A client that did not ask for reasoning gets no such blocks. In turns with calls, the id of the next call has them:
 * `ID_tollgate_BASE64URL`. It comes back with the call and with its result. An id that already has such a part (of another
 * gateway) always gets a second one, because each gateway removes one.
 */
import { type Fields, isFields } from './fields.ts'

const MARK = 'tollgate.'

/** The field in which a provider without signatures sends its reasoning, and requires it back. */
export type ReasoningField = 'reasoning_content' | 'reasoning'

const FIELDS: readonly ReasoningField[] = ['reasoning_content', 'reasoning']

export const fieldMark = (field: ReasoningField): string => `${MARK}field.${field}`
export const googleMark = (signature: string): string => `${MARK}google.${signature}`
/** Keeps only scalar members of a detail: known details have no others. */
export function detailMark(detail: Fields): string {
  const flat = Object.fromEntries(Object.entries(detail).filter(([, value]) => typeof value !== 'object'))
  return `${MARK}detail.${Buffer.from(JSON.stringify(flat)).toString('base64url')}`
}

/** The meaning of a signature, or of sealed data, that a client sent back. */
export type Mark =
  /** No mark: the provider's own signature. */
  | { readonly kind: 'own' }
  | { readonly kind: 'field'; readonly field: ReasoningField }
  | { readonly kind: 'google'; readonly signature: string }
  | { readonly kind: 'detail'; readonly detail: Fields }
  /** Empty, or a damaged mark. */
  | { readonly kind: 'nothing' }

export function readMark(text: string): Mark {
  if (text === '') return { kind: 'nothing' }
  if (!text.startsWith(MARK)) return { kind: 'own' }
  const [kind, rest] = splitOnce(text.slice(MARK.length))
  if (kind === 'google' && rest !== '') return { kind, signature: rest }
  const field = FIELDS.find(name => name === rest)
  if (kind === 'field' && field) return { kind, field }
  const detail = kind === 'detail' ? parsed(rest) : null
  return isFields(detail) ? { kind: 'detail', detail } : { kind: 'nothing' }
}

/** A thinking block, or the data of a redacted one. */
export type KeptBlock = readonly [thinking: string, signature: string] | readonly [data: string]

const IN_ID = '_tollgate_'

/** The client's id of a call, with the reasoning that led to it. */
export function idWith(id: string, thoughts: readonly KeptBlock[]): string {
  if (thoughts.length === 0 && !id.includes(IN_ID)) return id
  return `${id}${IN_ID}${Buffer.from(JSON.stringify(thoughts)).toString('base64url')}`
}

/** The call's own id, and the reasoning in the client's id. */
export function readId(id: string): { readonly own: string; readonly thoughts: readonly KeptBlock[] } {
  const at = id.lastIndexOf(IN_ID)
  const blocks: unknown = at < 0 ? null : parsed(id.slice(at + IN_ID.length))
  // Otherwise it is a part of the client's own id.
  if (!Array.isArray(blocks) || !blocks.every(isKeptBlock)) return { own: id, thoughts: [] }
  return { own: id.slice(0, at), thoughts: blocks }
}

function isKeptBlock(block: unknown): block is KeptBlock {
  const isList = Array.isArray(block) && (block.length === 1 || block.length === 2)
  return isList && block.every(text => typeof text === 'string')
}

function splitOnce(text: string): readonly [string, string] {
  const at = text.indexOf('.')
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

function parsed(base64: string): unknown {
  try {
    return JSON.parse(Buffer.from(base64, 'base64url').toString('utf8'))
  } catch {
    return null
  }
}
