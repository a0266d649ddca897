/** Converts `headers` and `extra_headers` of a row to the headers of its provider. */

import { isKeyHeader, isReservedHeader } from '../../config/providers.ts'
import type { DialectName } from '../../providers/dialects/dialect-names.ts'
import type { Fields } from './read.ts'
import type { Remarks } from './remarks.ts'
import type { Variables } from './secrets.ts'

/** Deliberately broad: the operator can write back a value that is not a secret. */
const SECRET_HEADER = /auth|cookie|key|token|secret|pass|credential|signature|session/i
const SECRET_VALUE = /\b(Bearer|Basic) |[A-Za-z0-9+/_-]{20,}/
const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i
/** @param prefix of the provider, with which the variable of a secret begins */
export function headersOf(
  fields: Fields,
  prefix: string,
  { variables, remarks }: { readonly variables: Variables; readonly remarks: Remarks },
): Record<string, string> {
  const headers = new Map<string, [name: string, value: string]>()
  const organization = fields.text('organization')
  if (organization) headers.set('openai-organization', ['OpenAI-Organization', variables.plain(organization)])
  for (const map of [fields.map('headers'), fields.map('extra_headers')]) {
    for (const name of map?.keys() ?? []) {
      const value = map!.text(name)
      const at = map!.peek(name)!
      if (value === null) remarks.add('lost', at, 'a header is a text')
      else if (!NAME.test(name)) remarks.add('lost', at, 'this is not a valid header name')
      else if (isReservedHeader(name.toLowerCase())) remarks.add('lost', at, 'the gateway builds this header itself')
      else if (!/^[\x20-\x7e\x80-\xff]*$/.test(value.text))
        remarks.add('lost', at, 'it contains a line break or a character that is not allowed in a header')
      else {
        if (headers.has(name.toLowerCase())) remarks.add('changed', at, 'the header is duplicated: this one counts')
        const variable = `${prefix}_${name}`.toUpperCase().replace(/[^A-Z0-9]/g, '_')
        const isSecret = SECRET_HEADER.test(name) || SECRET_VALUE.test(value.text)
        const text = isSecret ? variables.secret(value, variable) : variables.plain(value)
        if (text !== null) headers.set(name.toLowerCase(), [name, text])
      }
    }
  }
  return Object.fromEntries(headers.values())
}

/**
 * Returns the provider with a single credential: in LiteLLM, a header of the row has precedence over its key.
 * @param fields the row, for remarks
 */
export function withOneCredential(
  provider: Record<string, unknown>,
  headers: Readonly<Record<string, string>>,
  fields: Fields,
  remarks: Remarks,
): Record<string, unknown> {
  const { api_key: key, ...rest } = provider
  if (key == null) return rest
  const dialect = provider['dialect'] as DialectName
  const own = Object.keys(headers).find(name => isKeyHeader(name.toLowerCase(), dialect))
  if (own === undefined) return provider
  remarks.add(
    'changed',
    fields.peek('api_key') ?? fields,
    'a header has the key of the provider: api_key is not sent',
    'keep one of the two',
    own,
  )
  return rest
}
