/** The compiled rules of a step, and the matches of one exchange. */
import { type Refusal, refuse, type SettingsProblem } from '#contract'
import { DETECTORS } from './detectors.ts'
import { bareReplacement } from './json-place.ts'
import { Matcher } from './matcher.ts'
import { PatternError, readPattern } from './pattern.ts'
import { Sieve, Sieves } from './sieve.ts'
import { pathText, type Step } from './texts.ts'

export type Side = 'request' | 'answer'

/** A rule as written in a policy. */
export interface RuleText {
  readonly name?: string
  readonly detect?: string
  readonly pattern?: string
  readonly ignore_case: boolean
  readonly on: Side | 'both'
  readonly action: 'redact' | 'refuse' | 'flag'
  readonly replace?: string
}

export interface Rule {
  readonly name: string
  readonly matcher: Matcher
  readonly on: RuleText['on']
  readonly action: RuleText['action']
  readonly replacement: string
}

/** Returns all problems of the rules, each with its path below `with`. */
export function problemsOf(texts: readonly RuleText[], window: number): SettingsProblem[] {
  return read(texts, window).problems
}

/** Compiles the rules. Throws an Error with the first problem. */
export function readRules(texts: readonly RuleText[], window: number): readonly Rule[] {
  const { rules, problems } = read(texts, window)
  const [first] = problems
  if (first !== undefined) throw new Error(`${first.at}: ${first.message}`)
  return rules
}

interface CompiledRules {
  readonly window: number
  readonly rules: readonly Rule[]
  readonly problems: SettingsProblem[]
}

/** Compiled rules. Compiling takes tens of milliseconds, so `create` reuses the rules that `check` compiled. */
const compiled = new WeakMap<readonly RuleText[], CompiledRules>()

function read(texts: readonly RuleText[], window: number): CompiledRules {
  let result = compiled.get(texts)
  if (result?.window !== window) compiled.set(texts, (result = compile(texts, window)))
  return result
}

function compile(texts: readonly RuleText[], window: number): CompiledRules {
  const rules: Rule[] = []
  const problems: SettingsProblem[] = []
  const names = new Set<string>()
  for (const [i, text] of texts.entries()) {
    const name = text.name ?? text.detect!
    if (names.has(name)) {
      const at = `/rules/${i}/${text.name === undefined ? 'detect' : 'name'}`
      problems.push({ at, message: `two rules have the name "${name}"; give one of them a different "name"` })
    }
    names.add(name)
    try {
      rules.push(readRule(text, name, window))
    } catch (error) {
      if (!(error instanceof PatternError)) throw error
      const at = `/rules/${i}/${text.pattern === undefined ? 'detect' : 'pattern'}`
      problems.push({ at, message: `the pattern of "${name}" ${error.message}` })
    }
  }
  return { window, rules, problems }
}

function readRule({ detect, pattern, ignore_case, on, action, replace }: RuleText, name: string, window: number): Rule {
  const detector = detect === undefined ? undefined : DETECTORS[detect]!
  const read = readPattern(detector?.pattern ?? pattern!, ignore_case)
  if (read.longest > window) {
    throw new PatternError(
      `may match ${read.longest} characters, but "window" is ${window}; raise "window" or shorten the pattern`,
    )
  }
  return { name, matcher: new Matcher(read, detector?.check), on, action, replacement: replace ?? `[${name}]` }
}

/** Returns the cost of a text of `length` characters, in characters read by one rule. Each text has a fixed cost of 16. */
export function costOf(length: number, rules: readonly Rule[]): number {
  return (length + 16) * rules.length
}

/** The most cost without a yield: about a millisecond. */
export const MAX_IN_ONE_GO = 65_536

/** The rule that refused, and the path of the text in the request; null for an answer. */
export interface RuleRefusal {
  readonly rule: string
  readonly place: readonly Step[] | null
}

/** The results of one exchange: matches by rule, and the rule that refused. */
export class Findings {
  #counts = new Map<string, number>()
  refused: RuleRefusal | null = null

  /** Returns the sieves for one text. `place`: its path in the request; null in an answer. `isJson`: the text must remain JSON. */
  sieves(rules: readonly Rule[], place: readonly Step[] | null, isJson = false): Sieves {
    return new Sieves(
      rules.map(rule => new Sieve(rule.matcher, (match, isBare) => this.#found(rule, match, place, isBare), isJson)),
    )
  }

  /** The number of matches by rule. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts
  }

  /** Adds the matches that the thread counted. */
  add(counts: ReadonlyMap<string, number>): void {
    for (const [name, count] of counts) this.#counts.set(name, (this.#counts.get(name) ?? 0) + count)
  }

  /** Records and returns the refusal of a rule. */
  refusal(refused: RuleRefusal): Refusal {
    this.refused = refused
    const { rule, place } = refused
    const param = place && pathText(place)
    const what = param === null ? 'The answer was stopped' : 'The request was refused'
    return refuse('content_filter', { message: `${what} by the rule "${rule}" of this gateway.`, param })
  }

  /** Returns a line for the trail (rules and numbers, never a match) and resets the counts. Null if there is nothing to report. */
  takeSummary(side: Side): string | null {
    const counts = [...this.#counts].map(([name, count]) => `${name} ${count}`)
    const refused = this.refused === null ? [] : [`refused by ${this.refused.rule}`]
    this.#counts = new Map()
    this.refused = null
    const parts = [...counts, ...refused]
    return parts.length > 0 ? `in the ${side}: ${parts.join(', ')}` : null
  }

  #found({ name, action, replacement }: Rule, match: string, place: readonly Step[] | null, isBare: boolean): string {
    if (action === 'refuse') throw this.refusal({ rule: name, place })
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
    if (action === 'flag') return match
    return isBare ? bareReplacement(match, replacement) : replacement
  }
}
