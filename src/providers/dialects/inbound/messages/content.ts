/** Reads content of a user, a tool or a document: texts, images and files. */
import { lastMarked, readMark, type WithCacheMark } from './cache.ts'
import {
  type Fields,
  fieldsIn,
  listIn,
  missing,
  optionalTextIn,
  shown,
  textIn,
  unknownValue,
  unsupported,
} from './fields.ts'

export type TextPart = {
  readonly type: 'text'
  readonly text: string
  readonly citations?: readonly unknown[]
} & WithCacheMark
/** A block that only Anthropic has, as the client received it. */
export type NativePart = { readonly type: 'anthropic'; readonly anthropic: Fields } & WithCacheMark
export type Part =
  | TextPart
  | NativePart
  | ({ readonly type: 'image_url'; readonly image_url: { readonly url: string } } & WithCacheMark)
  | ({
      readonly type: 'file'
      readonly file: { readonly filename: string; readonly file_data: string }
    } & WithCacheMark)

/** A part and its place in the request. */
export interface PlacedPart {
  readonly part: Part
  readonly place: string
}

export const textPart = (text: string, mark: Omit<TextPart, 'type' | 'text'> = {}): TextPart => ({
  type: 'text',
  text,
  ...mark,
})

/** A string, or a list of blocks; empty without content. */
export function readContent(content: unknown, place: string): PlacedPart[] {
  if (content === undefined || content === null) return []
  if (typeof content === 'string') return [{ part: textPart(content), place }]
  return listIn(content, place).flatMap((block, index) => {
    const at = `${place}[${index}]`
    return readBlock(fieldsIn(block, at), at)
  })
}

/** The texts of a string or of text blocks; other blocks are refused. */
export function readTexts(content: unknown, place: string): TextPart[] {
  if (typeof content === 'string') return [textPart(content)]
  return listIn(content, place).map((value, index) => {
    const at = `${place}[${index}]`
    const block = fieldsIn(value, at)
    if (block['type'] !== 'text') throw unknownValue(`${at}.type`, block['type'], ['text'])
    return textPart(textIn(block['text'], `${at}.text`), readMark(block, at))
  })
}

/** Reads one block with content and its mark. Other members are ignored. */
export function readBlock(block: Fields, place: string): PlacedPart[] {
  const mark = readMark(block, place)
  const placed = readUnmarked(block, place)
  if (mark.cache_control === undefined) return placed
  const parts = lastMarked(
    placed.map(({ part }) => part),
    mark,
  )
  return placed.map(({ place: at }, index) => ({ part: parts[index]!, place: at }))
}

function readUnmarked(block: Fields, place: string): PlacedPart[] {
  switch (block['type']) {
    case 'text':
      return [{ part: textPart(textIn(block['text'], `${place}.text`)), place }]
    case 'image':
      return [{ part: imageOf(fieldsIn(block['source'], `${place}.source`), `${place}.source`), place }]
    case 'document':
      return documentOf(block, place)
    case 'search_result':
      return [{ part: textPart(searchResult(block, place)), place }]
    case 'tool_reference': {
      const name = textIn(block['tool_name'], `${place}.tool_name`)
      return [{ part: textPart(`The tool '${name}' is available.`), place }]
    }
    default:
      throw foreignBlock(block['type'], place)
  }
}

/** The refusal of blocks that only Anthropic's own tools and stores use. */
export function foreignBlock(type: unknown, place: string) {
  if (typeof type !== 'string')
    return type === undefined ? missing(`${place}.type`) : unknownValue(`${place}.type`, type, [])
  const message = `${place} is a block of the type ${shown(type)}, which this gateway does not support there.`
  return unsupported(`${place}.type`, message)
}

const IMAGE_SOURCES = ['base64', 'url']
const DOCUMENT_SOURCES = ['base64', 'text', 'content', 'url']

function imageOf(source: Fields, place: string): Part {
  switch (source['type']) {
    case 'base64':
      return { type: 'image_url', image_url: { url: dataUrl(source, place) } }
    case 'url':
      return { type: 'image_url', image_url: { url: textIn(source['url'], `${place}.url`) } }
    default:
      throw wrongSource(source['type'], place, IMAGE_SOURCES)
  }
}

/** A text document becomes text, which every model reads; a document with pages becomes a file. */
function documentOf(block: Fields, place: string): PlacedPart[] {
  const at = `${place}.source`
  const source = fieldsIn(block['source'], at)
  const title = optionalTextIn(block['title'], `${place}.title`)
  const context = optionalTextIn(block['context'], `${place}.context`)
  const about = [title === null ? '' : `Document: ${title}`, context ?? ''].filter(line => line !== '').join('\n')
  const headed = (parts: readonly Part[]) => [...(about === '' ? [] : [textPart(about)]), ...parts]
  const placed = (parts: readonly Part[]) => parts.map(part => ({ part, place }))
  const file = (data: string): Part => ({ type: 'file', file: { filename: title ?? 'document.pdf', file_data: data } })
  switch (source['type']) {
    case 'base64':
      return placed([...(context ? [textPart(about)] : []), file(dataUrl(source, at))])
    case 'url':
      return placed([...(context ? [textPart(about)] : []), file(textIn(source['url'], `${at}.url`))])
    case 'text': {
      const text = textIn(source['data'], `${at}.data`)
      return placed([textPart(about === '' ? text : `${about}\n\n${text}`)])
    }
    case 'content':
      return placed(headed(readContent(source['content'], `${at}.content`).map(({ part }) => part)))
    default:
      throw wrongSource(source['type'], at, DOCUMENT_SOURCES)
  }
}

function dataUrl(source: Fields, place: string): string {
  const type = textIn(source['media_type'], `${place}.media_type`)
  return `data:${type};base64,${textIn(source['data'], `${place}.data`)}`
}

function wrongSource(type: unknown, place: string, known: readonly string[]) {
  if (type !== 'file') return unknownValue(`${place}.type`, type, known)
  const message = `${place} refers to an uploaded file, but this gateway stores no files. Send its bytes: 'type': 'base64'.`
  return unsupported(`${place}.type`, message)
}

function searchResult(block: Fields, place: string): string {
  const title = textIn(block['title'], `${place}.title`)
  const source = textIn(block['source'], `${place}.source`)
  return [
    `Search result: ${title}`,
    `Source: ${source}`,
    '',
    ...readTexts(block['content'], `${place}.content`).map(({ text }) => text),
  ].join('\n')
}
