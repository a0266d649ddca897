/** Converts errors that are not bugs into refusals. */
import { isRefusal, type Refusal, refuse } from '#contract'

/** Returns a refusal itself, one for Koa's client errors, or one for an unavailable store; null for any other error. */
export function refusalOf(error: unknown): Refusal | null {
  if (isRefusal(error)) return error
  if ((error as Error | null)?.name === 'StoreUnavailable') {
    const message = 'The store is not available. Nothing was charged.'
    return refuse('store_unavailable', { message, retryAfterMs: 1000, cause: error })
  }
  return refusalOfHttpError(error)
}

/** Converts `ctx.throw(403, …)` of a Koa middleware into a refusal; null for other errors. */
function refusalOfHttpError(error: unknown): Refusal | null {
  if (typeof error !== 'object' || error === null) return null
  const { status, expose, message, headers } = error as {
    status?: unknown
    expose?: unknown
    message?: string
    headers?: Record<string, string>
  }
  if (typeof status !== 'number' || status < 400 || status > 499 || expose !== true) return null
  const code =
    status === 401
      ? 'unauthorized'
      : status === 403
        ? 'forbidden'
        : status === 429
          ? 'rate_limit_exceeded'
          : 'bad_request'
  const ours = refuse(code, { ...(message ? { message } : {}), headers: headers ?? {} })
  return status === ours.status ? ours : Object.assign(ours, { status })
}
