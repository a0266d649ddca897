/** Mistakes in gateway.yaml with braces, brackets and quotes, in the form of gateway-rows.ts. */
import type { Row } from './gateway-rows.ts'

export const BRACES: Row[] = [
  ['an open brace', 'a: { b: "{" }\nlimits: ▸{ body: 1MiB', 'this { is not closed; write } after its last entry'],
  ['an open bracket', 'version: 1\nroutes: ▸[\n  { path: /v1 }', 'this [ is not closed; write ] after its'],
  [
    'a line in braces that is not indented',
    'version: 1\nlimits: { body: 1MiB,\n▸head: 16KiB }',
    'this line is inside the { of line 2, but is not indented far enough; indent it further, with spaces',
  ],
  [
    'a tab in braces',
    'version: 1\nlimits: {\n\t▸body: 1MiB }',
    'this line is inside the { of line 2, but is not indented far enough',
  ],
  [
    'another bracket at the end',
    'version: 1\nroutes: ▸[ 1, 2 }\nlimits: {}',
    'this [ is not closed; write ] after its',
  ],
  ['an open quote', 'version: 1\ndrain: ▸"1m\nhosts: []\n', 'this " is not closed; write " at the end of the text'],
  ['an open single quote', "drain: ▸'1m", "this ' is not closed; write ' at"],
  ['an alias in itself', { more: 'hosts: &all [ ▸*all ]' }, '*all contains itself'],
  ['a key that is a list', { more: '? ▸[a]\n: 1' }, 'YAML: with stringKeys, all keys must be strings'],
  ['an unquoted reference in brackets', { more: 'hosts: [ ▸${HOST} ]' }, 'YAML cannot read ${…} inside { } or [ ]'],
  ['an unquoted IPv6 address', { more: 'listen: [::1]▸:8080' }, 'quote the address: "[::1]:8080"'],
  ['deep nesting', `▸version: ${'['.repeat(20_000)}`, 'nested too deeply'],
]
