/**
 * How a transport hands a provider's answer to the one who asked for it: the undici transport and the embedded demo drive
 * the same handler. Callbacks and not a web stream, because those cost several times the CPU on this path.
 */

/**
 * Receives one answer. The order is: `onConnect`, then `onHeaders` once, `onData` any number of times, `onComplete`.
 * `onError` may come instead of any of them, also of `onConnect` (no connection), and ends it: exactly one of `onComplete`
 * and `onError` is called, or neither when `abort` was called.
 */
export interface AnswerHandler {
  /**
   * Before anything else. `abort` gives the request up, at any moment and also from inside a callback: the connection or
   * the timers go, and no method of this handler is called again. A second call does nothing.
   */
  onConnect(abort: (reason?: Error) => void): void
  /**
   * The final response head: informational (1xx) ones are not passed on. Header names are lower-case; of a good answer (2xx)
   * there may be only `content-type`, `content-encoding` and `content-length`. `resume` continues
   * a transport that `onData` paused; it may be called from inside `onData`, and does nothing when nothing is paused.
   */
  onHeaders(status: number, headers: Record<string, string>, resume: () => void): void
  /** A piece of the body, cut anywhere. Returning false pauses the transport until `resume()`. */
  onData(bytes: Buffer): boolean
  /** The body was received completely, by its own framing. Never while paused. */
  onComplete(): void
  /** The answer broke: refused, reset, timed out, malformed. What was handed on before is all there will be. */
  onError(error: Error): void
}
