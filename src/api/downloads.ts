/**
 * Long files, made piece by piece while they are sent: a reader that is slow, or that leaves, costs no more than what it
 * has taken. However many are under way, between two turns of the event loop one piece of one of them is made; and each
 * person has one at a time.
 */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Context } from 'koa'
import { refuse } from '#contract'
import type { ApiParts } from './api-parts.ts'
import type { Answer } from './route.ts'

/** A file on its way to a person. */
export interface LongFile {
  /** Whose it is: their id. */
  readonly owner: string
  readonly filename: string
  /** Each is made when it is asked for. */
  readonly pieces: AsyncIterable<string> | Iterable<string>
}

/** The files of one gateway. */
export interface Files {
  /**
   * Sends a CSV, and resolves when it is over, whoever ended it. Refuses `too_many_attempts` while another one of its owner
   * is under way. Where a piece cannot be made, the answer breaks off.
   */
  send(ctx: Context, file: LongFile): Promise<Answer>
}

/** One for the gateway. */
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
        const message = 'Another file is on its way to you. Wait until it is there.'
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
        // Whoever left knows it; otherwise the store could not be read, and what was sent must not look like all.
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

/** Whoever waits goes on alone, after what is ready now; the others wait for the next turn. */
function createTurns(): () => Promise<void> {
  let last: Promise<void> = Promise.resolve()
  return () => {
    last = last.then(() => new Promise(resolve => setImmediate(resolve)))
    return last
  }
}
