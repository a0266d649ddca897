/** Requests, answers, errors and streams of each dialect: the cases of `DIALECT/cases/*.json`. Refusals have their own tests. */
import { expect } from 'vitest'
import type {
  AnswerView,
  Chat,
  ChatCompletion,
  ChatRequest,
  Chunk,
  StreamItem,
  Target,
  UpstreamFailure,
} from '#contract'
import { createDialect, type DialectName } from '../../../src/providers/dialects/index.ts'
import type { AzurePlace, ProfileName } from '../../../src/providers/dialects/openai/index.ts'
import { openSchemas, type SchemaName } from '../../corpus/schemas.ts'
import { type Case, type Json, testCases } from '../../helpers/cases.ts'
import { CORPUS, testWith, WITHOUT_CORPUS } from '../../helpers/missing.ts'
import { chatOf, NOW, target, view } from './anthropic/helpers.ts'
import { event, exception } from './bedrock/frames.ts'

const FOLDER = 'test/providers/dialects'

const judge = WITHOUT_CORPUS === null ? openSchemas(CORPUS, 'strict') : null
testWith(WITHOUT_CORPUS, "OpenAI's strict schema judges the cases", () => expect(judge).not.toBe(null))

/** The bytes of a case's events. A string is sent unchanged. */
const FRAMES: Readonly<Record<string, (event: Json) => Buffer | string>> = {
  /** Server-sent events without names. */
  data: event => `data: ${JSON.stringify(event)}\n\n`,
  /** Server-sent events as Google sends them, with carriage returns. */
  'data-crlf': event => `data: ${JSON.stringify(event)}\r\n\r\n`,
  /** Server-sent events that are named after their type. */
  named: event => `event: ${event['type']}\ndata: ${JSON.stringify(event)}\n\n`,
  lines: event => `${JSON.stringify(event)}\n`,
  /** Nothing is added between events: the case includes the list's brackets and commas. */
  json: event => JSON.stringify(event),
  /**
   * AWS's event stream: `{ "messageStart": {…} }`, or `{ "exception": "throttlingException", "message": "…" }`; `{ "bytes": {…} }`
   * is a chunk of InvokeModel with this JSON inside.
   */
  aws: value => {
    const [[type, payload]] = Object.entries(value) as [[string, object]]
    if (type === 'exception') return exception(String(payload), String(value['message']))
    if (type === 'bytes') return event('chunk', { bytes: Buffer.from(JSON.stringify(payload)).toString('base64') })
    return event(type, payload)
  },
}

const dialectOf = ({ dialect, place, host, profile }: Case) =>
  createDialect(
    dialect as DialectName,
    () => NOW,
    undefined,
    place as AzurePlace,
    host as string,
    profile as ProfileName,
  ).dialect
const viewOf = (given: Case): AnswerView => {
  const { customTools, ...more } = (given['view'] ?? {}) as Json
  const custom = customTools === undefined ? {} : { customTools: new Set(customTools as readonly string[]) }
  return { ...view(given['usage'] === true), ...more, ...custom }
}

/** `text` is the request as the client wrote it. Such a case compares the text sent upstream too, not only its JSON. */
testCases(FOLDER, 'request.json', given => {
  const { text } = given
  const asked = text === undefined ? given['request'] : JSON.parse(String(text))
  const made = chatOf(asked as Partial<ChatRequest>, given['cap'] as number)
  const chat: Chat = text === undefined ? made : { ...made, bytes: Buffer.from(String(text)) }
  const aim: Target = { ...target(given['model'] as string), ...(given['target'] as object) }
  const before = structuredClone({ ...chat, bytes: chat.bytes.toString() })
  const dialect = dialectOf(given)
  const { body, ...request } = dialect.encodeRequest(chat, aim)
  // Encoding must not change the request: another attempt encodes it again.
  expect({ ...chat, bytes: chat.bytes.toString() }).toEqual(before)
  const json = JSON.parse(body.toString())
  const anew = dialect.encodeRequest({ ...chat, bytes: Buffer.concat([Buffer.from('{'), chat.bytes]) }, aim)
  expect({ ...anew, body: JSON.parse(anew.body.toString()) }, 'of bytes that are not JSON').toEqual({
    ...request,
    body: json,
  })
  return { ...request, ...(text === undefined ? { body: json } : { text: body.toString() }) }
})

/** The client gets the provider's bytes. The case has them as text if the answer is text, otherwise `bytes: "kept"`. */
testCases(FOLDER, 'answer.json', given => {
  const decoded = dialectOf(given).decodeAnswer(bytesOf(given['answer']), viewOf(given))
  if ('failure' in decoded) return { failure: failureOf(decoded.failure) }
  const { completion, raw } = decoded
  if (isTranslated(given)) checkForm('CreateChatCompletionResponse', completion)
  if (raw === null) return completionOf(completion)
  const text = raw.toString()
  expect(JSON.parse(text), 'the bytes that the client gets').toEqual(completion)
  if (typeof given['answer'] === 'string') return { text }
  expect(text).toBe(JSON.stringify(completion))
  return { ...completionOf(completion), bytes: 'kept' }
})

