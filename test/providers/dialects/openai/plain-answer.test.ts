/** A whole answer that is read without the JSON parser equals a parsed one. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { DecodedAnswer, UpstreamFailure } from '#contract'
import { openAiDialect } from '../../../../src/providers/dialects/openai/index.ts'
import { Meter } from '../../../../src/request/answer/meter.ts'
import { countsOf } from '../../../helpers/counts.ts'
import { chatOf, NOW, VIEW } from './support.ts'

const counts = countsOf('corpus')
const dialect = openAiDialect(() => NOW)

type DecodeResult = DecodedAnswer | { readonly failure: UpstreamFailure }

/** Decodes with the parser: a view with an identity forces it. */
const parsed = (bytes: Buffer) => dialect.decodeAnswer(bytes, { ...VIEW, identity: { id: null, model: null } })

/** Whether the answer was read without the parser. Throws if the two readings differ. */
function isReadAsBytes(bytes: Buffer): boolean {
  const decoded = dialect.decodeAnswer(bytes, VIEW)
  const expected = parsed(bytes)
  const isPlain = 'plain' in decoded
  expect(shown(decoded)).toEqual(shown(expected))
  return isPlain
}

function shown(decoded: DecodeResult): unknown {
  if ('failure' in decoded) return decoded
  const { completion, raw, plain } = decoded
  const isFinished = completion.choices.every(choice => choice.finish_reason)
  return { completion, raw: raw?.toString('latin1'), counted: isFinished && countedOf(completion, plain) }
}

/** The counts of the pump. */
function countedOf(completion: DecodedAnswer['completion'], plain: DecodedAnswer['plain']): unknown {
  const meter = new Meter()
  meter.begin(chatOf('{"messages":[]}'), 100)
  meter.started = true
  if (plain) meter.plain(plain)
  else meter.whole(completion)
  const usage = plain ? plain.usage : completion.usage
  if (usage) meter.reported(usage)
  const { countedTokens, complete, finish, finished, started } = meter
  return { spent: meter.spent(true), early: meter.spent(false), countedTokens, complete, finish, finished, started }
}

const USAGE = '{"prompt_tokens":12,"completion_tokens":7,"total_tokens":19,"prompt_tokens_details":{"cached_tokens":4}}'
const MESSAGE = '{"role":"assistant","content":"Hello \\"you\\"","refusal":null,"annotations":[]}'
const choiceOf = (message: string, more = '') => `{"index":0,"message":${message},"finish_reason":"stop"${more}}`
const answerOf = (choices: string, more = `,"usage":${USAGE}`) =>
  `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-x","choices":[${choices}]${more}}`

describe('the parser is used for', () => {
  test.each([
    ['an empty body', ''],
    ['an answer that breaks off', answerOf(choiceOf(MESSAGE)).slice(0, -1)],
    ['text after the end', `${answerOf(choiceOf(MESSAGE))}{}`],
    ['an extra comma', answerOf(choiceOf(MESSAGE), ',')],
    ['a control character', answerOf(choiceOf('{"role":"assistant","content":"a\tb"}'))],
    ['an unknown escape', answerOf(choiceOf('{"role":"assistant","content":"\\x"}'))],
    ['a bad Unicode escape', answerOf(choiceOf('{"role":"assistant","content":"\\u00:0"}'))],
    ['a number with a leading zero', answerOf(choiceOf(MESSAGE), ',"x":01')],
    ['half a literal', answerOf(choiceOf(MESSAGE), ',"x":nul')],
    ['a number beyond the range of doubles', answerOf(choiceOf(MESSAGE), ',"x":1e999')],
    ['deep nesting', answerOf(choiceOf(MESSAGE), `,"x":${'['.repeat(100)}${']'.repeat(100)}`)],
    ['an error', answerOf(choiceOf(MESSAGE), ',"error":{"message":"no"}')],
    ['an error of null', answerOf(choiceOf(MESSAGE), ',"error":null')],
    ['a second model', answerOf(choiceOf(MESSAGE), ',"model":"other"')],
    ['a second model, hidden', answerOf(choiceOf(MESSAGE), ',"\\u006dodel":"other"')],
    ['a second usage', answerOf(choiceOf(MESSAGE), `,"usage":${USAGE},"usage":null`)],
    ['a second content', answerOf(choiceOf('{"role":"assistant","content":"a","content":"bb"}'))],
    ['no choice', answerOf('')],
    ['no list of choices', answerOf('').replace('[]', 'null')],
    ['a number in place of a choice', answerOf('7')],
    ['no message', answerOf('{"index":0,"finish_reason":"stop"}')],
    ['no finish reason', answerOf(choiceOf(MESSAGE).replace('"stop"', 'null'))],
    ['an unknown finish reason', answerOf(choiceOf(MESSAGE).replace('stop', 'end_turn'))],
    ['no role', answerOf(choiceOf('{"content":"a"}'))],
    ['no content', answerOf(choiceOf('{"role":"assistant"}'))],
    ['content in parts', answerOf(choiceOf('{"role":"assistant","content":[{"type":"text","text":"a"}]}'))],
    ['a tool call', answerOf(choiceOf('{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]}'))],
    ['thoughts under another name', answerOf(choiceOf('{"role":"assistant","content":"a","thinking":"b"}'))],
    ['an index that is a string', answerOf(choiceOf(MESSAGE).replace('0', '"0"'))],
    ['no id', answerOf(choiceOf(MESSAGE)).replace('chatcmpl-1', '')],
    ['no model', answerOf(choiceOf(MESSAGE)).replace('"model":"gpt-x",', '')],
    ['another object type', answerOf(choiceOf(MESSAGE)).replace('chat.completion', 'text_completion')],
    ['usage under other names', answerOf(choiceOf(MESSAGE), ',"usage":{"input_tokens":3,"output_tokens":4}')],
    ['a list in place of the usage', answerOf(choiceOf(MESSAGE), ',"usage":[1]')],
  ])('%s', (_, text) => {
    expect(isReadAsBytes(Buffer.from(text))).toBe(false)
  })

  test('invalid UTF-8, which the client gets unchanged', () => {
    const bytes = Buffer.from(answerOf(choiceOf(MESSAGE)).replace('Hello', '\xff\xc3('), 'latin1')
    expect(isReadAsBytes(bytes)).toBe(false)
  })
})

