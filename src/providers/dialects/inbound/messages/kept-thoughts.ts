/**
 * Where thoughts wait between two turns. A client of this format gives thinking blocks back as they were, and nothing
 * else: it may drop fields that it does not know. So what other providers want to have back is kept in the one place
 * that no client looks into: the signature of a thinking block, the data of a redacted one.
 *
 * A signature of the Messages API itself stays as it is. All others begin with a mark:
 *
 * - `tollgate.field.NAME`: the provider signs nothing, the thought stood in the field NAME
 * - `tollgate.google.SIGNATURE`: Google's signature, which stood at the call that follows the block
 * - `tollgate.detail.BASE64URL`: in a redacted block: one of the `reasoning_details`, as JSON
 *
 * A client that did not ask for thinking gets no such blocks. Its turns with calls keep them in the id of the next call,
 * `ID_tollgate_BASE64URL`, which comes back with the call and with its result. An id that has such a part already (another
 * gateway's) gets one of its own in any case: each gateway takes off one.
 */
import { type Fields, isFields } from './fields.ts'

const MARK = 'tollgate.'

/** In which field a provider that signs nothing gives its thoughts, and wants them back. */
export type ThoughtField = 'reasoning_content' | 'reasoning'

const FIELDS: readonly ThoughtField[] = ['reasoning_content', 'reasoning']

export const fieldMark = (field: ThoughtField): string => `${MARK}field.${field}`
export const googleMark = (signature: string): string => `${MARK}google.${signature}`
/** Of a detail only words and numbers are kept: there is nothing else in those that are known. */
export function detailMark(detail: Fields): string {
  const flat = Object.fromEntries(Object.entries(detail).filter(([, value]) => typeof value !== 'object'))
  return `${MARK}detail.${Buffer.from(JSON.stringify(flat)).toString('base64url')}`
}

/** What a signature, or sealed data, means that a client has given back. */
export type Mark =
  /** No mark of ours: the provider's own. */
  | { readonly kind: 'own' }
  | { readonly kind: 'field'; readonly field: ThoughtField }
  | { readonly kind: 'google'; readonly signature: string }
  | { readonly kind: 'detail'; readonly detail: Fields }
  /** Nothing to be had from it: empty, or a mark that was damaged. */
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

/** The id under which the client knows a call, with the thoughts that led to it. */
export function idWith(id: string, thoughts: readonly KeptBlock[]): string {
  if (thoughts.length === 0 && !id.includes(IN_ID)) return id
  return `${id}${IN_ID}${Buffer.from(JSON.stringify(thoughts)).toString('base64url')}`
}

/** The call's own id, and the thoughts that the client's id for it keeps. */
export function readId(id: string): { readonly own: string; readonly thoughts: readonly KeptBlock[] } {
  const at = id.lastIndexOf(IN_ID)
  const blocks: unknown = at < 0 ? null : parsed(id.slice(at + IN_ID.length))
  // Anything else is a part of the client's own id.
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
