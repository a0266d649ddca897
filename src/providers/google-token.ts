/**
 * Keeps an access token of a Google service account fresh. Its key signs an assertion, which Google exchanges for a token of one hour
 * (RFC 7523, 2.1; Google's "OAuth 2.0 for server to server applications"). Requests use the current token; none waits for a new one.
 */
import { createPrivateKey } from 'node:crypto'
import { ByteCollector } from '../common/bytes.ts'

/** The fields needed from the JSON file of Google's console. */
export interface ServiceAccount {
  readonly clientEmail: string
  /** PEM. */
  readonly privateKey: string
  readonly tokenUri: string
}

export interface TokenKeeper {
  /** Null before the first token, and after the last one expired. */
  current(): string | null
  /** Resolves when the first attempt has ended, whether it succeeded or not. */
  readonly tried: Promise<void>
  close(): void
}

export interface TokenKeeperOptions {
  readonly account: ServiceAccount
  /** Milliseconds since the epoch. */
  now(): number
  /** Runs `act` after `ms`, unless the returned function is called first. */
  readonly schedule?: (ms: number, act: () => void) => () => void
  /** Called each time no token could be fetched. `detail` contains no secret. */
  onProblem(detail: string): void
}

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const LIFETIME_S = 3600
/** A new token is fetched this long before the old one expires. */
const EARLY_MS = 5 * 60_000
const RETRY_MS = 15_000
const MIN_MS = 5_000
const TIMEOUT_MS = 10_000
/** Real answers have a few kilobytes. */
const LARGEST_ANSWER_BYTES = 64 * 1024

export function keepToken({ account, now, schedule = after, onProblem }: TokenKeeperOptions): TokenKeeper {
  let token: { readonly text: string; readonly untilMs: number } | null = null
  let cancel = () => {}
  let closed = false

  async function renew(): Promise<void> {
    let nextMs = RETRY_MS
    try {
      const { text, lifetimeMs } = await fetchToken(account, now())
      token = { text, untilMs: now() + lifetimeMs }
      nextMs = Math.max(MIN_MS, lifetimeMs - EARLY_MS)
    } catch (error) {
      onProblem(detailOf(error))
    }
    if (!closed) cancel = schedule(nextMs, () => void renew())
  }

  return {
    current: () => (token !== null && now() < token.untilMs ? token.text : null),
    tried: renew(),
    close() {
      closed = true
      cancel()
    },
  }
}

/** The assertion that is exchanged for a token: a JWT (RFC 7519) with RS256. */
export async function assertionFor(account: ServiceAccount, nowMs: number): Promise<string> {
  // Loaded with the first token, so that a gateway without a service account does not load it.
  const { SignJWT } = await import('jose')
  const issued = Math.floor(nowMs / 1000)
  return new SignJWT({ scope: SCOPE })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT' })
    .setIssuer(account.clientEmail)
    .setAudience(account.tokenUri)
    .setIssuedAt(issued)
    .setExpirationTime(issued + LIFETIME_S)
    .sign(createPrivateKey(account.privateKey))
}

async function fetchToken(account: ServiceAccount, nowMs: number): Promise<{ text: string; lifetimeMs: number }> {
  const response = await fetch(account.tokenUri, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: await assertionFor(account, nowMs),
    }),
    redirect: 'error',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  const answer = await readJson(response)
  if (!response.ok) throw new TokenRefused(response.status, answer?.['error'])
  const { access_token: text, expires_in: seconds } = answer ?? {}
  if (typeof text !== 'string' || !/^[\x21-\x7e]+$/.test(text)) throw new Error('the answer has no valid access_token')
  return { text, lifetimeMs: (typeof seconds === 'number' && seconds > 0 ? seconds : LIFETIME_S) * 1000 }
}

/** Null if the body is not JSON. Rejects if it is too long. */
async function readJson({ body }: Response): Promise<Readonly<Record<string, unknown>> | null> {
  const bytes = new ByteCollector()
  for await (const chunk of body ?? []) {
    bytes.add(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))
    if (bytes.size > LARGEST_ANSWER_BYTES) throw new Error(`the answer is longer than ${LARGEST_ANSWER_BYTES} bytes`)
  }
  try {
    return JSON.parse(bytes.take().toString('utf8'))
  } catch {
    return null
  }
}

class TokenRefused extends Error {
  /** @param error Google's error code: `invalid_grant` */
  constructor(status: number, error: unknown) {
    super(`status ${status}${typeof error === 'string' && /^\w{1,40}$/.test(error) ? `, ${error}` : ''}`)
  }
}

/** `fetch` puts the useful message into the cause. */
function detailOf(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error ? `${message}: ${cause.message}` : message
}

function after(ms: number, act: () => void): () => void {
  const timer = setTimeout(act, ms)
  timer.unref()
  return () => clearTimeout(timer)
}