describe('read as bytes:', () => {
  test.each([
    ['as OpenAI writes it', answerOf(choiceOf(MESSAGE))],
    ['on several lines', JSON.stringify(JSON.parse(answerOf(choiceOf(MESSAGE))), null, 2)],
    ['without usage', answerOf(choiceOf(MESSAGE), '')],
    ['with a usage of null', answerOf(choiceOf(MESSAGE), ',"usage":null')],
    ['with an impossible usage', answerOf(choiceOf(MESSAGE), ',"usage":{"prompt_tokens":-1,"completion_tokens":0.5}')],
    ['with a service tier', answerOf(choiceOf(MESSAGE), `,"service_tier":"flex","usage":${USAGE}`)],
    ['two choices', answerOf(`${choiceOf(MESSAGE)},${choiceOf(MESSAGE.replace('you', 'me'))}`)],
    ['an empty text', answerOf(choiceOf('{"role":"assistant","content":""}').replace('stop', 'length'))],
    ['a refusal', answerOf(choiceOf('{"role":"assistant","content":null,"refusal":"No."}'))],
    ['thoughts', answerOf(choiceOf('{"role":"assistant","content":"a","reasoning_content":"é€😀"}'))],
    ['escapes', answerOf(choiceOf('{"role":"assistant","content":"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\\ud83d\\n"}'))],
    ['half a surrogate pair', answerOf(choiceOf('{"role":"assistant","content":"\\ude00\\ud83d\\u0041\\ud83d"}'))],
    ['no tool calls', answerOf(choiceOf('{"role":"assistant","content":"a","tool_calls":[],"function_call":null}'))],
    ['unknown members', answerOf(choiceOf(MESSAGE, ',"logprobs":{"content":[{"token":"a","logprob":-0.25}]}'))],
    ['a __proto__ member', answerOf(choiceOf('{"role":"assistant","content":"a","__proto__":{"content":"b"}}'))],
  ])('%s', (_, text) => {
    expect(isReadAsBytes(Buffer.from(text))).toBe(true)
    expect(isReadAsBytes(Buffer.from(`\ufeff${text}`))).toBe(true)
  })

  test('an answer for a model name that must be escaped', () => {
    const bytes = Buffer.from(answerOf(choiceOf(MESSAGE)))
    const view = { ...VIEW, model: 'a "ü" \\' }
    const decoded = dialect.decodeAnswer(bytes, view) as DecodedAnswer
    expect(decoded.plain).toBeDefined()
    expect(decoded.completion.model).toBe(view.model)
  })
})

