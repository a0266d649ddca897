/** What a replay cannot know: each with a sentence, and only where this log and this configuration meet it. */
import type { Configuration, PolicyConfig } from '../config/configuration.ts'
import { didYouMean } from '../config/yaml/problem.ts'
import { BUILT_IN } from '../loader/builtin.ts'
import { runsDry } from '../simulate/steps.ts'
import { looksAtAnswers, rewritesRequests } from './differ.ts'
import type { BalanceOf } from './ledger.ts'
import type { LogLine } from './line.ts'
import { wasSent } from './provider.ts'

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
  overBudget = 0
  /** Lines of exchanges that came so far that there was, or could have been, an answer. */
  sent = 0
  readonly routes = new Set<string>()
  /** Names by id. */
  readonly accounts = new Map<string, string>()

  add(line: LogLine): void {
    const { route, request, address, headers, kind, code, charged, who } = line
    this.lines++
    this.routes.add(route)
    if (who !== null && !this.accounts.has(who.account.id)) this.accounts.set(who.account.id, who.account.name)
    if (wasSent(line)) this.sent++
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
    if (code === 'budget_exhausted') this.overBudget++
  }
}

/** What a replay was told beside the log. */
export interface Told {
  readonly against: Configuration | null
  readonly hasBalances: boolean
  readonly balanceOf: BalanceOf
  readonly balancesFor: readonly string[] | null
}

export function gapsOf(configuration: Configuration, seen: Seen, told: Told): Gap[] {
  const { against } = told
  const isAlone = against === null
  const steps = reachedSteps(configuration, seen)
  const both = [...steps, ...(against ? reachedSteps(against, seen) : [])]
  const onAnswers = both.filter(looksAtAnswers)
  const using = (name: string) => steps.filter(({ plugin }) => plugin.name === name)
  const gaps: (Gap | false)[] = [
    ...ownGaps(steps),
    using('jwt').length > 0 && {
      about: 'jwt',
      sentence: 'Tokens are not in a log: who was let in then is let in now, as the same account.',
    },
    seen.withoutBody > 0 &&
      using('guard').length > 0 && {
        about: 'guard',
        sentence: `${of(seen.withoutBody, seen)} have no words: what a guard has said of them then stands, in shadow too, of requests where it looks at both sides. Lines of which it has said nothing are not compared.`,
      },
    seen.sent > 0 &&
      onAnswers.length > 0 && {
        about: 'answers',
        sentence: `Their words are in no log: what ${names(onAnswers)} has said of them stands where it is the same step, and what it would say otherwise is not known.`,
      },
    ...rewriteGaps(steps, seen, isAlone),
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
    ...creditGaps(seen, told),
    isAlone &&
      using('rate-limit').length > 0 && {
        about: 'rate-limit',
        sentence:
          'Its buckets are full at the first line, which they may not have been. --against is not touched by that.',
      },
  ]
  return gaps.filter(gap => gap !== false)
}

/** Steps that do not come with the gateway. */
function ownGaps(steps: readonly Step[]): (Gap | false)[] {
  const own = steps.filter(({ plugin, foreign }) => foreign || !BUILT_IN.includes(plugin))
  const [ran, notRun] = [own.filter(runsDry), own.filter(step => !runsDry(step) && !step.plugin.records)]
  return [
    ran.length > 0 && {
      about: 'plugins of your own',
      sentence: `${names(ran)} ran as they are (dryRun: true): what they ask of others they have asked now.`,
    },
    notRun.length > 0 && {
      about: 'not run',
      sentence: `${names(notRun)}: what the log has of them stands. Lines of which they said nothing are not compared. A plugin that says dryRun: true runs.`,
    },
  ]
}

