/**
 * Fields that the gateway adds to OpenAI's answers and that clients send back (translate/completion.ts). They are silently removed for
 * providers that do not know them, because the client did not choose them.
 */

/** Fields of an assistant message. */
export const EXTENSIONS: ReadonlySet<string> = new Set([
  'reasoning_content',
  'reasoning_details',
  'extra_content',
  'images',
])

/** Fields of a call in such a message. */
export const CALL_EXTENSIONS: ReadonlySet<string> = new Set(['extra_content'])

/**
 * Whether the bytes may have one of these names. Searches from the underscore on, because prose and JSON have few: 2 µs for 100 kB of
 * prose. `"images"` would take 100 µs, so it is searched only if there is an `image_url`.
 */
export function mayHaveExtensions(bytes: Buffer): boolean {
  return (
    bytes.includes('_content"') ||
    bytes.includes('_details"') ||
    (bytes.includes('_url"') && bytes.includes('"images"'))
  )
}
