/** The rules of a step, made ready at load: each a matcher with its name and what to do. */
import { type Refusal, refuse, type SettingsProblem } from '#contract'
import { DETECTORS } from './detectors.ts'
import { bareReplacement } from './json-place.ts'
import { Matcher } from './matcher.ts'
import { PatternError, readPattern } from './pattern.ts'
import { Sieve, Sieves } from './sieve.ts'
import { type Step, wordsOf } from './texts.ts'

/** Where a rule looks. */
export type Side = 'request' | 'answer'

/** A rule as a policy says it. */
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

/** All problems of the rules, each with its place below `with`. */
export function complaintsAbout(texts: readonly RuleText[], window: number): SettingsProblem[] {
  return read(texts, window).complaints
}

/** Reads the rules. Throws an Error that says which of them is wrong, and why. */
export function readRules(texts: readonly RuleText[], window: number): readonly Rule[] {
  const { rules, complaints } = read(texts, window)
  const [first] = complaints
  if (first !== undefined) throw new Error(`${first.at}: ${first.message}`)
  return rules
}

interface Read {
  readonly window: number
  readonly rules: readonly Rule[]
  readonly complaints: SettingsProblem[]
}

/** Reading patterns takes tens of milliseconds: those that were looked at are not read once more for the step. */
const known = new WeakMap<readonly RuleText[], Read>()

function read(texts: readonly RuleText[], window: number): Read {
  let found = known.get(texts)
  if (found?.window !== window) known.set(texts, (found = readAnew(texts, window)))
  return found
}

function readAnew(texts: readonly RuleText[], window: number): Read {
  const rules: Rule[] = []
  const complaints: SettingsProblem[] = []
  const names = new Set<string>()
  for (const [i, text] of texts.entries()) {
    const name = text.name ?? text.detect!
    if (names.has(name)) {
      const at = `/rules/${i}/${text.name === undefined ? 'detect' : 'name'}`
      complaints.push({ at, message: `there are two rules of the name "${name}"; give one another "name"` })
    }
    names.add(name)
    try {
      rules.push(readRule(text, name, window))
    } catch (error) {
      if (!(error instanceof PatternError)) throw error
      const at = `/rules/${i}/${text.pattern === undefined ? 'detect' : 'pattern'}`
      complaints.push({ at, message: `the pattern of "${name}" ${error.message}` })
    }
  }
  return { window, rules, complaints }
}

function readRule({ detect, pattern, ignore_case, on, action, replace }: RuleText, name: string, window: number): Rule {
  const detector = detect === undefined ? undefined : DETECTORS[detect]!
  const read = readPattern(detector?.pattern ?? pattern!, ignore_case)
  if (read.longest > window) {
    throw new PatternError(
      `may match ${read.longest} characters, and the window has ${window}; raise "window", or bound it`,
    )
  }
  return { name, matcher: new Matcher(read, detector?.check), on, action, replacement: replace ?? `[${name}]` }
}

/** The cost of a text of so many characters, in characters read by one rule, with a fixed part for each text. */
export function costOf(length: number, rules: readonly Rule[]): number {
  return (length + 16) * rules.length
}

/** So much is read in one go: about a millisecond. */
export const MAX_IN_ONE_GO = 65_536

/** A rule that has refused, and the place of the text: in the request, or null for an answer. */
export interface Refused {
  readonly rule: string
  readonly place: readonly Step[] | null
}

/** The findings of one exchange: the number of matches of each rule, and the rule that has refused. */
export class Findings {
  #counts = new Map<string, number>()
  /** The rule that has refused, if one has. */
  refused: Refused | null = null

  /** The rules of one side for one text. `place`: its place in the request; null in an answer. `isJson`: it is JSON and must stay valid. */
  sieves(rules: readonly Rule[], place: readonly Step[] | null, isJson = false): Sieves {
    return new Sieves(
      rules.map(rule => new Sieve(rule.matcher, (match, isBare) => this.#found(rule, match, place, isBare), isJson)),
    )
  }

  /** How often each rule has found something. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts
  }

  /** Adds what was found elsewhere. */
  add(counts: ReadonlyMap<string, number>): void {
    for (const [name, count] of counts) this.#counts.set(name, (this.#counts.get(name) ?? 0) + count)
  }

  /** The refusal by a rule that refuses. */
  refusal(refused: Refused): Refusal {
    this.refused = refused
    const { rule, place } = refused
    const param = place && wordsOf(place)
    const what = param === null ? 'The answer was stopped' : 'The request was refused'
    return refuse('content_filter', { message: `${what} by the rule "${rule}" of this gateway.`, param })
  }

  /** For the trail: rules and counts, never the matched text. Resets the counts; null if there are none. */
  report(side: Side): string | null {
    const counts = [...this.#counts].map(([name, count]) => `${name} ${count}`)
    const refused = this.refused === null ? [] : [`refused by ${this.refused.rule}`]
    this.#counts = new Map()
    this.refused = null
    const said = [...counts, ...refused]
    return said.length > 0 ? `in the ${side}: ${said.join(', ')}` : null
  }

  #found({ name, action, replacement }: Rule, match: string, place: readonly Step[] | null, isBare: boolean): string {
    if (action === 'refuse') throw this.refusal({ rule: name, place })
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
    if (action === 'flag') return match
    return isBare ? bareReplacement(match, replacement) : replacement
  }
}