function creditGaps(seen: Seen, told: Told): (Gap | false)[] {
  const { hasBalances } = told
  return [
    !hasBalances &&
      seen.charged > 0 && {
        about: 'credit',
        sentence: `No balances were given: every account has enough${seen.shortOfCredit > 0 ? `, but for ${of(seen.shortOfCredit, seen)} that were short of it` : ''}. Say --balance or --balances.`,
      },
    hasBalances &&
      seen.charged > 0 && { about: 'credit', sentence: 'What was added to accounts on the way is not in a log.' },
    ...balanceGaps(seen, told),
    seen.atKeysCap > 0 && {
      about: "keys' spending caps",
      sentence: `${of(seen.atKeysCap, seen)} had reached theirs: they have again. No other key has one here.`,
    },
    seen.overBudget > 0 && {
      about: 'budgets of accounts and keys',
      sentence: `${of(seen.overBudget, seen)} had exhausted a budget. A replay has those of plans and policies, from the first line on; those that accounts and keys have themselves are not in a log.`,
    },
  ]
}

type Step = PolicyConfig['steps'][number]

/** Those that the lines came to. */
function reachedSteps({ routes }: Configuration, seen: Seen): Step[] {
  const reached = routes.filter(({ path }) => seen.routes.has(path))
  return [...new Set(reached.map(({ steps }) => steps))].flatMap(policy =>
    policy.steps.filter(({ mode }) => mode !== 'off'),
  )
}

function rewriteGaps(steps: readonly Step[], seen: Seen, isAlone: boolean): Gap[] {
  const rewriting = steps.filter(rewritesRequests)
  if (rewriting.length === 0 || seen.sent === 0) return []
  if (isAlone) {
    const sentence = `Whether ${names(rewriting)} rewrote the requests then, too, is not in a log: prompts are taken to be as long as they were. --against knows the difference.`
    return [{ about: 'prompts', sentence }]
  }
  const asking = rewriting.filter(({ settings }) => {
    const { only_if_missing, position } = settings as { only_if_missing?: boolean; position?: string }
    return only_if_missing === true || position === 'replace'
  })
  if (asking.length === 0 || seen.withoutBody === 0) return []
  const sentence = `${of(seen.withoutBody, seen)} have no words: for ${names(asking)} they bring no instructions of their own.`
  return [{ about: 'prompts', sentence }]
}

const MAX_NAMES = 5

/** Who has a balance and no line, and who has a line and no balance: names are easily mistyped. */
function balanceGaps({ accounts }: Seen, { balancesFor, balanceOf }: Told): Gap[] {
  if (balancesFor === null) return []
  const [said, ids, theirs] = [new Set(balancesFor), new Set(accounts.keys()), new Set(accounts.values())]
  const strangers = [...said].filter(each => !ids.has(each) && !theirs.has(each))
  const without = [...accounts].filter(([id, name]) => !said.has(id) && !said.has(name))
  const gaps: Gap[] = []
  if (strangers.length > 0) {
    const near = strangers.length === 1 ? didYouMean(strangers[0]!, [...theirs, ...ids]) : null
    const sentence = `${some(strangers)} in --balances ${are(strangers)} in no line that was taken${near ? `; ${near}` : '.'}`
    gaps.push({ about: 'balances', sentence })
  }
  if (without.length > 0) {
    const [[id, name]] = without as [[string, string]]
    const has = balanceOf({ id, name }) === null ? 'enough' : 'what --balance says'
    const sentence = `${some(without.map(([id, name]) => name || id))} of the log ${are(without)} not in --balances: there is ${has}.`
    gaps.push({ about: 'balances', sentence })
  }
  return gaps
}

function some(list: readonly string[]): string {
  const shown = list.slice(0, MAX_NAMES).map(each => JSON.stringify(each))
  return list.length > shown.length ? `${shown.join(', ')} and ${list.length - shown.length} more` : shown.join(', ')
}

function are(list: readonly unknown[]): string {
  return list.length === 1 ? 'is' : 'are'
}

function isAboutAddress({ settings, when }: Pick<Step, 'settings' | 'when'>): boolean {
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
