/** The parts of messages and of results: text, images, files, sounds. */
import { at, type Fields, fieldsOf, listOf, missing, notOneOf, optionalTextOf, textOf, unsupported } from './read.ts'

export type Part = Readonly<Record<string, unknown>> & { readonly type: string }

/** What a part says, and where it stands. */
export interface PlacedPart {
  readonly part: Part
  readonly place: string
}

/** Kinds that are text, whoever says it; `text` is what some clients write. */
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

/** The same where the canonical format has text alone: what anybody but the user says. */
export function readTexts(content: unknown, place: string): PlacedPart[] {
  const parts = readParts(content, place)
  const other = parts.find(({ part }) => part.type !== 'text')
  if (!other) return parts
  throw unsupported(
    other.place,
    `${other.place} is no text. Only messages of the user and results of tools hold anything else on this gateway.`,
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
    throw unsupported(param, `${param} names an uploaded image. Send the image itself as a data URL in 'image_url'.`)
  }
  const url = optionalTextOf(part['image_url'], at(place, 'image_url'))
  if (url === null) throw missing(at(place, 'image_url'))
  const detail = optionalTextOf(part['detail'], at(place, 'detail'))
  return { type: 'image_url', image_url: { url, ...(detail === null ? {} : { detail }) } }
}

/** An address stands where the bytes would: providers that fetch take it, the others say that they do not. */
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

/** Chat completions want a name beside data, whose ending says the type; the Responses API does not. */
function nameOf(data: string): string | null {
  const type = /^data:([^;,]+)/i.exec(data)?.[1]?.toLowerCase()
  if (type === undefined) return null
  return `document.${ENDINGS.get(type) ?? type.slice(type.indexOf('/') + 1)}`
}

const ENDINGS: ReadonlyMap<string, string> = new Map([
  ['text/plain', 'txt'],
  ['text/markdown', 'md'],
])

/** As messages carry it: one text as a text, which every provider takes, and the rest as parts. */
export function contentOf(parts: readonly PlacedPart[]): string | readonly Part[] {
  const [first] = parts
  if (parts.length === 1 && first!.part.type === 'text') return first!.part['text'] as string
  return parts.map(({ part }) => part)
}

/** A call as the canonical format has it. */
export interface Call {
  readonly id: string
  readonly type: 'function' | 'custom'
  readonly function?: Fields
  readonly custom?: Fields
}
