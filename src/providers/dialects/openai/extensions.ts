/**
 * What the gateway adds to answers beyond OpenAI's own fields, so that clients send it back (translate/completion.ts). Who
 * does not know it is not sent it, and nothing is said of it: it is no wish of the client's.
 */

/** In a message of the assistant. */
export const EXTENSIONS: ReadonlySet<string> = new Set([
  'reasoning_content',
  'reasoning_details',
  'extra_content',
  'images',
])

/** In a call of such a message. */
export const CALL_EXTENSIONS: ReadonlySet<string> = new Set(['extra_content'])

/**
 * Whether the bytes hold the name of one at all. From the underscore on, which prose and JSON have few of, so that a search
 * is quick: 2 µs for 100 kB of prose, where `"images"` takes 100; that is looked for only where there is an `image_url`.
 */
export function mayHaveExtensions(bytes: Buffer): boolean {
  return (
    bytes.includes('_content"') ||
    bytes.includes('_details"') ||
    (bytes.includes('_url"') && bytes.includes('"images"'))
  )
}
