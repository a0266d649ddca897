/** Writes a translated request's body as bytes. */
import { refuse } from '#contract'

/** Throws a refusal for a body that is nested too deeply. Arguments of earlier calls are JSON inside JSON, whose depth was not checked. */
export function bodyOf(wire: object): Buffer {
  try {
    const text = JSON.stringify(wire)
    // Outside of Node's pool: it is kept as long as the answer, and would keep a whole piece of the pool.
    const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text))
    bytes.write(text)
    return bytes
  } catch (error) {
    throw error instanceof RangeError ? tooDeep() : error
  }
}

/** Writes a tool call's arguments as JSON text. Throws as `bodyOf` does. */
export function argumentsText(args: Readonly<Record<string, unknown>>): string {
  try {
    return JSON.stringify(args)
  } catch (error) {
    throw error instanceof RangeError ? tooDeep() : error
  }
}

function tooDeep() {
  const message = "The arguments of a tool call in 'messages' are nested too deeply."
  return refuse('request_too_complex', { message, param: 'messages' })
}
