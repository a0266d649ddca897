/** Bodies and heads with the highest cost: just below a limit, or just above it. */

export interface Widest {
  readonly name: string
  readonly bytes: Buffer
  /** The lines of the head besides host, key and length. */
  readonly type: string
  /** The expected result. */
  readonly status: number
}

const JSON_TYPE = 'Content-Type: application/json'
const MAX_BYTES = 4 * 1024 * 1024
const MAX_STRUCTURAL = 50_000

const row = (name: string, body: string | Buffer, status = 200, type = JSON_TYPE): Widest => ({
  name,
  bytes: Buffer.from(body as string),
  type,
  status,
})
const chat = (more: string, content = '"hi"') =>
  `{"model":"m","messages":[{"role":"user","content":${content}}]${more === '' ? '' : `,${more}`}}`
/** A schema of the caller, in which the format accepts anything. */
const schema = (inner: string) =>
  chat(`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"x":${inner}}}}`)
const list = (count: number, item: (at: number) => string) => Array.from({ length: count }, (_, at) => item(at)).join()
const room = (of: string) => MAX_BYTES - of.length
const fill = (unit: string) => unit.repeat(Math.floor(room(chat('', '""')) / unit.length))
const header = (name: string, value: string) =>
  row(`${name} of ${value.length} bytes`, chat(''), 400, `${name}: ${value}\r\n${JSON_TYPE}`)

export const WIDEST: readonly Widest[] = [
  row('4 MiB of text', chat('', `"${fill('x')}"`)),
  row('4 MiB of escaped letters', chat('', `"${fill('\\u0041')}"`)),
  row('4 MiB of escaped quotes', chat('', `"${fill('\\"')}"`)),
  row('4 MiB of backslashes', chat('', `"${fill('\\\\')}"`)),
  row('4 MiB of three-byte letters', chat('', `"${'中'.repeat(1_390_000)}"`)),
  row('4 MiB of lone surrogates', chat('', `"${fill('\\ud800')}"`)),
  row('4 MiB of blanks', `${chat('')}${' '.repeat(room(chat('')))}`),
  row('a list of 49,900 numbers', schema(`[${list(49_900, () => '1')}]`)),
  row('a number of a million digits', chat(`"temperature":0.${'1'.repeat(1_000_000)}`)),
  row('24,900 keys', schema(`{${list(24_900, at => `"k${at}":1`)}}`)),
  row('24,900 keys like numbers', schema(`{${list(24_900, at => `"${at * 65_537}":1`)}}`)),
  row('24,900 long keys', schema(`{${list(24_900, at => `"${'k'.repeat(150)}${at}":1`)}}`)),
  row('1,000 keys of 4 KB', schema(`{${list(1000, at => `"${'k'.repeat(4080)}${at}":1`)}}`)),
  row('12,000 keys with an escape', schema(`{${list(12_000, at => `"\\u006b${at}":1`)}}`)),
  row('24,900 keys in a bias', chat(`"logit_bias":{${list(24_900, at => `"${at}":1`)}}`)),
  row('8,000 messages', `{"model":"m","messages":[${list(8000, () => '{"role":"user","content":"hi"}')}]}`),
  row('8,000 parts', chat('', `[${list(8000, () => '{"type":"text","text":"hi"}')}]`)),
  row('4,000 tools', chat(`"tools":[${list(4000, () => '{"type":"function","function":{"name":"f"}}')}]`)),
  row('6,000 lists of lists', schema(`[${list(800, () => `${'['.repeat(28)}${']'.repeat(28)}`)}]`)),
  row('a list of one too many', schema(`[${list(MAX_STRUCTURAL, () => '1')}]`), 400),
  row('2 million keys', schema(`{${list(400_000, at => `"${at}":1`)}}`).slice(0, MAX_BYTES), 400),
  row('4 MiB of brackets', '['.repeat(MAX_BYTES), 400),
  row('4 MiB of quotes', '"'.repeat(MAX_BYTES), 400),
  row(
    '4 MiB with invalid UTF-8 at the end',
    Buffer.concat([Buffer.from(chat('', `"${fill('x').slice(2)}`)), Buffer.of(0xff)]),
    400,
  ),
  // Heads that are the worst case for regular expressions.
  header('Content-Encoding', 'gzip'.padEnd(14_000, ',')),
  ...[`${'a'.repeat(14_000)}/`, `${'.'.repeat(14_000)}/`, `[${':'.repeat(14_000)}`, `a:${'1'.repeat(14_000)}`].map(
    host => header('Host', host),
  ),
].map(each => (each.type.startsWith('Content-Encoding') ? { ...each, status: 415 } : each))
