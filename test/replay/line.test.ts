import { expect, test } from 'vitest'
import { parseLine } from '../../src/replay/line.ts'
import { lineWith } from './lines.ts'

/** A line of which one count is written as it says. */
const withTokens = (name: string, value: string): string =>
  JSON.stringify(lineWith()).replace(new RegExp(`"${name}":\\d+`), `"${name}":${value}`)

test.each<[string, string, string]>([
  ['nothing', '', 'it is not JSON'],
  ['half a line', JSON.stringify(lineWith()).slice(0, 100), 'the end of a line may be missing'],
  ['a number', '1', 'it is no line of a usage log'],
  ['null', 'null', 'it is no line of a usage log'],
  ['a line of the log', '{"level":"info","msg":"a"}', 'it is no line of a usage log'],
  ['another version', JSON.stringify(lineWith({ v: 2 })), 'of version 2; this gateway reads version 1'],
  ['no time', JSON.stringify(lineWith({ at: 'yesterday' })), '`at` is not a time'],
  ['no id', JSON.stringify(lineWith({ id: '' })), '`id`, `route` or `method` is missing'],
  ['a kind that is none', JSON.stringify(lineWith({ kind: 'chats' })), '`kind` is "chats"'],
  ['an outcome that is none', JSON.stringify(lineWith({ outcome: null })), '`outcome` is null'],
  ['a status that is none', JSON.stringify(lineWith({ status: '200' })), '`status` is neither'],
  ['a code that is none', JSON.stringify(lineWith({ code: 'quota' })), '`code` is "quota"'],
  ['a time that it cannot have taken', JSON.stringify(lineWith({ ms: -1 })), '`ms` is -1'],
  ['a usage that is none', JSON.stringify(lineWith({ usage: 'many' })), '`usage` is "many"'],
  ['a usage of a list', JSON.stringify(lineWith({ usage: [1] })), '`usage` is [1]'],
  ['fewer than no tokens', withTokens('prompt_tokens', '-4'), '`usage.prompt_tokens` is -4, which is no whole number'],
  ['half a token', withTokens('completion_tokens', '1.5'), '`usage.completion_tokens` is 1.5'],
  ['tokens in words', withTokens('cached_tokens', '"7"'), '`usage.cached_tokens` is "7"'],
  ['no number of tokens', withTokens('cache_write_tokens', 'null'), '`usage.cache_write_tokens` is null'],
  [
    'a body of a petabyte',
    JSON.stringify(lineWith({ request: { bytes: 1e15 } })),
    '`request.bytes` is 1000000000000000',
  ],
  ['a billion messages', JSON.stringify(lineWith({ request: { messages: 1e9 } })), '`request.messages` is 1000000000'],
  ['endless tokens', withTokens('reasoning_tokens', '1e400'), '`usage.reasoning_tokens` is null'],
  ['an amount that is none', JSON.stringify(lineWith({ charged: '1.5' })), '`charged` is "1.5"'],
])('%s is no line', (_name, text, sentence) => {
  expect(() => parseLine(text)).toThrow(sentence)
})

test('a line', () => {
  const line = parseLine(JSON.stringify(lineWith({ charged: '12.000000001' })))
  expect(line).toMatchObject({
    at: Date.UTC(2026, 10, 20, 8),
    ms: 1_000,
    charged: 12_000_000_001n,
    decidedBy: null,
    who: { account: { id: 'acc_1', plan: 'default' }, key: { id: 'key_1', models: null } },
    usage: { input: 10, output: 20, source: 'reported' },
    request: { bytes: 60, isRead: true, body: undefined },
  })
})

test('a line of which little is known', () => {
  const line = parseLine(JSON.stringify({ ...lineWith({ account: null, key: null }), request: { bytes: 9 } }))
  expect(line).toMatchObject({ who: null, request: { bytes: 9, isRead: false } })
})
