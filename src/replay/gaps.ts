/** The limits of a replay: a sentence for each, if this log and this configuration are affected. */
import type { Configuration, PolicyConfig } from '../config/configuration.ts'
import { didYouMean } from '../config/yaml/problem.ts'
import { BUILT_IN } from '../loader/builtin.ts'
import { runsDry } from '../simulate/steps.ts'
import { looksAtAnswers, rewritesRequests } from './differ.ts'
import type { BalanceOf } from './ledger.ts'
import type { LogLine } from './line.ts'
import { wasSent } from './provider.ts'

/** Something that a replay cannot determine. */
export interface Gap {
  readonly about: string
  readonly sentence: string
}

/** Counts of the lines of a log and of data they lack. */
export class LogCounts {
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
  /** Lines of exchanges that had, or could have had, an answer. */
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

/** Information besides the log. */
export interface ReplayInput {
  readonly against: Configuration | null
  readonly hasBalances: boolean
  readonly balanceOf: BalanceOf
  readonly balancesFor: readonly string[] | null
}

export function gapsOf(configuration: Configuration, counts: LogCounts, input: ReplayInput): Gap[] {
  const { against } = input
  const isAlone = against === null
  const steps = reachedSteps(configuration, counts)
  const both = [...steps, ...(against ? reachedSteps(against, counts) : [])]
  const onAnswers = both.filter(looksAtAnswers)
  const using = (name: string) => steps.filter(({ plugin }) => plugin.name === name)
  const gaps: (Gap | false)[] = [
    ...ownGaps(steps),
    using('jwt').length > 0 && {
      about: 'jwt',
      sentence: 'Tokens are not in a log: clients admitted then are admitted now, as the same account.',
    },
    counts.withoutBody > 0 &&
      using('guard').length > 0 && {
        about: 'guard',
        sentence: `${of(counts.withoutBody, counts)} have no text: the recorded verdicts of a guard are used, also in shadow. If it checks both sides, they count as verdicts on the request. Lines without its verdict are not compared.`,
      },
    counts.sent > 0 &&
      onAnswers.length > 0 && {
        about: 'answers',
        sentence: `Their text is in no log: the recorded verdicts of ${names(onAnswers)} are used if the step is the same; otherwise its verdicts are not known.`,
      },
    ...rewriteGaps(steps, counts, isAlone),
    counts.withoutBody > 0 &&
      using('cache').length > 0 && {
        about: 'cache',
        sentence: `${of(counts.withoutBody, counts)} have no text: equal digests count as the same question, and lines without a digest never match.`,
      },
    counts.translated > 0 && {
      about: 'messages, responses',
      sentence: `${of(counts.translated, counts)} are of another format and have no text: the size of their translation is used.`,
    },
    counts.refusedForBody > 0 && {
      about: 'schema',
      sentence: `${of(counts.refusedForBody, counts)} were refused because of their bodies, which were not kept: they are refused again.`,
    },
    counts.withoutAddress > 0 &&
      steps.some(isAboutAddress) && {
        about: 'addresses',
        sentence: `${of(counts.withoutAddress, counts)} have no address: each key counts as one address.`,
      },
    steps.some(({ when }) => when?.source.includes('header(')) && {
      about: 'headers',
      sentence:
        counts.withoutHeaders > 0
          ? `${of(counts.withoutHeaders, counts)} have no headers: a condition on header() gets an empty text.`
          : 'A condition on header() gets the headers that are in the log, and an empty text for others.',
    },
    ...creditGaps(counts, input),
    isAlone &&
      using('rate-limit').length > 0 && {
        about: 'rate-limit',
        sentence: 'Its buckets are full at the first line, but may not have been then. This does not affect --against.',
      },
  ]
  return gaps.filter(gap => gap !== false)
}

/** Steps of plugins that are not built in. */
function ownGaps(steps: readonly Step[]): (Gap | false)[] {
  const own = steps.filter(({ plugin, foreign }) => foreign || !BUILT_IN.includes(plugin))
  const [ran, notRun] = [own.filter(runsDry), own.filter(step => !runsDry(step) && !step.plugin.records)]
  return [
    ran.length > 0 && {
      about: 'plugins of your own',
      sentence: `${names(ran)} ran unchanged (dryRun: true): their requests to other services were made now.`,
    },
    notRun.length > 0 && {
      about: 'not run',
      sentence: `${names(notRun)}: their recorded verdicts are used. Lines without a verdict of them are not compared. A plugin with dryRun: true runs.`,
    },
  ]
}

function creditGaps(counts: LogCounts, input: ReplayInput): (Gap | false)[] {
  const { hasBalances } = input
  return [
    !hasBalances &&
      counts.charged > 0 && {
        about: 'credit',
        sentence: `No balances were given: every account has enough${counts.shortOfCredit > 0 ? `, except for ${of(counts.shortOfCredit, counts)} that were short of it` : ''}. Use --balance or --balances.`,
      },
    hasBalances &&
      counts.charged > 0 && {
        about: 'credit',
        sentence: 'Credit that was added to accounts in the meantime is not in a log.',
      },
    ...balanceGaps(counts, input),
    counts.atKeysCap > 0 && {
      about: "keys' spending caps",
      sentence: `${of(counts.atKeysCap, counts)} had reached theirs, and reach it again. Other keys have none here.`,
    },
    counts.overBudget > 0 && {
      about: 'budgets of accounts and keys',
      sentence: `${of(counts.overBudget, counts)} had exhausted a budget. A replay has the budgets of plans and policies, from the first line on. Budgets of accounts and keys themselves are not in a log.`,
    },
  ]
}

type Step = PolicyConfig['steps'][number]

function reachedSteps({ routes }: Configuration, counts: LogCounts): Step[] {
  const reached = routes.filter(({ path }) => counts.routes.has(path))
  return [...new Set(reached.map(({ steps }) => steps))].flatMap(policy =>
    policy.steps.filter(({ mode }) => mode !== 'off'),
  )
}

function rewriteGaps(steps: readonly Step[], counts: LogCounts, isAlone: boolean): Gap[] {
  const rewriting = steps.filter(rewritesRequests)
  if (rewriting.length === 0 || counts.sent === 0) return []
  if (isAlone) {
    const sentence = `A log does not show whether ${names(rewriting)} rewrote the requests then: the recorded prompt lengths are used. --against computes the difference.`
    return [{ about: 'prompts', sentence }]
  }
  const asking = rewriting.filter(({ settings }) => {
    const { only_if_missing, position } = settings as { only_if_missing?: boolean; position?: string }
    return only_if_missing === true || position === 'replace'
  })
  if (asking.length === 0 || counts.withoutBody === 0) return []
  const sentence = `${of(counts.withoutBody, counts)} have no text: for ${names(asking)} they have no instructions of their own.`
  return [{ about: 'prompts', sentence }]
}

const MAX_NAMES = 5

/** Accounts with a balance but no line, and with a line but no balance, because names are easily mistyped. */
function balanceGaps({ accounts }: LogCounts, { balancesFor, balanceOf }: ReplayInput): Gap[] {
  if (balancesFor === null) return []
  const [given, ids, theirs] = [new Set(balancesFor), new Set(accounts.keys()), new Set(accounts.values())]
  const strangers = [...given].filter(each => !ids.has(each) && !theirs.has(each))
  const without = [...accounts].filter(([id, name]) => !given.has(id) && !given.has(name))
  const gaps: Gap[] = []
  if (strangers.length > 0) {
    const near = strangers.length === 1 ? didYouMean(strangers[0]!, [...theirs, ...ids]) : null
    const sentence = `${some(strangers)} in --balances ${are(strangers)} in no line that was taken${near ? `; ${near}` : '.'}`
    gaps.push({ about: 'balances', sentence })
  }
  if (without.length > 0) {
    const [[id, name]] = without as [[string, string]]
    const has = balanceOf({ id, name }) === null ? 'enough' : 'the amount of --balance'
    const sentence = `${some(without.map(([id, name]) => name || id))} of the log ${are(without)} not in --balances: the balance is ${has}.`
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

function of(some: number, { lines }: LogCounts): string {
  return some === lines ? 'all lines' : `${some} of ${lines} lines`
}
