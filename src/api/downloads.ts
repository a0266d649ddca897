/**
 * Sends long files piece by piece, so that a slow or disconnected client costs only the pieces that it has read. All downloads
 * together produce one piece per turn of the event loop. Each person has one download at a time.
 */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Context } from 'koa'
import { refuse } from '#contract'
import type { ApiParts } from './api-parts.ts'
import type { Answer } from './route.ts'

/** A file for a person. */
export interface LongFile {
  /** The id of the person. */
  readonly owner: string
  readonly filename: string
  /** Produces each piece on demand. */
  readonly pieces: AsyncIterable<string> | Iterable<string>
}

/** The downloads of one listener. */
export interface Files {
  /**
   * Sends a CSV, and resolves at its end or at a disconnect. Refuses with `too_many_attempts` during another download of its
   * owner. If a piece fails, the answer ends early.
   */
  send(ctx: Context, file: LongFile): Promise<Answer>
}

export function createFiles({ log }: Pick<ApiParts, 'log'>): Files {
  const owners = new Set<string>()
  const nextTurn = createTurns()

  async function* inTurns(pieces: AsyncIterable<string> | Iterable<string>) {
    await nextTurn()
    for await (const piece of pieces) {
      yield piece
      await nextTurn()
    }
  }

  return {
    async send(ctx, { owner, filename, pieces }) {
      if (owners.has(owner)) {
        const message = 'Another download of yours is in progress. Try again when it has ended.'
        throw refuse('too_many_attempts', { message, retryAfterMs: 1000 })
      }
      owners.add(owner)
      ctx.respond = false
      ctx.status = 200
      ctx.type = 'text/csv; charset=utf-8'
      ctx.attachment(filename)
      try {
        const source = Readable.from(ctx.method === 'HEAD' ? [] : inTurns(pieces), { objectMode: false })
        await pipeline(source, ctx.res)
      } catch (error) {
        // Without a disconnect the store has failed, and the part that was sent must not look complete.
        if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') {
          log.error({ err: error, filename }, 'a file could not be sent to its end')
        }
      } finally {
        owners.delete(owner)
      }
      return { stream: 'sent' }
    },
  }
}

/** Lets one waiting download continue per turn of the event loop. */
function createTurns(): () => Promise<void> {
  let last: Promise<void> = Promise.resolve()
  return () => {
    last = last.then(() => new Promise(resolve => setImmediate(resolve)))
    return last
  }
}
