/**
 * Loaded into the checker's process. The checker reads an answer whole, and a stream that ends in an error event is cut: its
 * body breaks off. Here such a stream is read up to the cut, and one that is cut without an error event fails as before.
 */
import { textOf } from '../helpers/sse.ts'

const readWhole = Response.prototype.text

Object.defineProperty(Response.prototype, 'text', {
  value: function (this: Response): Promise<string> {
    const isStream = this.headers.get('content-type')?.startsWith('text/event-stream') ?? false
    return isStream ? textOf(this) : readWhole.call(this)
  },
})
