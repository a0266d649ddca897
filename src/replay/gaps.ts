/** What a replay cannot know: each with a sentence, and only where this log and this configuration meet it. */
import type { Configuration } from '../config/configuration.ts'
import { BUILT_IN } from '../pipeline/builtin.ts'
import type { LogLine } from './line.ts'

/** Something that is not known. */
export interface Gap {
  readonly about: string
  readonly sentence: string
}

/** What the lines hold and lack. */
export class Seen {
  lines = 0
  withoutBody = 0
  withoutAddress = 0
  withoutHeaders = 0
  translated = 0
  refusedForBody = 0
  shortOfCredit = 0
  charged = 0
  atKeysCap = 0
  readonly routes = new Set<string>()

  add({ route, request, address, headers, kind, code, charged }: LogLine): void {
    this.lines++
    this.routes.add(route)
    const hasWords = request.body === undefined && request.bytes > 0
    if (hasWords) this.withoutBody++
    if (hasWords && (kind === 'messages' || kind === 'responses')) this.translated++
    if (hasWords && code !== null && /^(unknown_parameter|invalid_|unsupported_parameter|missing_req)/.test(code)) {
      this.refusedForBody++
    }
    if (address === null) this.withoutAddress++
    if (headers === null) this.withoutHeaders++
    if (charged > 0n) this.charged++
    if (code === 'insufficient_quota' || code === 'credit_on_hold') this.shortOfCredit++
    if (code === 'spending_cap_reached') this.atKeysCap++
  }
}

export function gapsOf(
  { routes }: Configuration,
  seen: Seen,
  { isAlone, hasBalances }: { readonly isAlone: boolean; readonly hasBalances: boolean },
): Gap[] {
  const reached = routes.filter(({ path }) => seen.routes.has(path))
  const steps = [...new Set(reached.map(({ steps }) => steps))].flatMap(policy =>
    policy.steps.filter(({ mode }) => mode !== 'off'),
  )
  const using = (name: string) => steps.filter(({ plugin }) => plugin.name === name)
  const own = steps.filter(({ plugin, foreign }) => foreign || !BUILT_IN.includes(plugin))
  const gaps: (Gap | false)[] = [
    own.length > 0 && {
      about: 'plugins of your own',
      sentence: `${names(own)} ran as they are: what they ask of others they have asked now.`,
    },
    using('jwt').length > 0 && {
      about: 'jwt',
      sentence: 'Tokens are not in a log: who was let in then is let in now, as the same account.',
    },
    seen.withoutBody > 0 &&
      using('guard').length > 0 && {
        about: 'guard',
        sentence: `${of(seen.withoutBody, seen)} have no words: what a guard has said of them then stands.`,
      },
    seen.withoutBody > 0 &&
      using('cache').length > 0 && {
        about: 'cache',
        sentence: `${of(seen.withoutBody, seen)} have no words: they are the same question when their digests are, and none without.`,
      },
    seen.translated > 0 && {
      about: 'messages, responses',
      sentence: `${of(seen.translated, seen)} are of another format and have no words: the size of their translation is taken for theirs.`,
    },
    seen.refusedForBody > 0 && {
      about: 'schema',
      sentence: `${of(seen.refusedForBody, seen)} were refused for what stood in their bodies, which was not kept: they are again.`,
    },
    seen.withoutAddress > 0 &&
      steps.some(isAboutAddress) && {
        about: 'addresses',
        sentence: `${of(seen.withoutAddress, seen)} have no address: each key counts as one address.`,
      },
    steps.some(({ when }) => when?.source.includes('header(')) && {
      about: 'headers',
      sentence:
        seen.withoutHeaders > 0
          ? `${of(seen.withoutHeaders, seen)} have no headers: a condition on header() sees an empty text.`
          : 'A condition on header() sees the headers that are in the log, and of others an empty text.',
    },
    !hasBalances &&
      seen.charged > 0 && {
        about: 'credit',
        sentence: `No balances were given: every account has enough${seen.shortOfCredit > 0 ? `, but for ${of(seen.shortOfCredit, seen)} that were short of it` : ''}. Say --balance or --balances.`,
      },
    hasBalances &&
      seen.charged > 0 && { about: 'credit', sentence: 'What was added to accounts on the way is not in a log.' },
    seen.atKeysCap > 0 && {
      about: "keys' spending caps",
      sentence: `${of(seen.atKeysCap, seen)} had reached theirs: they have again. No other key has one here.`,
    },
    isAlone &&
      using('rate-limit').length > 0 && {
        about: 'rate-limit',
        sentence:
          'Its buckets are full at the first line, which they may not have been. --against is not touched by that.',
      },
  ]
  return gaps.filter(gap => gap !== false)
}

interface Step {
  readonly id: string
  readonly settings: unknown
  readonly when: { readonly source: string } | null
}

function isAboutAddress({ settings, when }: Step): boolean {
  return (
    (settings as { per?: unknown } | null)?.per === 'address' || (when?.source.includes('request.address') ?? false)
  )
}

function names(steps: readonly Step[]): string {
  return [...new Set(steps.map(({ id }) => `"${id}"`))].join(', ')
}

function of(some: number, { lines }: Seen): string {
  return some === lines ? 'all lines' : `${some} of ${lines} lines`
}
