/** Bodies for tests: valid ones, and valid ones with one mistake. And a model for them. */
import fc from 'fast-check'
import type { Model } from '#contract'

export const MODEL: Model = {
  id: 'chat-small',
  targets: [],
  price: null,
  context: 131_072,
  maxOutput: 16_384,
  defaultOutput: 4096,
  reasoning: false,
  inputOverhead: 1024,
  allow: [],
  public: true,
  enabled: true,
  created: 0,
  ownedBy: 'house',
  description: null,
}

/** Part of each text of a message. No answer may repeat it. */
export const CANARY = 'the-secret-in-the-message'

const text = fc.constantFrom(CANARY, `${CANARY} 😀`, `\u0000${CANARY}"\\`, '')
const word = fc.string({ minLength: 1, maxLength: 12 })
const orNull = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { freq: 5 })
const some = <T>(arbitrary: fc.Arbitrary<T>) => fc.array(arbitrary, { minLength: 1, maxLength: 3 })
/** An object with all of the first members, and some of the others. */
const record = (
  required: Record<string, fc.Arbitrary<unknown>>,
  optional: Record<string, fc.Arbitrary<unknown>> = {},
) => fc.record({ ...required, ...optional }, { requiredKeys: Object.keys(required) })
const is = fc.constant

const marked = {
  cache_control: fc.constantFrom<unknown>(null, { type: 'ephemeral' }, { type: 'ephemeral', ttl: '1h' }),
}
const textPart = record({ type: is('text'), text }, { prompt_cache_breakpoint: is({ mode: 'explicit' }), ...marked })
const userPart = fc.oneof(
  textPart,
  record({
    type: is('image_url'),
    image_url: record({ url: is('data:,') }, { detail: fc.constantFrom('auto', 'low') }),
  }),
  record({ type: is('input_audio'), input_audio: record({ data: is('AAAA'), format: fc.constantFrom('wav', 'mp3') }) }),
  record({ type: is('file'), file: record({}, { file_id: word, file_data: word, filename: orNull(word) }) }),
)
const toolCall = fc.oneof(
  record({ id: word, type: is('function'), function: record({ name: word, arguments: text }) }),
  record({ id: word, type: is('custom'), custom: record({ name: word, input: text }) }),
)
const message = fc.oneof(
  record({ role: fc.constantFrom('system', 'developer'), content: fc.oneof(text, some(textPart)) }, { name: word }),
  record({ role: is('user'), content: fc.oneof(text, some(userPart)) }, { name: orNull(word) }),
  record(
    { role: is('assistant') },
    {
      content: orNull(fc.oneof(text, fc.array(fc.oneof(textPart, record({ type: is('refusal'), refusal: text }))))),
      tool_calls: orNull(some(toolCall)),
      function_call: orNull(record({ name: word, arguments: text })),
      refusal: orNull(text),
      annotations: is([]),
    },
  ),
  record({ role: is('tool'), tool_call_id: word, content: fc.oneof(text, some(textPart)) }),
  record({ role: is('function'), name: word, content: orNull(text) }),
)
const GRAMMAR = { type: 'grammar', grammar: { definition: 'start: "a"', syntax: 'lark' } }
const parameters = orNull(is({ type: 'object', properties: { constructor: { type: 'string' } } }))
const functionTool = record({ name: word }, { description: word, parameters, strict: orNull(fc.boolean()) })
const tool = fc.oneof(
  record({ type: is('function'), function: functionTool }, marked),
  record({
    type: is('custom'),
    custom: record({ name: word }, { format: fc.constantFrom<unknown>({ type: 'text' }, GRAMMAR) }),
  }),
)

/** A valid body with any of the parameters. */
export const validBody: fc.Arbitrary<Record<string, unknown>> = record(
  { model: is('chat-small'), messages: some(message) },
  {
    stream: orNull(fc.boolean()),
    n: orNull(fc.integer({ min: 1, max: 128 })),
    max_tokens: orNull(fc.integer({ min: 1, max: 16_384 })),
    temperature: orNull(fc.double({ min: 0, max: 2, noNaN: true })),
    top_p: orNull(fc.constantFrom(0, 0.5, 1)),
    frequency_penalty: orNull(fc.constantFrom(-2, 0.5, 2)),
    presence_penalty: orNull(fc.constantFrom(-2, 0.5, 2)),
    stop: orNull(fc.oneof(word, fc.array(word, { maxLength: 4 }))),
    seed: orNull(fc.maxSafeInteger()),
    logit_bias: orNull(is({ 50256: -100, 1: 100 })),
    logprobs: orNull(fc.boolean()),
    top_logprobs: orNull(fc.integer({ min: 0, max: 20 })),
    tools: orNull(fc.array(tool, { maxLength: 3 })),
    tool_choice: orNull(
      fc.constantFrom<unknown>(
        'none',
        'auto',
        'required',
        { type: 'function', function: { name: 'f' } },
        { type: 'custom', custom: { name: 'f' } },
        { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{ type: 'function' }] } },
      ),
    ),
    parallel_tool_calls: orNull(fc.boolean()),
    functions: orNull(some(record({ name: word }, { description: word, parameters }))),
    function_call: orNull(fc.constantFrom<unknown>('none', 'auto', { name: 'f' })),
    response_format: orNull(
      fc.constantFrom<unknown>(
        { type: 'text' },
        { type: 'json_object' },
        { type: 'json_schema', json_schema: { name: 's', schema: { type: 'object' }, strict: true } },
      ),
    ),
    verbosity: orNull(fc.constantFrom('low', 'medium', 'high')),
    metadata: orNull(is({ team: 'red' })),
    store: orNull(fc.boolean()),
    user: orNull(word),
    safety_identifier: orNull(word),
    prompt_cache_key: orNull(word),
  },
).map(body => structuredClone(body) as Record<string, unknown>)

const junk = fc.constantFrom<unknown>(
  null,
  true,
  0,
  -1,
  1.5,
  2 ** 53,
  1e308,
  '',
  '1',
  'junk '.repeat(30),
  '\u2028\ud800',
  [],
  {},
  [[]],
  [null],
  { type: 'text' },
  { constructor: 1 },
)

/** A valid body with one replaced, removed or added value. */
export const brokenBody: fc.Arbitrary<unknown> = fc
  .tuple(validBody, fc.nat(), junk, fc.constantFrom('replace', 'remove', 'add'), fc.string({ maxLength: 20 }))
  .map(([body, place, value, deed, name]) => {
    const root = { body: structuredClone(body) as unknown }
    const places: { holder: Record<string, unknown>; key: string }[] = []
    const visit = (holder: Record<string, unknown>) => {
      for (const key of Object.keys(holder)) {
        places.push({ holder, key })
        if (typeof holder[key] === 'object' && holder[key] !== null) visit(holder[key] as Record<string, unknown>)
      }
    }
    visit(root)
    const { holder, key } = places[place % places.length]!
    if (deed === 'replace') holder[key] = value
    else if (deed === 'add') holder[Array.isArray(holder) ? holder.length : name] = value
    else if (Array.isArray(holder)) holder.splice(Number(key), 1)
    else delete holder[key]
    return root.body
  })
