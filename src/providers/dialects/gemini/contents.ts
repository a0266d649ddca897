/** The conversation as Google's `contents`: turns of the user and of the model, each a list of parts. */
import { scanJson } from '../json-scan.ts'
import type { Part, Source, ToolCall, ToolResult, Turn } from '../translate/conversation.ts'
import type { Platform } from './traits.ts'

export interface Content {
  readonly role: 'user' | 'model'
  readonly parts: readonly object[]
}

export interface Contents {
  readonly contents: readonly Content[]
  /** Names of what could not be carried. */
  readonly dropped: readonly string[]
}

/** In place of a signature that the client has lost: Google's own word for "do not check". */
const NO_SIGNATURE = 'skip_thought_signature_validator'

/** @param wantsSignatures whether the model refuses a turn of calls of which the first has no signature */
export function contentsOf(turns: readonly Turn[], platform: Platform, wantsSignatures: boolean): Contents {
  const contents: Content[] = []
  const dropped = new Set<string>()
  for (const turn of turns) {
    const parts = turn.role === 'assistant' && wantsSignatures ? signedParts(turn.parts) : turn.parts
    const role = turn.role === 'assistant' ? 'model' : 'user'
    const made = parts.map(part => [part, partOf(part, platform, dropped)] as const)
    // Newer models refuse anything beside the results of tools, so what the user adds is a turn of its own.
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

/** Of calls made at once only the first is signed, and only that one is checked. */
function signedParts(parts: readonly Part[]): readonly Part[] {
  const first = parts.findIndex(part => part.kind === 'call')
  const call = parts[first] as ToolCall | undefined
  if (call === undefined || call.signature !== null) return parts
  return parts.with(first, { ...call, signature: NO_SIGNATURE })
}

function partOf(part: Part, platform: Platform, dropped: Set<string>): object | null {
  switch (part.kind) {
    case 'native':
      return null
    case 'text':
      return { text: part.text, ...(part.signature === undefined ? {} : { thoughtSignature: part.signature }) }
    case 'image':
      return mediaOf(part.source, 'image/jpeg')
    case 'audio':
      return { inlineData: { mimeType: `audio/${part.format}`, data: part.base64 } }
    case 'file':
      if (part.name !== null && platform === 'studio') dropped.add('filename')
      return mediaOf(part.source, 'application/pdf', platform === 'vertex' ? part.name : null)
    case 'reasoning':
      // Another provider's: Google's signatures stand at texts and calls.
      dropped.add('reasoning_details')
      return null
    case 'call':
      return callOf(part)
    case 'result':
      return { functionResponse: { id: part.id, name: part.name, response: responseOf(part) } }
  }
}

function callOf({ id, name, arguments: args, signature }: ToolCall): object {
  return { functionCall: { id, name, args }, ...(signature === null ? {} : { thoughtSignature: signature }) }
}

/** A result that is a JSON object as it is; anything else in an object, because Google takes nothing else. */
function responseOf({ text }: ToolResult): object {
  const looksLikeJson = /^\s*[[{]/.test(text)
  // A tool's text is the first to look at it here: too deep, and it could not be written down again.
  if (!looksLikeJson || !scanJson(Buffer.from(text)).ok) return { result: text }
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : { result: value }
  } catch {
    return { result: text }
  }
}

/** What to call the bytes behind an address, which must be said: by the ending of its name. */
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

function mediaOf(source: Source, otherwise: string, displayName: string | null = null): object {
  const named = displayName === null ? {} : { displayName }
  if (source.kind === 'inline') {
    const mimeType = source.mediaType === 'image/jpg' ? 'image/jpeg' : source.mediaType
    return { inlineData: { mimeType, data: source.base64, ...named } }
  }
  const ending = /\.([a-z0-9]{2,5})(?:[?#]|$)/i.exec(source.url)?.[1]?.toLowerCase() ?? ''
  return { fileData: { mimeType: MEDIA_TYPES[ending] ?? otherwise, fileUri: source.url, ...named } }
}
