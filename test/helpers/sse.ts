/**
 * A strict parser of `text/event-stream` in the form that the gateway promises: LF, and one `data: ` line per event. Comments begin with
 * a colon and a space. Forms that only a browser would tolerate are errors.
 */
import type { Chunk } from '#contract'

export interface SseMessage {
  /** The `event:` field, or an empty string. */
  readonly event: string
  readonly data: string
}

export interface SseStream {
  /** Everything before `[DONE]`. */
  readonly events: readonly SseMessage[]
  /** The comments, without the colon and the space. */
  readonly comments: readonly string[]
  /** Whether `data: [DONE]` came. */
  readonly done: boolean
  /** The bytes after the last blank line: the beginning of an incomplete event. */
  readonly rest: string
}

/** The error for a stream that breaks the form. The message quotes the line. */
export class SseError extends Error {
  override readonly name = 'SseError'
}

/** Reads a whole stream from its text. */
export function parseSse(text: string): SseStream {
  const reader = new SseReader()
  reader.push(text)
  return reader.stream()
}

/** Reads a stream from a fetch answer to its end. A body that breaks off rejects, with what was read in `partial`. */
export async function readSse(response: Response): Promise<SseStream> {
  const reader = new SseReader()
  try {
    for await (const _event of eventsOf(response, reader));
  } catch (error) {
    if (error instanceof Error) Object.assign(error, { partial: reader.stream() })
    throw error
  }
  return reader.stream()
}

/** The text of a body that must end properly: also a failed stream ends after its error event. Rejects otherwise. */
export async function textOf(response: Response): Promise<string> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let text = ''
  try {
    for await (const bytes of response.body!) text += decoder.decode(bytes, { stream: true })
  } catch (error) {
    throw new Error(`a body broke off: ${JSON.stringify(text.slice(-300))}`, { cause: error })
  }
  return text
}

/** The events of a fetch answer as they arrive, without `[DONE]`. Leaving the loop early cancels the request. */
export function sseEvents(response: Response): AsyncGenerator<SseMessage, void> {
  return eventsOf(response, new SseReader())
}

/** The events as chunks; an error event is one too, with `error` in it. */
export function chunksOf(stream: SseStream): (Chunk & { error?: { message: string; code: string } })[] {
  return stream.events.map(({ data }) => JSON.parse(data))
}

/** The whole text of a stream's first choice, or of another one. */
export function contentOf(stream: SseStream, choice = 0): string {
  const deltas = chunksOf(stream).flatMap(chunk => chunk.choices ?? [])
  return deltas.map(({ index, delta }) => (index === choice ? (delta.content ?? '') : '')).join('')
}

async function* eventsOf(response: Response, reader: SseReader): AsyncGenerator<SseMessage, void> {
  const type = response.headers.get('content-type') ?? ''
  if (!type.startsWith('text/event-stream')) throw new SseError(`content-type is "${type}", not text/event-stream`)
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  for await (const bytes of response.body!) {
    yield* reader.push(decoder.decode(bytes, { stream: true }))
  }
  yield* reader.push(decoder.decode())
}

class SseReader {
  private readonly events: SseMessage[] = []
  private readonly comments: string[] = []
  private done = false
  private rest = ''

  /** The events that these bytes complete. */
  push(text: string): SseMessage[] {
    // All line ends are LF. With a CR, no blank line would be found.
    if (text.includes('\r')) throw new SseError(`a carriage return in ${JSON.stringify(text.slice(0, 200))}`)
    const before = this.events.length
    const blocks = (this.rest + text).split('\n\n')
    this.rest = blocks.pop()!
    for (const block of blocks) this.block(block)
    return this.events.slice(before)
  }

  stream(): SseStream {
    return { events: this.events, comments: this.comments, done: this.done, rest: this.rest }
  }

  private block(block: string): void {
    if (this.done) throw new SseError(`after [DONE] came ${JSON.stringify(block)}`)
    let event = ''
    let data: string | null = null
    for (const line of block.split('\n')) {
      if (line.startsWith(': ')) {
        this.comments.push(line.slice(2))
      } else if (line.startsWith('event: ') && event === '' && data === null) {
        event = line.slice(7)
      } else if (line.startsWith('data: ') && data === null) {
        data = line.slice(6)
      } else {
        throw new SseError(`unexpected line ${JSON.stringify(line.slice(0, 200))}`)
      }
    }
    if (data === '[DONE]') this.done = true
    else if (data !== null) this.events.push({ event, data })
    else if (event !== '') throw new SseError(`event "${event}" has no data`)
  }
}
