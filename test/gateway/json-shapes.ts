/**
 * Random JSON bodies: valid ones in every spelling, valid ones with one defect, and undecided ones. A seed and a number determine each,
 * so that it can be reproduced.
 */
import { BREAKINGS, tooWide } from './json-breakages.ts'
import { Chance } from './json-chance.ts'

export interface Shape {
  /** The change that was made. */
  readonly name: string
  readonly bytes: Buffer
  /** The lines of its head that describe it. */
  readonly type: string
  /** `any`: it is answered or refused, but the result must match the gateway's behaviour. */
  readonly becomes: 'answer' | 'refusal' | 'any'
}

const JSON_TYPE = 'Content-Type: application/json'

/** Ten spellings of the JSON media type, and twelve that are not. */
const GOOD_TYPES = [
  JSON_TYPE,
  'content-type:application/json',
  'Content-Type: \tapplication/json\t',
  'Content-Type: APPLICATION/JSON',
  'Content-Type: application/json;',
  'Content-Type: application/json;charset=utf-8',
  'Content-Type: application/json; charset=UTF-8',
  'Content-Type: application/json ; charset="utf-8"',
  'Content-Type: application/json;  charset = utf-8',
  `${JSON_TYPE}\r\nContent-Encoding: identity`,
]
const BAD_TYPES = [
  'Content-Type:',
  'X-Type: none',
  'Content-Type: text/json',
  'Content-Type: application/json5',
  'Content-Type: application/json, application/json',
  'Content-Type: application/json; charset=utf-16',
  'Content-Type: application/json; boundary=x',
  'Content-Type: application/vnd.api+json',
  'Content-Type: "application/json"',
  `${JSON_TYPE}\r\nContent-Type: application/json`,
  `${JSON_TYPE}\r\nContent-Encoding: gzip`,
  `${JSON_TYPE}\r\nContent-Encoding:`,
]

/** The body with this number. */
export function shapeOf(seed: number, at: number): Shape {
  const chance = new Chance(seed * 1_000_003 + at)
  const kind = chance.below(8)
  if (kind < 2) {
    return {
      name: 'good',
      bytes: Buffer.from(chance.spell(goodBody(chance, at))),
      type: chance.pick(GOOD_TYPES),
      becomes: 'answer',
    }
  }
  if (kind < 6) return broken(chance, at)
  return { ...anything(chance, at), type: JSON_TYPE, becomes: 'any' }
}

const TEXTS = [
  '',
  'hi',
  'a "quoted" \\ line\n',
  '\u0000\u001f\u007f',
  'née 中文 😀',
  '__proto__',
  '\u2028\u2029',
  '{"model":"x"}',
]

/** The pipeline's answer, whatever the content. `user` has the number, so that a changed byte is detected. */
function goodBody(chance: Chance, at: number): Record<string, unknown> {
  const text = () => chance.pick(TEXTS)
  const message = () =>
    chance.pick<object>([
      { role: 'user', content: text() },
      { role: 'system', content: text(), name: 'n' },
      { role: 'developer', content: [{ type: 'text', text: text() }] },
      { role: 'user', content: [{ type: 'text', text: text(), constructor: { prototype: 1 } }] },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: text() } }],
      },
      { role: 'tool', tool_call_id: 'a', content: text() },
    ])
  const schema = { type: 'object', properties: { constructor: { type: 'string' }, toString: {}, '': 1 } }
  const options: Record<string, unknown> = {
    stream: chance.pick([true, false, null]),
    max_tokens: chance.pick([1, 20, 1000, null]),
    temperature: chance.pick([0, -0, 1, 2, 0.5, null]),
    top_p: chance.pick([0, 1, 1e-300]),
    seed: chance.pick([0, -0, -1, 2 ** 53 - 1, null]),
    stop: chance.pick(['x', ['a', 'b'], [], null]),
    tools: chance.pick([[], null, [{ type: 'function', function: { name: 'f', parameters: schema } }]]),
    metadata: chance.pick<unknown>([{ constructor: 'x', hasOwnProperty: 'y', valueOf: '' }, {}, null]),
    response_format: { type: 'json_schema', json_schema: { name: 's', schema } },
    logit_bias: { '50256': -100, '1': 0.5 },
    prompt_cache_key: text(),
  }
  const chosen = Object.entries(options).filter(() => chance.below(3) === 0)
  const messages = Array.from({ length: 1 + chance.below(3) }, message)
  return { model: 'm', messages, user: `s${at}x${(at * 31) % 1009}`, ...Object.fromEntries(chosen) }
}

function broken(chance: Chance, at: number): Shape {
  const good = chance.spell(goodBody(chance, at))
  if (chance.below(12) === 0) {
    const type = chance.pick(BAD_TYPES)
    return { name: `good, ${type}`, bytes: Buffer.from(good), type, becomes: 'refusal' }
  }
  if (chance.below(100) === 0) {
    return {
      name: 'too wide',
      bytes: Buffer.from(tooWide(chance, good) as string),
      type: JSON_TYPE,
      becomes: 'refusal',
    }
  }
  const name = chance.pick(Object.keys(BREAKINGS))
  const bytes = Buffer.from(BREAKINGS[name]!(chance, good) as string)
  return { name, bytes, type: JSON_TYPE, becomes: 'refusal' }
}

/** Values of any shape in places of the format, and valid bodies with a few bytes changed. */
function anything(chance: Chance, at: number): Pick<Shape, 'name' | 'bytes'> {
  const body = goodBody(chance, at)
  const place = chance.below(6)
  if (place === 0) {
    const bytes = Buffer.from(chance.spell(body))
    for (let change = 0; change <= chance.below(3); change++)
      bytes[chance.below(bytes.length)] = chance.below(4)
        ? chance.pick([...Buffer.from('{}[]:,"\\0 ue-.')])
        : chance.below(256)
    return { name: 'a few bytes changed', bytes }
  }
  const messages = body['messages'] as Record<string, unknown>[]
  const holder = [body, messages[0]!, messages, body, messages[0]!][place - 1] as Record<string, unknown>
  const key =
    place === 2
      ? 'content'
      : place === 3
        ? '0'
        : chance.pick(place === 5 ? ['tool_calls', 'name', 'refusal', 'audio', 'role'] : MEMBERS)
  holder[key] = anyValue(chance, 4)
  return { name: `anything for ${key}`, bytes: Buffer.from(chance.spell(body)) }
}

const MEMBERS =
  'tools tool_choice stop metadata response_format functions function_call logit_bias seed stream n modalities prediction web_search_options moderation'.split(
    ' ',
  )
const WORDS =
  'type function name text content role user image_url url constructor length then toJSON parameters a '.split(' ')
const SCALARS: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -0,
  1,
  -1,
  1e308,
  5e-324,
  2 ** 53,
  1e21,
  '',
  'text',
  'function',
  'user',
  'auto',
  '\ud800',
  '\udc00x',
  'm',
]

function anyValue(chance: Chance, depth: number): unknown {
  const kind = chance.below(depth > 0 ? 5 : 3)
  if (kind < 3) return chance.pick(SCALARS)
  if (kind === 3) return Array.from({ length: chance.below(4) }, () => anyValue(chance, depth - 1))
  return Object.fromEntries(
    Array.from({ length: chance.below(5) }, () => [chance.pick(WORDS), anyValue(chance, depth - 1)]),
  )
}
