/** Refusals of requests that a provider does not support. Without a refusal the answer would be wrong. */
import { describe, expect, test } from 'vitest'
import { type ChatRequest, type ContentPart, isRefusal, MAX_CHOICES, type Refusal } from '#contract'
import { CHOICES_OF } from '../../../src/config/models.ts'
import { DIALECT_NAMES } from '../../../src/providers/dialects/dialect-names.ts'
import { createDialect, type DialectName } from '../../../src/providers/dialects/index.ts'
import { chatOf, target } from './anthropic/helpers.ts'

type Fields = Partial<ChatRequest>

/** The model of each dialect, unless the row has its own. */
const MODELS = {
  cohere: 'command-a-03-2025',
  gemini: 'gemini-2.0-flash',
  ollama: 'qwen3:8b',
} as const
type Name = keyof typeof MODELS

interface Row {
  /** The dialects; default: all three. */
  readonly by?: readonly Name[]
  readonly asks: string
  readonly fields: Fields
  readonly param: string
  /** Default: `unsupported_parameter`. */
  readonly code?: string
  readonly model?: string
}

const HI = { role: 'user', content: 'Hi' }
const [A, B] = ['a', 'b'].map(name => ({ type: 'function', function: { name } }))
const TOOLS = [A!, B!]
const JSON_WANTED = { type: 'json_object' }
const AUDIO = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } }
const FILE = { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } }
/** A numeric name makes V8 use the recursive writer, which fails at this depth. */
const DEEP = `{"1":${'['.repeat(100_000)}${']'.repeat(100_000)}}`

const says = (part: ContentPart): Fields => ({
  messages: [HI, { role: 'assistant', content: 'Hello' }, { role: 'user', content: [part] }],
})
const picture = (url: string) => ({ type: 'image_url', image_url: { url } })
const allowed = (mode: string, ...tools: object[]) => ({ type: 'allowed_tools', allowed_tools: { mode, tools } })
const named = (name: string) => ({ type: 'function', function: { name } })

const ROWS: readonly Row[] = [
  { asks: 'for audio output', fields: { modalities: ['text', 'audio'] }, param: 'modalities' },
  { asks: 'for a web search', fields: { web_search_options: {} }, param: 'web_search_options' },
  {
    asks: 'with a tool of another kind',
    fields: { tools: [{ type: 'anthropic', anthropic: { type: 'bash_20250124', name: 'bash' } }] },
    param: 'tools[0].type',
  },
  {
    asks: 'without text',
    fields: { messages: [{ role: 'user', content: ' ' }] },
    param: 'messages',
    code: 'invalid_value',
  },
  {
    asks: 'with arguments that are nested too deeply',
    fields: {
      messages: [
        HI,
        { role: 'assistant', tool_calls: [{ id: 'c', type: 'function', function: { name: 'a', arguments: DEEP } }] },
      ],
    },
    param: 'messages',
    code: 'request_too_complex',
  },
  {
    asks: 'that allows a tool it does not define',
    fields: { tools: [B!], tool_choice: allowed('auto', A!) },
    param: 'tool_choice',
    code: 'invalid_value',
  },
  { by: ['cohere', 'ollama'], asks: 'for several choices', fields: { n: 2 }, param: 'n' },
  { by: ['gemini'], asks: 'for a stream of several choices', fields: { n: 2, stream: true }, param: 'n' },
  { by: ['gemini'], asks: 'for too many choices', fields: { n: 9 }, param: 'n', code: 'invalid_value' },
  { by: ['cohere', 'ollama'], asks: 'with audio input', fields: says(AUDIO), param: 'messages[2]' },
  { by: ['cohere', 'ollama'], asks: 'with a file', fields: says(FILE), param: 'messages[2]' },
  {
    by: ['ollama'],
    asks: 'with an image URL',
    fields: says(picture('https://a.example/b.png')),
    param: 'messages[2]',
  },
  {
    by: ['gemini'],
    asks: 'with an address in Google Cloud Storage',
    fields: says(picture('gs://bucket/a.png')),
    param: 'messages[2].content[0].image_url.url',
    code: 'invalid_value',
  },
  {
    by: ['cohere', 'gemini'],
    asks: 'for a call without tools',
    fields: { tool_choice: 'required' },
    param: 'tool_choice',
    code: 'invalid_value',
  },
  {
    by: ['cohere', 'gemini'],
    asks: 'for a call of a tool it does not define',
    fields: { tools: TOOLS, tool_choice: named('c') },
    param: 'tool_choice',
    code: 'invalid_value',
  },
  {
    by: ['cohere', 'gemini'],
    asks: 'for a JSON answer beside tools',
    fields: { tools: TOOLS, response_format: JSON_WANTED },
    param: 'response_format',
  },
  {
    by: ['cohere'],
    asks: 'that allows no tool',
    fields: { tools: TOOLS, tool_choice: allowed('auto') },
    param: 'tool_choice',
    code: 'invalid_value',
  },
  {
    by: ['cohere'],
    asks: 'for a call by an older model',
    fields: { tools: TOOLS, tool_choice: 'required' },
    param: 'tool_choice',
    model: 'command-r-plus-08-2024',
  },
  { by: ['ollama'], asks: 'for a call', fields: { tools: TOOLS, tool_choice: 'required' }, param: 'tool_choice' },
  {
    by: ['ollama'],
    asks: 'for a call of a tool',
    fields: { tools: TOOLS, tool_choice: named('a') },
    param: 'tool_choice',
  },
  {
    by: ['ollama'],
    asks: 'for a call of one of some tools',
    fields: { tools: TOOLS, tool_choice: allowed('required', A!) },
    param: 'tool_choice',
  },
]

test.each(ROWS.flatMap(row => (row.by ?? (Object.keys(MODELS) as Name[])).map(name => ({ name, ...row }))))(
  '$name: a request $asks',
  ({ name, fields, param, code = 'unsupported_parameter', model = MODELS[name] }) => {
    expect(refusalOf(name, fields, model)).toMatchObject({ code, param })
  },
)

describe('the configuration and the dialect have the same maximum of choices', () => {
  test.each(DIALECT_NAMES)('%s', name => {
    const most = CHOICES_OF[name] ?? MAX_CHOICES
    expect(refusalOf(name, { n: most }, 'anthropic.claude-sonnet-4')).toBeNull()
    if (most < MAX_CHOICES) {
      expect(refusalOf(name, { n: most + 1 }, 'anthropic.claude-sonnet-4')).toMatchObject({ param: 'n' })
    }
  })
})

test('a request that a provider does not support is not counted there either', () => {
  const { counting } = createDialect('anthropic', () => 0).dialect
  const refused = thrownBy(() => counting!.encodeRequest(chatOf(says(AUDIO)), target('claude-sonnet-4-5')))
  expect(isRefusal(refused)).toBe(true)
})

/** Null if the dialect accepts the request. */
function refusalOf(name: DialectName, fields: Fields, model: string): Refusal | null {
  const thrown = thrownBy(() => createDialect(name, () => 0).dialect.encodeRequest(chatOf(fields), target(model)))
  if (thrown === null || isRefusal(thrown)) return thrown
  throw thrown
}

function thrownBy(action: () => unknown): unknown {
  try {
    action()
    return null
  } catch (error) {
    return error
  }
}
