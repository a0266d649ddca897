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
  return detail ? { kind: 'detail', detail } : { kind: 'nothing' }
}

function splitOnce(text: string): readonly [string, string] {
  const at = text.indexOf('.')
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

function parsed(base64: string): Fields | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(base64, 'base64url').toString('utf8'))
    return isFields(value) ? value : null
  } catch {
    return null
  }
}
