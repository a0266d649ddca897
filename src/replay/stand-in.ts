/**
 * A request like the one that was sent, where its words were not kept: as many bytes, messages and tools, the same model,
 * cap and parameters. Two requests with one digest get one and the same.
 */
import type { AskedShape, LogLine } from './line.ts'

const IMAGE = { type: 'image_url', image_url: { url: 'https://image.invalid/' } }

/** Those that are written with what is known of them; others are null, which every one of them may be. */
const KNOWN = ['model', 'messages', 'stream', 'n', 'max_tokens', 'max_completion_tokens', 'tools']

/** So much of a digest tells two requests apart, also in a short one. */
const ENOUGH_OF_DIGEST = 12

/** Where the bytes themselves are looked at by nobody. */
let zeros = Buffer.alloc(64 * 1024)

/** The body in the canonical format, and as bytes. */
export function standIn(line: LogLine): { readonly body: unknown; readonly bytes: Buffer } {
  const { request, kind, stream } = line
  if (kind === 'raw' || !request.isRead) return { body: null, bytes: zerosOf(request.bytes) }
  const words = { type: 'text', text: '' }
  const body: Record<string, unknown> = { model: request.model ?? '', messages: messagesOf(request, words) }
  if (stream) body['stream'] = true
  if (request.n !== null) body['n'] = request.n
  if (request.cap !== null) body[capName(request)] = request.cap
  if (request.tools > 0) body['tools'] = Array.from({ length: request.tools }, (_, nth) => toolOf(nth))
  // Other formats have other names for them.
  if (kind === 'chat') for (const name of request.params) if (!KNOWN.includes(name)) body[name] = null
  // Only what is meant to be the same each time is asked for again, and says so by its temperature.
  if (request.sha256 !== null && request.params.includes('temperature')) body['temperature'] = 0
  const room = request.bytes - JSON.stringify(body).length
  const digest = request.sha256 ?? ''
  words.text = digest.slice(0, Math.max(ENOUGH_OF_DIGEST, room)).padEnd(room, 'x')
  body['messages'] = messagesOf(request, words)
  return { body, bytes: Buffer.from(JSON.stringify(body)) }
}

function messagesOf({ messages, unsized }: AskedShape, words: { readonly text: string }) {
  const list: { role: string; content: unknown }[] = []
  for (let nth = Math.max(1, messages); nth > 1; nth--) list.push({ role: 'user', content: '' })
  list.push({ role: 'user', content: unsized ? [IMAGE, words] : words.text })
  return list
}

function capName({ params }: AskedShape): string {
  return params.includes('max_tokens') ? 'max_tokens' : 'max_completion_tokens'
}

function toolOf(nth: number) {
  return { type: 'function', function: { name: `tool_${nth}` } }
}

function zerosOf(bytes: number): Buffer {
  if (bytes > zeros.length) zeros = Buffer.alloc(bytes)
  return zeros.subarray(0, bytes)
}
