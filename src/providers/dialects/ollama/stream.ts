/** Decodes a streamed answer: JSON lines, the last one with `done`. */

import type { AnswerView, StreamDecoder, StreamItem } from '#contract'
import { finishOf } from '../finish-words.ts'
import { parseAnswer } from '../json-exact.ts'
import { ChunkWriter } from '../translate/completion.ts'
import { type Fields, isFields, textIn } from '../translate/value.ts'
import { callsIn, usageOf } from './answer.ts'
import type { ErrorReader } from './failures.ts'
import { LineReader } from './lines.ts'

const NONE: readonly StreamItem[] = []

export class OllamaStream implements StreamDecoder {
  readonly #errors: ErrorReader
  readonly #reader = new LineReader()
  readonly #writer: ChunkWriter
  #isOver = false

  constructor(view: AnswerView, errors: ErrorReader) {
    this.#errors = errors
    this.#writer = new ChunkWriter(view)
  }

  push(bytes: Buffer): readonly StreamItem[] {
    return this.#isOver ? NONE : this.#take(this.#reader.push(bytes))
  }

  end(): readonly StreamItem[] {
    if (this.#isOver) return NONE
    // The pump reports a stream that ends in the middle of a line.
    return this.#take(this.#reader.end().filter(line => parse(line) !== undefined))
  }

  #take(lines: readonly Buffer[]): readonly StreamItem[] {
    for (const line of lines) this.#decode(line)
    return lines.length === 0 ? NONE : this.#writer.take()
  }

  #decode(line: Buffer): void {
    if (this.#isOver) return
    const parsed = parse(line)
    if (parsed === undefined) this.#broken('a line of the stream is not JSON')
    else if (!isFields(parsed)) this.#broken('a line of the stream is not an object')
    else {
      try {
        this.#line(parsed)
      } catch (error) {
        this.#broken(`a line of the stream could not be read: ${error}`)
      }
    }
  }

  #broken(detail: string): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#writer.fail({ code: 'upstream_invalid', detail })
  }

  #line(line: Fields): void {
    if (line['error']) {
      this.#isOver = true
      this.#writer.fail(this.#errors.inside(line))
      return
    }
    this.#writer.identify(null, line['model'])
    const message = isFields(line['message']) ? line['message'] : {}
    this.#writer.reasoning(textIn(message['thinking']))
    this.#writer.text(textIn(message['content']))
    for (const call of callsIn(message)) this.#writer.call(call)
    if (line['done'] === true) this.#end(line)
  }

  #end(line: Fields): void {
    const reason = line['done_reason']
    this.#isOver = true
    const usage = usageOf(line)
    if (usage) this.#writer.usage(usage)
    this.#writer.finish(finishOf(reason, this.#writer.calls > 0))
    this.#writer.done()
  }
}

function parse(line: Buffer): unknown {
  try {
    return parseAnswer(line.toString('utf8'), 'arguments')
  } catch {
    return undefined
  }
}
