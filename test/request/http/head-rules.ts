/** Heads that the parser of Node.js accepts and the gateway refuses. The gateway has no rules besides those of the list. */

/** A head as the server of Node.js has read it. */
export interface Head {
  readonly version: string
  readonly method: string
  readonly target: string
  /** In the received order, with names in lower case. */
  readonly headers: readonly (readonly [name: string, value: string])[]
}

const valuesOf = ({ headers }: Head, name: string) => headers.filter(each => each[0] === name).map(each => each[1])
const has = (head: Head, name: string) => valuesOf(head, name).length > 0
const ONCE = ['host', 'authorization', 'content-type', 'content-length', 'transfer-encoding', 'idempotency-key']
const WITHOUT_BODY = ['GET', 'HEAD', 'OPTIONS']

export const STRICTER: readonly (readonly [rule: string, refuses: (head: Head) => boolean])[] = [
  ['another version than 1.0 and 1.1', ({ version }) => !['1.0', '1.1'].includes(version)],
  ['no Host in HTTP/1.1', head => head.version === '1.1' && !has(head, 'host')],
  [
    'a bad Host',
    head => valuesOf(head, 'host').some(host => !/^(?:[\w.~-]*|\[[\da-f:.]+\])(?::\d{0,5})?$/i.test(host)),
  ],
  ['another target than a path', ({ target }) => !target.startsWith('/')],
  ['a fragment', ({ target }) => target.includes('#')],
  ['more than 100 headers', ({ headers }) => headers.length > 100],
  ['a repeated header that may occur once', head => ONCE.some(name => valuesOf(head, name).length > 1)],
  [
    'the name of such a header with an underscore',
    ({ headers }) => headers.some(([name]) => name.includes('_') && ONCE.includes(name.replaceAll('_', '-'))),
  ],
  ['__proto__', head => has(head, '__proto__')],
  [
    'another coding than chunked',
    head => valuesOf(head, 'transfer-encoding').some(value => value.toLowerCase() !== 'chunked'),
  ],
  ['chunks in HTTP/1.0', head => head.version === '1.0' && has(head, 'transfer-encoding')],
  [
    'another expectation than 100-continue',
    head => has(head, 'expect') && valuesOf(head, 'expect').join(', ').toLowerCase() !== '100-continue',
  ],
  [
    'a body of a method without one',
    head =>
      WITHOUT_BODY.includes(head.method) &&
      (has(head, 'transfer-encoding') || valuesOf(head, 'content-length').some(length => length !== '0')),
  ],
]

/** The gateway answers such a request and then closes the connection. */
export function endsConnection(head: Head): boolean {
  const options = valuesOf(head, 'connection')
    .join(', ')
    .toLowerCase()
    .split(/[\s,]+/)
  if (has(head, 'upgrade') && options.includes('upgrade')) return true
  return options.includes('close') || (head.version === '1.0' && !options.includes('keep-alive'))
}
