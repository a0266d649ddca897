/**
 * The account API in the log: a line for every change and for every one that was refused, with who asked for what. Strangers
 * can ask without end, and must not fill the log: of what they were refused there is one line a minute for each address,
 * which says how many there were since the line before.
 */

import { addressGroup, type Clock, type Log } from '#contract'
import { boundedMap } from '../common/bounded.ts'
import type { About, ApiRoute, Caller } from './route.ts'

export interface Journal {
  made(route: ApiRoute, caller: Caller, about: About): void
  /** @param code With which it was refused, or `failed`. */
  refused(route: ApiRoute, caller: Caller, about: About, code: string): void
}

const MINUTE_MS = 60_000
/** Beyond so many addresses the ones that asked longest ago are forgotten, and have a line again. */
const MAX_ADDRESSES = 10_000

interface Told {
  readonly at: number
  /** Refusals without a line since then. */
  more: number
}

export function createJournal(log: Log, clock: Clock): Journal {
  const told = boundedMap<Told>(MAX_ADDRESSES)

  function write({ method, path }: ApiRoute, { actor, maker, address }: Caller, about: object): void {
    const by = maker === null ? {} : { by: maker }
    log.info({ actor, ...by, address, route: `${method} ${path}`, about }, 'account api')
  }

  /** How many had no line since the last one; null when this one has none either. */
  function turnOf(address: string): number | null {
    const subject = addressGroup(address)
    const now = clock.now()
    const last = told.get(subject)
    const since = last === undefined ? Number.POSITIVE_INFINITY : now - last.at
    if (last !== undefined && since >= 0 && since < MINUTE_MS) {
      last.more++
      return null
    }
    told.set(subject, { at: now, more: 0 })
    return last?.more ?? 0
  }

  return {
    made: write,
    refused(route, caller, about, code) {
      const what = { ...about, refused: code }
      // Whom somebody tries to be is worth a line each time; the limits on tries bound those.
      if (caller.maker !== null || about['person'] !== undefined) {
        write(route, caller, what)
        return
      }
      const more = turnOf(caller.address)
      if (more !== null) write(route, caller, more === 0 ? what : { ...what, more })
    },
  }
}
