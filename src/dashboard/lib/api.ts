/**
 * The client of the account API: JSON to the same origin, with a header that pages of other sites cannot send. Errors are
 * `ApiError`.
 */

/** An error as the gateway reported it. Status 0: the gateway was not reached. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  /** The field that caused it. */
  readonly param: string | null
  readonly requestId: string | null
  readonly retryAfterMs: number | null

  constructor(details: ErrorDetails) {
    super(details.message)
    this.name = 'ApiError'
    this.status = details.status
    this.code = details.code
    this.param = details.param ?? null
    this.requestId = details.requestId ?? null
    this.retryAfterMs = details.retryAfterMs ?? null
  }
}

interface ErrorDetails {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly param?: string | null
  readonly requestId?: string | null
  readonly retryAfterMs?: number | null
}

/** The parameters after `?`; null, undefined and empty values are left out. */
export type Query = Readonly<Record<string, string | number | boolean | null | undefined>>

export interface Options {
  readonly signal?: AbortSignal | undefined
}

/** `await api.get<KeyView[]>('keys')`: paths are relative to /api/. A 204 returns undefined. */
export const api = {
  get: <T>(path: string, query?: Query, options?: Options) => call<T>('GET', path + search(query), undefined, options),
  post: <T>(path: string, body: object = {}, options?: Options) => call<T>('POST', path, body, options),
  put: <T>(path: string, body: object, options?: Options) => call<T>('PUT', path, body, options),
  patch: <T>(path: string, body: object, options?: Options) => call<T>('PATCH', path, body, options),
  delete: <T = void>(path: string, options?: Options) => call<T>('DELETE', path, undefined, options),
  /** A streamed response, whose body the caller reads. Errors before the first byte are thrown, as in other calls. */
  stream: (path: string, body: object, options?: Options) => send('POST', path, body, options),
}

/** `?a=1&b=2`, or nothing. */
export function search(query: Query = {}): string {
  const text = new URLSearchParams(
    Object.entries(query)
      .filter(([, value]) => value !== null && value !== undefined && value !== '')
      .map(([name, value]) => [name, String(value)]),
  ).toString()
  return text === '' ? '' : `?${text}`
}

type SignOutListener = () => void
let signOutListener: SignOutListener | null = null

/** Sets the listener for the end of the session (the code `not_signed_in`). */
export function onSignedOut(listener: SignOutListener | null): void {
  signOutListener = listener
}

async function call<T>(method: string, path: string, body?: object, options?: Options): Promise<T> {
  const response = await send(method, path, body, options)
  if (response.status === 204) return undefined as T
  try {
    return (await response.json()) as T
  } catch (error) {
    throw isAbort(error) ? error : unreadable(response)
  }
}

async function send(method: string, path: string, body?: object, options: Options = {}): Promise<Response> {
  const response = await reach(method, path, body, options)
  if (response.ok) return response
  const error = await errorOf(response)
  if (error.code === 'not_signed_in') signOutListener?.()
  throw error
}

async function reach(method: string, path: string, body: object | undefined, options: Options): Promise<Response> {
  const headers: Record<string, string> = { 'x-tollgate-dashboard': '1' }
  if (body !== undefined) headers['content-type'] = 'application/json'
  const init: RequestInit = { method, headers, credentials: 'same-origin', redirect: 'error', cache: 'no-store' }
  if (body !== undefined) init.body = JSON.stringify(body)
  if (options.signal !== undefined) init.signal = options.signal
  try {
    return await fetch(`/api/${path}`, init)
  } catch (error) {
    if (isAbort(error)) throw error
    throw new ApiError({
      status: 0,
      code: 'unreachable',
      message: 'The gateway could not be reached. Check the connection and try again.',
    })
  }
}

/** The error in a response of the gateway, or of a proxy before it. */
async function errorOf(response: Response): Promise<ApiError> {
  const envelope = await response.json().catch(() => null)
  const error = field(envelope, 'error')
  const message = field(error, 'message')
  if (typeof message !== 'string') return unreadable(response)
  return new ApiError({
    status: response.status,
    code: textOr(field(error, 'code'), 'unknown'),
    message,
    param: textOr(field(error, 'param'), null),
    requestId: response.headers.get('x-request-id'),
    retryAfterMs: waitOf(response.headers),
  })
}

function unreadable(response: Response): ApiError {
  return new ApiError({
    status: response.status,
    code: 'unreadable_answer',
    message: `The answer is not valid JSON (HTTP ${response.status}). A proxy between this page and the gateway may have changed it. Try again.`,
    requestId: response.headers.get('x-request-id'),
    retryAfterMs: waitOf(response.headers),
  })
}

function waitOf(headers: Headers): number | null {
  const ms = Number.parseInt(headers.get('retry-after-ms') ?? '', 10)
  if (ms >= 0) return ms
  const seconds = Number.parseInt(headers.get('retry-after') ?? '', 10)
  return seconds >= 0 ? seconds * 1000 : null
}

function isAbort(error: unknown): boolean {
  return field(error, 'name') === 'AbortError'
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined
}

function textOr<Else>(value: unknown, otherwise: Else): string | Else {
  return typeof value === 'string' ? value : otherwise
}