testCases(FOLDER, 'error.json', given =>
  failureOf(
    dialectOf(given).decodeError(
      given['status'] as number,
      (given['headers'] ?? {}) as Record<string, string>,
      bytesOf(given['body']),
    ),
  ),
)

/** Requests for a token count. A case of Bedrock with an Anthropic model has the text inside the request. */
testCases(FOLDER, 'count.json', given => {
  const { counting } = dialectOf(given)
  const chat = chatOf(given['request'] as Partial<ChatRequest>)
  const asked = counting?.encodeRequest(chat, target(given['model'] as string)) ?? null
  if (!counting || asked === null) return { asked: false }
  const body = JSON.parse(asked.body.toString())
  const invoked = body.input?.invokeModel
  if (invoked) invoked.body = JSON.parse(Buffer.from(invoked.body, 'base64').toString())
  return { field: counting.field, path: asked.path, body }
})

/** `texts`: the case has the text of chunks whose bytes are the provider's. */
testCases(FOLDER, 'stream.json', given => {
  const frame = FRAMES[given['frames'] as string]!
  const events = given['events'] as readonly (Json | string)[]
  const body = Buffer.concat(events.map(each => Buffer.from((typeof each === 'string' ? each : frame(each)) as string)))
  const items = itemsOf(given, [body])
  expect(
    itemsOf(
      given,
      Array.from(body, (_, at) => body.subarray(at, at + 1)),
    ),
    'byte by byte',
  ).toEqual(items)
  for (const item of items) {
    if (item.kind !== 'chunk' || !isTranslated(given)) continue
    // OpenAI's schema has no custom tools in chunks, but its API sends them.
    if (!JSON.stringify(item.chunk).includes('"custom"')) checkForm('CreateChatCompletionStreamResponse', item.chunk)
    expect('usage' in item.chunk, 'usage where the client asks for it').toBe(given['usage'] === true)
  }
  return streamOf(items, given['texts'] === true)
})

function itemsOf(given: Case, pieces: readonly Buffer[]): StreamItem[] {
  const decoder = dialectOf(given).decodeStream(viewOf(given))
  return [...pieces.flatMap(piece => [...decoder.push(piece)]), ...decoder.end()]
}

/** OpenAI-compatible providers keep the form of their provider. */
function isTranslated({ dialect }: Case): boolean {
  return /^(anthropic|bedrock|cohere|gemini|ollama|vertex)/.test(String(dialect))
}

/** Answers that a dialect builds itself have every member that OpenAI's schema requires; a case omits those that are null. */
function checkForm(name: SchemaName, made: ChatCompletion | Chunk): void {
  expect(made, 'no member is undefined').toStrictEqual(JSON.parse(JSON.stringify(made)))
  for (const choice of made.choices)
    expect(Object.keys(choice)).toEqual(expect.arrayContaining(['logprobs', 'finish_reason']))
  if (judge) expect(judge(name, made)).toEqual([])
}

/** A string is the body itself; anything else is JSON. */
function bytesOf(body: unknown): Buffer {
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
}

/** `detail` is a sentence for the log. */
function failureOf({ detail: _detail, ...failure }: UpstreamFailure): Json {
  return { ...failure }
}

function completionOf({ choices, usage, ...head }: ChatCompletion): Json {
  return { head, choices: choices.map(choiceOf), ...(usage ? { usage } : {}) }
}

/** The members of a choice that differ from those of most choices. */
function choiceOf({ index, logprobs, finish_reason, ...rest }: Json): Json {
  return {
    ...(index === 0 ? {} : { index }),
    ...rest,
    ...(logprobs === null || logprobs === undefined ? {} : { logprobs }),
    ...(finish_reason === null || finish_reason === undefined ? {} : { finish: finish_reason }),
  }
}

/** The head is that of the first chunk; a chunk with a different head includes it. */
function streamOf(items: readonly StreamItem[], asTexts: boolean): Json {
  const isText = (item: StreamItem) => asTexts && item.kind === 'chunk' && item.raw !== null
  const heads = items.flatMap(item => (item.kind === 'chunk' && !isText(item) ? [headOf(item.chunk)] : []))
  const [head] = heads
  return {
    ...(head ? { head } : {}),
    items: items.map(item => {
      if (item.kind === 'done') return 'done'
      if (item.kind === 'failure') return { failure: failureOf(item.failure) }
      if (item.kind === 'usage') return { unasked: item.usage }
      const { choices, usage } = item.chunk
      const own = headOf(item.chunk)
      const text = item.raw?.toString()
      if (text !== undefined) {
        expect(JSON.parse(text), 'the bytes that the client gets').toEqual(item.chunk)
        expect(text).not.toMatch(/[\r\n]/)
        if (isText(item)) return { text, ...(item.usage ? { counted: item.usage } : {}) }
      }
      return {
        ...(JSON.stringify(own) === JSON.stringify(head) ? {} : { head: own }),
        ...(choices.length === 1
          ? choiceOf(choices[0] as never)
          : { choices: choices.map(each => choiceOf(each as never)) }),
        ...(usage ? { usage } : {}),
        ...(item.usage && JSON.stringify(item.usage) !== JSON.stringify(usage) ? { counted: item.usage } : {}),
      }
    }),
  }
}

function headOf({ choices: _choices, usage: _usage, ...head }: Chunk): Json {
  return head
}
