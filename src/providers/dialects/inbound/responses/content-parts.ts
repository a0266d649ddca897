/** Reads the parts of messages and of results: text, images, files, audio. */
import { at, type Fields, fieldsOf, listOf, missing, notOneOf, optionalTextOf, textOf, unsupported } from './read.ts'

export type Part = Readonly<Record<string, unknown>> & { readonly type: string }

/** A part and its place in the request. */
export interface PlacedPart {
  readonly part: Part
  readonly place: string
}

/** Types of text, for any role; some clients write `text`. */
const TEXTS: ReadonlySet<unknown> = new Set(['input_text', 'output_text', 'text'])
const KINDS = ['input_text', 'output_text', 'input_image', 'input_file', 'input_audio']

/** A text, or a list of parts. */
export function readParts(content: unknown, place: string): PlacedPart[] {
  if (typeof content === 'string') return [{ part: { type: 'text', text: content }, place }]
  return listOf(content, place).map((value, index) => {
    const where = `${place}[${index}]`
    return { part: readPart(fieldsOf(value, where), where), place: where }
  })
}

/** Reads content of any role except the user's: the canonical format has only text there. Refuses other parts. */
export function readTexts(content: unknown, place: string): PlacedPart[] {
  const parts = readParts(content, place)
  const other = parts.find(({ part }) => part.type !== 'text')
  if (!other) return parts
  throw unsupported(
    other.place,
    `${other.place} is not text. On this gateway only user messages and tool results may have other content.`,
  )
}

function readPart(part: Fields, place: string): Part {
  const type = textOf(part['type'], at(place, 'type'))
  if (TEXTS.has(type)) return { type: 'text', text: textOf(part['text'], at(place, 'text')) }
  switch (type) {
    case 'input_image':
      return readImage(part, place)
    case 'input_file':
      return readFile(part, place)
    case 'input_audio':
      return { type, input_audio: fieldsOf(part['input_audio'], at(place, 'input_audio')) }
    default:
      throw notOneOf(at(place, 'type'), type, KINDS)
  }
}

function readImage(part: Fields, place: string): Part {
  if (part['file_id'] != null) {
    const param = at(place, 'file_id')
    throw unsupported(
      param,
      `${param} refers to an uploaded image. Send the image itself as a data URL in 'image_url'.`,
    )
  }
  const url = optionalTextOf(part['image_url'], at(place, 'image_url'))
  if (url === null) throw missing(at(place, 'image_url'))
  const detail = optionalTextOf(part['detail'], at(place, 'detail'))
  return { type: 'image_url', image_url: { url, ...(detail === null ? {} : { detail }) } }
}

/** A URL takes the place of the bytes. Providers that do not fetch URLs refuse it. */
function readFile(part: Fields, place: string): Part {
  const text = (name: string) => optionalTextOf(part[name], at(place, name))
  const data = text('file_data') ?? text('file_url')
  const id = text('file_id')
  const filename = text('filename')
  if (data === null && id === null) throw missing(at(place, 'file_data'))
  const name = filename ?? (data === null ? null : nameOf(data))
  return {
    type: 'file',
    file: {
      ...(name === null ? {} : { filename: name }),
      ...(data === null ? { file_id: id } : { file_data: data }),
    },
  }
}

/** Chat completions require a file name, whose extension is the type; the Responses API does not. */
function nameOf(data: string): string | null {
  const type = /^data:([^;,]+)/i.exec(data)?.[1]?.toLowerCase()
  if (type === undefined) return null
  return `document.${ENDINGS.get(type) ?? type.slice(type.indexOf('/') + 1)}`
}

const ENDINGS: ReadonlyMap<string, string> = new Map([
  ['text/plain', 'txt'],
  ['text/markdown', 'md'],
])

/** The content of a message: a single text as a string, which every provider accepts, otherwise parts. */
export function contentOf(parts: readonly PlacedPart[]): string | readonly Part[] {
  const [first] = parts
  if (parts.length === 1 && first!.part.type === 'text') return first!.part['text'] as string
  return parts.map(({ part }) => part)
}

/** A call in the canonical format. */
export interface Call {
  readonly id: string
  readonly type: 'function' | 'custom'
  readonly function?: Fields
  readonly custom?: Fields
}
