/**
 * Recorded answers through the translating dialects, without a gateway. The results fit OpenAI's strict schema, however the
 * bytes are cut, and the chunks of a stream add up to the whole form.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import {
  type AnswerView,
  type ChatCompletion,
  type Dialect,
  ERRORS,
  type StreamItem,
  type ToolCallDelta,
} from '#contract'
import { createDialect, type DialectName } from '../../src/providers/dialects/index.ts'
import { CORPUS, describeWith, WITHOUT_CORPUS } from '../helpers/missing.ts'
import { seeded } from '../helpers/seeded.ts'
import {
  byProvider,
  CHUNK_MODES,
  type ChunkMode,
  type Corpus,
  type CorpusCase,
  openCorpus,
  settingsOf,
} from './corpus.ts'
import { fold } from './fold.ts'
import { type Judge, openSchemas } from './schemas.ts'
import { type RecordedBody, WHOLE_FORMS } from './whole.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
console.log(`pieces of random length: SEED=${seed}`)

/** Answers of these dialects are passed on unchanged, so their form is the provider's. */
const UNTRANSLATED = new Set(['openai', 'openai-compat', 'azure'])
const view = (includeUsage: boolean): AnswerView => ({
  model: 'chat-small',
  includeUsage,
  exchange: 'ex_7',
  createdAt: 1_790_000_000,
})

interface RecordedAnswer {
  readonly response: RecordedBody & { readonly status: number; readonly headers: Readonly<Record<string, string>> }
}

let corpus: Corpus

describeWith(WITHOUT_CORPUS, 'translated answers', () => {
  corpus = openCorpus(CORPUS)
  const translated = [...byProvider(corpus.cases.filter(({ dialect }) => !UNTRANSLATED.has(dialect)))]
  describe.each(translated)('%s', proofs)
})

function proofs(_provider: string, cases: readonly CorpusCase[]): void {
  let strict: Judge
  let dialect: Dialect
  beforeAll(() => {
    strict = openSchemas(CORPUS, 'strict')
    dialect = createDialect(settingsOf(cases[0]!).dialect as DialectName, () => 0).dialect
  })

  test('whole answers', () => {
    const mistakes: string[] = []
    for (const one of cases.filter(({ stream }) => !stream)) {
      const { status, headers, ...body } = responseOf(one)
      const note = (words: readonly string[]) => mistakes.push(...words.map(text => `${one.id} ${text}`))
      if (status !== 200) {
        note(unknownCode(dialect.decodeError(status, headers, bytesOf(body)).code))
        continue
      }
      const answer = dialect.decodeAnswer(bytesOf(body), view(true))
      if ('failure' in answer) note(unknownCode(answer.failure.code))
      else note(strict('CreateChatCompletionResponse', answer.completion))
    }
    expect(mistakes).toEqual([])
  })

  test('streams, whole and cut in every chunk mode', () => {
    const mistakes: string[] = []
    for (const one of cases.filter(({ stream }) => stream)) {
      const { status, ...body } = responseOf(one)
      if (status !== 200) continue
      for (const includeUsage of [true, false]) {
        const [items, ...others] = waysToCut(body).map(pieces => decode(dialect, pieces, includeUsage))
        for (const other of others) expect(other, one.id).toEqual(items)
        mistakes.push(...wrongIn(items!, strict).map(text => `${one.id} ${text}`))
      }
    }
    expect(mistakes).toEqual([])
  })

  test('the chunks of a stream add up to the whole form', () => {
    let compared = 0
    for (const one of cases.filter(({ stream }) => stream)) {
      const { status, ...body } = responseOf(one)
      if (status !== 200) continue
      const items = decode(dialect, [bytesOf(body)], true)
      // A stream that breaks off has no whole form.
      if (items.at(-1)?.kind !== 'done') continue
      const whole = WHOLE_FORMS[one.dialect]!(body)
      if (whole === null) continue
      const answer = dialect.decodeAnswer(Buffer.from(JSON.stringify(whole)), view(true))
      const folded = fold(chunksOf(items))
      expect(strict('CreateChatCompletionResponse', folded), one.id).toEqual([])
      expect(comparable(folded), one.id).toEqual('completion' in answer ? comparable(answer.completion) : answer)
      compared++
    }
    expect(compared).toBeGreaterThan(0)
  })
}

function responseOf({ lines }: CorpusCase): RecordedAnswer['response'] {
  return (JSON.parse(lines.open) as RecordedAnswer).response
}

function bytesOf({ format, body, body_base64, ...texts }: RecordedBody & { readonly body_text?: string }): Buffer {
  if (format === 'aws-eventstream') return Buffer.from(body_base64!, 'base64')
  return Buffer.from(texts.sse_text ?? texts.ndjson_text ?? texts.body_text ?? JSON.stringify(body))
}

function waysToCut(body: RecordedBody): Buffer[][] {
  const bytes = bytesOf(body)

  return CHUNK_MODES.map(mode => piecesOf(bytes, body.format, mode))
}

function piecesOf(bytes: Buffer, format: string, mode: ChunkMode): Buffer[] {
  if (mode === 'whole') return [bytes]
  if (mode === 'byte') return Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))
  if (mode === 'event' && format !== 'aws-eventstream') {
    const text = bytes.toString('utf8').split(format === 'ndjson' ? /(?<=\n)/ : /(?<=\r?\n\r?\n)/)
    return text.map(piece => Buffer.from(piece))
  }
  const random = seeded(seed)
  const size = (at: number) =>
    mode === 'event' && at + 4 <= bytes.length ? Math.max(1, bytes.readUInt32BE(at)) : 1 + Math.floor(random() * 97)
  const pieces: Buffer[] = []
  for (let at = 0; at < bytes.length; at += pieces.at(-1)!.length) pieces.push(bytes.subarray(at, at + size(at)))
  return pieces
}

function decode(dialect: Dialect, pieces: readonly Buffer[], includeUsage: boolean): StreamItem[] {
  const decoder = dialect.decodeStream(view(includeUsage))
  const items: StreamItem[] = []
  for (const piece of pieces) items.push(...decoder.push(piece))
  return [...items, ...decoder.end()]
}

const chunksOf = (items: readonly StreamItem[]) => items.flatMap(item => (item.kind === 'chunk' ? [item.chunk] : []))

function wrongIn(items: readonly StreamItem[], strict: Judge): string[] {
  return items.flatMap(item => {
    if (item.kind === 'failure') return unknownCode(item.failure.code)
    if (item.kind !== 'chunk') return []
    // The chunk's bytes must equal the chunk.
    if (item.raw !== null) expect(JSON.parse(item.raw.toString('utf8'))).toEqual(item.chunk)
    return strict('CreateChatCompletionStreamResponse', JSON.parse(JSON.stringify(item.chunk)))
  })
}

function unknownCode(code: string): string[] {
  return Object.hasOwn(ERRORS, code) ? [] : [`fails with the unknown code ${code}`]
}

/** Removes differences that a stream cannot show: no text or an empty one, and white space in arguments. */
function comparable(completion: ChatCompletion): ChatCompletion {
  const choices = completion.choices.map(choice => {
    const { content, tool_calls, ...message } = choice.message
    const calls = tool_calls?.map(call => ({ ...call, function: { ...call.function, ...argumentsOf(call) } }))
    return { ...choice, message: { ...message, content: content || null, ...(calls ? { tool_calls: calls } : {}) } }
  })
  return { ...completion, choices } as ChatCompletion
}

function argumentsOf(call: ToolCallDelta): { readonly arguments: unknown } {
  return { arguments: JSON.parse(call.function!.arguments!) }
}
