/** Generators of Messages API requests. */
import fc from 'fast-check'

const is = fc.constant
const text = fc.constantFrom('a', 'ü 😀', '\u0000"\\', ' ')
const word = fc.stringMatching(/^[a-z_]{1,8}$/)
const record = (
  required: Record<string, fc.Arbitrary<unknown>>,
  optional: Record<string, fc.Arbitrary<unknown>> = {},
) => fc.record({ ...required, ...optional }, { requiredKeys: Object.keys(required) })
const some = (one: fc.Arbitrary<unknown>) => fc.array(one, { minLength: 1, maxLength: 3 })

const cached = {
  cache_control: fc.constantFrom<unknown>(
    null,
    { type: 'ephemeral' },
    { type: 'ephemeral', ttl: '5m' },
    { type: 'ephemeral', ttl: '1h', scope: 'global' },
  ),
}
const textBlock = record({ type: is('text'), text }, cached)
const image = record(
  {
    type: is('image'),
    source: fc.constantFrom<unknown>(
      { type: 'base64', media_type: 'image/png', data: 'AAAA' },
      { type: 'url', url: 'https://example.com/a.png' },
    ),
  },
  cached,
)
const document = record(
  {
    type: is('document'),
    source: fc.oneof(
      is({ type: 'base64', media_type: 'application/pdf', data: 'AAAA' }),
      record({ type: is('text'), media_type: is('text/plain'), data: text }),
      record({ type: is('content'), content: fc.oneof(text, some(fc.oneof(textBlock, image))) }),
    ),
  },
  { title: fc.option(word), context: fc.option(word), citations: is({ enabled: false }) },
)
const result = record(
  { type: is('tool_result'), tool_use_id: word },
  {
    content: fc.oneof(text, fc.array(fc.oneof(textBlock, image, document), { maxLength: 3 })),
    is_error: fc.boolean(),
    ...cached,
  },
)
const call = record({ type: is('tool_use'), id: word, name: word, input: is({ constructor: 1, b: [null] }) }, cached)
const thought = fc.oneof(
  record({
    type: is('thinking'),
    thinking: text,
    signature: fc.constantFrom('', 'EqQB', 'tollgate.google.AB', 'tollgate.field.reasoning', 'tollgate.detail.e30'),
  }),
  record({ type: is('redacted_thinking'), data: fc.constantFrom('EqQB', 'tollgate.detail.eyJhIjoxfQ') }),
)
const message = fc.oneof(
  record({ role: is('user'), content: fc.oneof(text, some(fc.oneof(textBlock, image, document, result))) }),
  record({
    role: is('assistant'),
    content: fc.oneof(text, fc.array(fc.oneof(textBlock, call, thought), { maxLength: 4 })),
  }),
  record({ role: is('system'), content: fc.oneof(text, some(textBlock)) }),
)
const tool = record(
  { name: word, input_schema: is({ type: 'object', properties: { a: {} } }) },
  { description: word, type: fc.constantFrom('custom', null), strict: fc.boolean(), ...cached },
)
const choice = fc.oneof(
  record({ type: fc.constantFrom('auto', 'any') }, { disable_parallel_tool_use: fc.boolean() }),
  record({ type: is('tool'), name: word }),
)

/** Generates valid requests. */
export const anyRequest = record(
  {
    model: fc.constantFrom('chat-small', 'thinker'),
    max_tokens: fc.integer({ min: 1, max: 64_000 }),
    messages: some(message),
    tools: some(tool),
  },
  {
    system: fc.oneof(text, some(textBlock)),
    tool_choice: choice,
    thinking: fc.oneof(
      record({ type: fc.constantFrom('adaptive', 'disabled') }),
      record({ type: is('enabled'), budget_tokens: fc.integer({ min: 1024, max: 64_000 }) }),
    ),
    output_config: record(
      {},
      {
        effort: fc.constantFrom('low', 'medium', 'high', 'xhigh', 'max'),
        format: is({ type: 'json_schema', schema: { type: 'object' } }),
      },
    ),
    stop_sequences: fc.array(word, { maxLength: 4 }),
    temperature: fc.constantFrom(0, 0.5, 1),
    top_p: fc.constantFrom(0, 1),
    stream: fc.boolean(),
    metadata: record({}, { user_id: fc.string({ maxLength: 200 }) }),
    service_tier: fc.constantFrom('auto', 'standard_only'),
    context_management: is({ edits: [] }),
    ...cached,
  },
) as fc.Arbitrary<Record<string, unknown>>

/** Returns a copy in which one value, at any depth, is replaced. */
export function brokenOnce(value: object, at: number, junk: unknown): unknown {
  const broken = structuredClone(value)
  const places: (readonly [holder: Record<string, unknown>, name: string])[] = []
  const walk = (holder: Record<string, unknown>) => {
    for (const [name, inner] of Object.entries(holder)) {
      places.push([holder, name])
      if (typeof inner === 'object' && inner !== null) walk(inner as Record<string, unknown>)
    }
  }
  walk(broken as Record<string, unknown>)
  const [holder, name] = places[at % places.length]!
  holder[name] = junk
  return broken
}
