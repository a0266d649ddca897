/**
 * Builds a request like the recorded one if its text was not kept. It has the same number of bytes, messages and tools, and the same
 * model, cap and parameters. Requests with the same digest get the same stand-in.
 */
import type { LogLine, RequestShape } from './line.ts'

const IMAGE = { type: 'image_url', image_url: { url: 'https://image.invalid/' } }

/** Parameters with recorded values; others are null, which is valid for each of them. */
const KNOWN = ['model', 'messages', 'stream', 'n', 'max_tokens', 'max_completion_tokens', 'tools']

/** Number of characters of a digest that distinguish two requests, also in a short one. */
const ENOUGH_OF_DIGEST = 12

/** Bytes for requests whose content is never read. */
let zeros = Buffer.alloc(64 * 1024)

/** The body in the canonical format, and as bytes. */
export function standInRequest(line: LogLine): { readonly body: unknown; readonly bytes: Buffer } {
  const { request, kind, stream } = line
  if (kind === 'raw' || !request.isRead) return { body: null, bytes: zerosOf(request.bytes) }
  const filler = { type: 'text', text: '' }
  const body: Record<string, unknown> = { model: request.model ?? '', messages: messagesOf(request, filler) }
  if (stream) body['stream'] = true
  if (request.n !== null) body['n'] = request.n
  if (request.cap !== null) body[capName(request)] = request.cap
  if (request.tools > 0) body['tools'] = Array.from({ length: request.tools }, (_, nth) => toolOf(nth))
  // Other formats have other names for them.
  if (kind === 'chat') for (const name of request.params) if (!KNOWN.includes(name)) body[name] = null
  // `cache` accepts only repeatable requests: those with the temperature 0.
  if (request.sha256 !== null && request.params.includes('temperature')) body['temperature'] = 0
  const room = request.bytes - JSON.stringify(body).length
  const digest = request.sha256 ?? ''
  filler.text = digest.slice(0, Math.max(ENOUGH_OF_DIGEST, room)).padEnd(room, 'x')
  body['messages'] = messagesOf(request, filler)
  return { body, bytes: Buffer.from(JSON.stringify(body)) }
}

function messagesOf({ messages, unsized }: RequestShape, filler: { readonly text: string }) {
  const list: { role: string; content: unknown }[] = []
  for (let nth = Math.max(1, messages); nth > 1; nth--) list.push({ role: 'user', content: '' })
  list.push({ role: 'user', content: unsized ? [IMAGE, filler] : filler.text })
  return list
}

function capName({ params }: RequestShape): string {
  return params.includes('max_tokens') ? 'max_tokens' : 'max_completion_tokens'
}

function toolOf(nth: number) {
  return { type: 'function', function: { name: `tool_${nth}` } }
}

function zerosOf(bytes: number): Buffer {
  if (bytes > zeros.length) zeros = Buffer.alloc(bytes)
  return zeros.subarray(0, bytes)
}
