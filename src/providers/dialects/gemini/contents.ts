/** Encodes the conversation as Google's `contents`: turns of the user and of the model, each a list of parts. */
import { refuse } from '#contract'
import { parseExact } from '../json-exact.ts'
import { scanJson } from '../json-scan.ts'
import type { Part, Source, ToolCall, ToolResult, Turn } from '../translate/conversation.ts'
import type { Tool } from '../translate/parameters.ts'
import type { Platform } from './traits.ts'

export interface Content {
  readonly role: 'user' | 'model'
  readonly parts: readonly object[]
}

export interface Contents {
  readonly contents: readonly Content[]
  /** Names of dropped content. */
  readonly dropped: readonly string[]
}

/** Valid names of functions at Google. */
const TOOL_NAME = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/

function nameRefusal(name: string, param: string) {
  const shown = JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name)
  const message = `${param} names the tool ${shown}. For this model a name must begin with a letter or '_', followed by letters, digits, '_', '.', ':' and '-'.`
  return refuse('unsupported_parameter', { message, param })
}

/** Throws a refusal for a tool name that Google does not accept. */
export function checkNames(tools: readonly Pick<Tool, 'name'>[]): void {
  const index = tools.findIndex(({ name }) => !TOOL_NAME.test(name))
  if (index >= 0) throw nameRefusal(tools[index]!.name, `tools[${index}].function.name`)
}

/** Replaces a signature that the client lost. Google's own value for "do not check". */
const NO_SIGNATURE = 'skip_thought_signature_validator'

/** @param wantsSignatures whether the model refuses a turn of calls if the first has no signature */
export function contentsOf(turns: readonly Turn[], platform: Platform, wantsSignatures: boolean): Contents {
  const contents: Content[] = []
  const dropped = new Set<string>()
  for (const turn of turns) {
    const parts = turn.role === 'assistant' && wantsSignatures ? signedParts(turn.parts) : turn.parts
    const role = turn.role === 'assistant' ? 'model' : 'user'
    const made = parts.map(part => [part, partOf(part, turn.place, platform, dropped)] as const)
    // Newer models refuse other parts beside tool results, so the user's text becomes a separate turn.
    add(contents, role, made, part => part.kind === 'result')
    add(contents, role, made, part => part.kind !== 'result')
  }
  return { contents, dropped: [...dropped] }
}

function add(
  contents: Content[],
  role: Content['role'],
  made: readonly (readonly [Part, object | null])[],
  belongs: (part: Part) => boolean,
): void {
  const parts = made.flatMap(([part, wire]) => (wire !== null && belongs(part) ? [wire] : []))
  if (parts.length > 0) contents.push({ role, parts })
}

/** Of parallel calls only the first is signed and checked. */
function signedParts(parts: readonly Part[]): readonly Part[] {
  const first = parts.findIndex(part => part.kind === 'call')
  const call = parts[first] as ToolCall | undefined
  if (call === undefined || call.signature !== null) return parts
  return parts.with(first, { ...call, signature: NO_SIGNATURE })
}

function partOf(part: Part, place: string, platform: Platform, dropped: Set<string>): object | null {
  switch (part.kind) {
    case 'native':
      return null
    case 'text':
      return { text: part.text, ...(part.signature === undefined ? {} : { thoughtSignature: part.signature }) }
    case 'image':
      return imageOf(part.source, place)
    case 'audio':
      return { inlineData: { mimeType: `audio/${part.format}`, data: part.base64 } }
    case 'file':
      if (part.name !== null && platform === 'studio') dropped.add('filename')
      return mediaOf(part.source, typeOf(part.source, 'application/pdf'), platform === 'vertex' ? part.name : null)
    case 'reasoning':
      // Another provider's reasoning: Google's signatures are in texts and calls.
      dropped.add('reasoning_details')
      return null
    case 'call':
      if (!TOOL_NAME.test(part.name)) throw nameRefusal(part.name, place)
      return callOf(part)
    case 'result':
      return { functionResponse: { id: part.id, name: part.name, response: responseOf(part) } }
  }
}

function callOf({ id, name, arguments: args, signature }: ToolCall): object {
  return { functionCall: { id, name, args }, ...(signature === null ? {} : { thoughtSignature: signature }) }
}

/** A result that is a JSON object is sent unchanged. Anything else is put into an object, as Google requires. */
function responseOf({ text }: ToolResult): object {
  // Google reads a `$ref` as the name of a part beside the response.
  const looksLikeJson = /^\s*[[{]/.test(text) && !text.includes('"$ref"')
  // The text was not scanned before. Nested too deeply, it could not be written again.
  if (!looksLikeJson || !scanJson(Buffer.from(text)).ok) return { result: text }
  try {
    const value = parseExact(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : { result: value }
  } catch {
    return { result: text }
  }
}

/** The media type of a URL, which Google requires: by its file extension. */
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
  gif: 'image/gif',
  heic: 'image/heic',
  heif: 'image/heif',
  pdf: 'application/pdf',
  txt: 'text/plain',
  html: 'text/html',
  csv: 'text/csv',
  md: 'text/markdown',
  json: 'application/json',
}

const IMAGES: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/webp', 'image/heic', 'image/heif'])

function imageOf(source: Source, place: string): object {
  const type = typeOf(source, 'image/jpeg')
  if (IMAGES.has(type)) return mediaOf(source, type)
  const message = `${place} has an image of the type '${type}'. This model supports PNG, JPEG, WebP, HEIC and HEIF.`
  throw refuse('unsupported_parameter', { message, param: place })
}

function typeOf(source: Source, otherwise: string): string {
  if (source.kind === 'inline') return source.mediaType === 'image/jpg' ? 'image/jpeg' : source.mediaType
  const ending = /\.([a-z0-9]{2,5})(?:[?#]|$)/i.exec(source.url)?.[1]?.toLowerCase() ?? ''
  return MEDIA_TYPES[ending] ?? otherwise
}

function mediaOf(source: Source, mimeType: string, displayName: string | null = null): object {
  const named = displayName === null ? {} : { displayName }
  if (source.kind === 'inline') return { inlineData: { mimeType, data: source.base64, ...named } }
  return { fileData: { mimeType, fileUri: source.url, ...named } }
}
