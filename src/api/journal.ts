/**
 * Logs the account API: a line for each change and each refused change, with the caller. Unknown callers must not fill the log: their
 * refusals have one line a minute for each address, with the number since the previous line.
 */

import { addressGroup, type Clock, type Log } from '#contract'
import { boundedMap } from '../common/bounded.ts'
import type { About, ApiRoute, Caller } from './route.ts'

export interface Journal {
  logChange(route: ApiRoute, caller: Caller, about: About): void
  /** @param code of the refusal, or `failed` */
  logRefusal(route: ApiRoute, caller: Caller, about: About, code: string): void
}

const MINUTE_MS = 60_000
/** The maximum number of addresses in memory. Above it the least recent ones are removed, and have a line again. */
const MAX_ADDRESSES = 10_000

interface LastLine {
  readonly at: number
  /** Refusals without a line since then. */
  more: number
}

export function createJournal(log: Log, clock: Clock): Journal {
  const lastLines = boundedMap<LastLine>(MAX_ADDRESSES)

  function write({ method, path }: ApiRoute, { actor, maker, address }: Caller, about: object): void {
    const by = maker === null ? {} : { by: maker }
    log.info({ actor, ...by, address, route: `${method} ${path}`, about }, 'account api')
  }

  /** The number of refusals without a line since the last one; null: this one has no line either. */
  function turnOf(address: string): number | null {
    const subject = addressGroup(address)
    const now = clock.now()
    const last = lastLines.get(subject)
    const since = last === undefined ? Number.POSITIVE_INFINITY : now - last.at
    if (last !== undefined && since >= 0 && since < MINUTE_MS) {
      last.more++
      return null
    }
    lastLines.set(subject, { at: now, more: 0 })
    return last?.more ?? 0
  }

  return {
    logChange: write,
    logRefusal(route, caller, about, code) {
      const what = { ...about, refused: code }
      // An attempt to sign in as a person has a line each time; the limits of attempts bound their number.
      if (caller.maker !== null || about['person'] !== undefined) {
        write(route, caller, what)
        return
      }
      const more = turnOf(caller.address)
      if (more !== null) write(route, caller, more === 0 ? what : { ...what, more })
    },
  }
}
