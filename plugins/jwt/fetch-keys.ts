/** Fetches a key set, with limits for its time and its size, and a check of its form. */
import type { Jwks } from './jwks.ts'
import { isForSignatures, whyUnusable } from './usable.ts'

/** Real key sets have some kilobytes. */
const MAX_BYTES = 256 * 1024
const MAX_KEYS = 100

interface Bounds {
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** A key set as it was fetched. */
export interface FetchedKeys {
  readonly text: string
  readonly jwks: Jwks
  /** The ignored keys for signatures, each with the reason. */
  readonly leftOut: readonly string[]
}

/** Rejects with a sentence for the log. Follows no redirects, because the address is trusted. */
export async function fetchKeys(url: string, { timeoutMs, signal }: Bounds): Promise<FetchedKeys> {
  const over = new AbortController()
  try {
    const response = await fetch(url, {
      headers: { accept: 'application/jwk-set+json, application/json' },
      redirect: 'error',
      signal: AbortSignal.any([signal, over.signal, AbortSignal.timeout(timeoutMs)]),
    })
    if (response.status !== 200) throw new Error(`status ${response.status}`)
    const text = await readBounded(response)
    return { text, ...toJwks(text) }
  } finally {
    // Ends the rest of an answer that is not read.
    over.abort()
  }
}

async function readBounded({ body }: Response): Promise<string> {
  // One buffer for the whole answer: an array of chunks would need hundreds of bytes for each, however short it is.
  const bytes = Buffer.alloc(MAX_BYTES)
  let size = 0
  for await (const chunk of body ?? []) {
    if (size + chunk.length > MAX_BYTES) throw new Error(`the answer is longer than ${MAX_BYTES} bytes`)
    bytes.set(chunk, size)
    size += chunk.length
  }
  return bytes.toString('utf8', 0, size)
}

/** Throws if no key can check signatures: such an answer must not replace a good one. */
function toJwks(text: string): Omit<FetchedKeys, 'text'> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Error('the answer is not JSON')
  }
  const keys: unknown = (value as { keys?: unknown } | null)?.keys
  if (!Array.isArray(keys) || keys.length > MAX_KEYS)
    throw new Error(`the answer is not a set of at most ${MAX_KEYS} keys`)
  const usable: Jwks['keys'][number][] = []
  const leftOut: string[] = []
  for (const [i, key] of keys.entries()) {
    if (!isObject(key) || !isForSignatures(key)) continue
    const why = whyUnusable(key)
    if (why === null) usable.push(key)
    else leftOut.push(`keys[${i}]: ${why}`)
  }
  if (usable.length > 0) return { jwks: { keys: usable }, leftOut }
  const reasons = leftOut.length > 0 ? ` (${leftOut.join('; ')})` : ''
  throw new Error(`the answer has no public key for signatures${reasons}`)
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
