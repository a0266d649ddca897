/**
 * The interface through which a transport delivers a provider's answer. The undici transport and the embedded demo drive the same
 * handler. It uses callbacks, because web streams cost several times the CPU on this path.
 */

/**
 * Receives one answer. The order is `onConnect`, `onHeaders` once, `onData` any number of times, `onComplete`. `onError` may replace
 * any of them, also `onConnect` (no connection), and is the last call. Exactly one of `onComplete` and `onError` is called, or neither
 * after `abort`.
 */
export interface AnswerHandler {
  /**
   * Called first. `abort` ends the request at any moment, also from inside a callback. It closes the connection or stops the timers,
   * and no method of this handler is called again. A second call does nothing.
   */
  onConnect(abort: (reason?: Error) => void): void
  /**
   * The final response head; informational (1xx) heads are not passed on. Header names are lower-case. A 2xx answer may have only
   * `content-type`, `content-encoding` and `content-length`. `resume` continues a transport that `onData` paused. It may be called
   * inside `onData`, and does nothing if nothing is paused.
   */
  onHeaders(status: number, headers: Record<string, string>, resume: () => void): void
  /** A piece of the body, of any length. Returning false pauses the transport until `resume()`. */
  onData(bytes: Buffer): boolean
  /** The body was received completely, according to its framing. Never called while paused. */
  onComplete(): void
  /** The answer failed: refused, reset, timed out or malformed. No more data follows. */
  onError(error: Error): void
}
