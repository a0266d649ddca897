/** Adapts the content of a message to a compatible provider. */
import { type ChatMessage, refuse } from '#contract'
import { type Fields, isFields, textIn } from '../translate/value.ts'
import type { MessageQuirks } from './profile.ts'

type Content = ChatMessage['content']

const TEXT: ReadonlySet<string> = new Set(['text'])

/**
 * The adapted content, or null if nothing changes. Throws a refusal for an unsupported part.
 * @param role at the provider
 */
export function adaptParts(content: Content, role: string, quirks: MessageQuirks, place: string): Content | null {
  if (!Array.isArray(content)) return null
  const { files, parts, joined } = quirks
  const adapted = files === 'document_url' ? (content as Fields[]).map(documentOf) : content
  if (parts !== undefined) {
    const known = (Object.hasOwn(parts, role) ? parts[role] : undefined) ?? TEXT
    for (const [index, part] of adapted.entries()) refuseUnknown(part, known, quirks, `${place}.content[${index}]`)
  }
  if (files === 'data') for (const [index, part] of content.entries()) refuseUrl(part, `${place}.content[${index}]`)
  if (joined?.has(role)) return adapted.map(part => textIn((part as Fields)['text'])).join('\n')
  return adapted.every((part, index) => part === content[index]) ? null : (adapted as unknown as Content)
}

/** Converts a file with its data; other parts stay the same. A file with only an id is left to the provider to refuse. */
function documentOf(part: Fields): Fields {
  const { file_data: data, filename } = (part['file'] ?? {}) as Fields
  if (part['type'] !== 'file' || typeof data !== 'string') return part
  return {
    type: 'document_url',
    document_url: data,
    ...(typeof filename === 'string' ? { document_name: filename } : {}),
  }
}

function refuseUrl(part: unknown, place: string): void {
  const file = isFields(part) ? part['file'] : undefined
  const data = isFields(file) ? file['file_data'] : undefined
  if (typeof data !== 'string' || !/^https?:/i.test(data)) return
  const param = `${place}.file.file_data`
  const message = `${param} is a URL, which this model's provider does not fetch. Send the file itself as a data URL.`
  throw refuse('unsupported_parameter', { message, param })
}

function refuseUnknown(part: unknown, known: ReadonlySet<string>, { sounds }: MessageQuirks, place: string): void {
  if (!isFields(part)) return
  const { type, input_audio: sound } = part
  if (typeof type === 'string' && !known.has(type)) {
    const message = `${place} has the type '${type}', which this model's provider does not support.`
    throw refuse('unsupported_parameter', { message, param: `${place}.type` })
  }
  const format = isFields(sound) ? sound['format'] : undefined
  if (sounds === undefined || typeof format !== 'string' || sounds.has(format)) return
  const message = `${place} is a sound in '${format}'. This model's provider supports ${[...sounds].join(', ')}.`
  throw refuse('unsupported_parameter', { message, param: `${place}.input_audio.format` })
}