/** Mostly usual values: an answer with only odd ones is never read as bytes. */
const mostly = (usual: readonly string[], odd: readonly string[]) =>
  fc.oneof({ weight: 24, arbitrary: fc.constantFrom(...usual) }, { weight: 1, arbitrary: fc.constantFrom(...odd) })

const ODD = [
  'null',
  '""',
  '0',
  '-0',
  '1.5',
  '1e2',
  'true',
  '[]',
  '{}',
  '[{}]',
  '"x"',
  '{"a":1}',
  '["arguments"]',
  'x',
  '',
]
const WORDS = ['"Hello"', '""', '"\\u20ac \\\\ \\" \\n"', '"\u2028 é 😀"', '"\\ud800"', '"\\ud83d\\ude00"', 'null']
const SPACES = fc.constantFrom('', '', '', ' ', '\n\t', '\r\n')

const memberOf = (name: string, usual: readonly string[], odd = ODD) =>
  fc.tuple(SPACES, mostly(usual, odd), SPACES).map(([before, value, after]) => `"${name}":${before}${value}${after}`)

/** An object whose members may be missing, duplicated or reordered. */
const objectOf = (...members: fc.Arbitrary<string>[]) =>
  fc.tuple(fc.tuple(...members), fc.nat(30), fc.nat(members.length), fc.nat(30)).map(([texts, left, twice, turned]) => {
    const all = texts.filter((_, at) => at !== left)
    if (turned < 10) all.reverse()
    if (turned === 0) all.push(texts[twice] ?? '"x":{"arguments":{"n":1.0}}')
    return `{${all.join(',')}}`
  })

const nested = (name: string, value: fc.Arbitrary<string>) => value.map(text => `"${name}":${text}`)

const MESSAGES = objectOf(
  memberOf('role', ['"assistant"'], ['"user"', ...ODD]),
  memberOf('content', WORDS),
  memberOf('refusal', ['null', 'null', '"No."']),
  memberOf('reasoning_content', WORDS),
  mostly(
    ['"tool_calls":null', '"tool_calls":[]', '"annotations":[]'],
    ODD.map(value => `"reasoning":${value}`),
  ),
  mostly(['"audio":null', '"function_call":null'], ['"images":[{}]', '"thought":"t"', '"anthropic_content":[]']),
)
const CHOICES = objectOf(
  memberOf('index', ['0', '1', '7']),
  nested('message', MESSAGES),
  memberOf('finish_reason', ['"stop"', '"length"', '"tool_calls"'], ['"eos"', '"error"', ...ODD]),
  memberOf('logprobs', ['null', '{"content":[]}']),
)
const ANSWERS = objectOf(
  memberOf('id', ['"chatcmpl-1"']),
  memberOf('object', ['"chat.completion"'], ['"text_completion"', ...ODD]),
  memberOf('created', ['1', '1790000000', '1.5']),
  memberOf('model', ['"gpt"', 'null', '{"a":[1]}']),
  nested(
    'choices',
    fc.array(CHOICES, { minLength: 0, maxLength: 3 }).map(all => `[${all.join(',')}]`),
  ),
  memberOf('usage', [USAGE, 'null', '{"prompt_tokens":0,"completion_tokens":0}'], ['{"prompt_tokens":"3"}', ...ODD]),
  memberOf('service_tier', ['"default"', '"flex"', 'null']),
)

describe('any answer', () => {
  test('is the same with and without the parser', () => {
    let plain = 0
    const numRuns = counts(3000, 300_000)
    fc.assert(
      fc.property(ANSWERS, text => {
        if (isReadAsBytes(Buffer.from(text))) plain++
      }),
      { numRuns },
    )
    // If too few were read as bytes, the test would compare the parser with itself.
    expect(plain).toBeGreaterThan(numRuns / 20)
  })

  test('with changed bytes is the same with and without the parser', () => {
    const place = fc.tuple(fc.nat(), fc.oneof(fc.nat(255), fc.constantFrom(...Buffer.from('"\\{}[],:0u '))), fc.nat(3))
    fc.assert(
      fc.property(ANSWERS, fc.array(place, { minLength: 1, maxLength: 2 }), (text, changes) => {
        let bytes = Buffer.from(text)
        for (const [at, byte, removed] of changes) {
          const from = at % (bytes.length + 1)
          const added = removed === 3 ? [] : [byte]
          bytes = Buffer.concat([bytes.subarray(0, from), Buffer.from(added), bytes.subarray(from + (removed % 3))])
        }
        isReadAsBytes(bytes)
      }),
      { numRuns: counts(3000, 300_000) },
    )
  })
})
