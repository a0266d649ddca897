/** The request as the provider may see it: its texts through the rules. */
import type { Chat, ChatChanges, Sliced } from '#contract'
import { costOf, type Findings, MAX_IN_ONE_GO, type Rule } from './rules.ts'
import { isArguments, mapTexts, type Step } from './texts.ts'

/** The parts that people write. Tools and schemas are the developer's. */
const PEOPLES = ['messages', 'prediction', 'user', 'safety_identifier', 'prompt_cache_key', 'metadata'] as const

/** A text of a request and its place. */
export interface Place {
  readonly text: string
  readonly path: readonly Step[]
}

/** The texts of a request that rules look at, in their order. */
export function textsOf(chat: Chat): Place[] {
  const texts: Place[] = []
  changesOf(chat, (text, path) => {
    texts.push({ text, path })
    return text
  })
  return texts
}

/** The replacements of a request's texts, in their order; null for a text that stays. Null if all stay. */
export type Guarded = readonly (string | null)[] | null

/**
 * Puts texts through the rules. Throws the refusal of a rule that refuses. Yields between parts of a long text, and between
 * texts when there are many.
 */
export function* guardTexts(texts: readonly Place[], rules: readonly Rule[], findings: Findings): Sliced<Guarded> {
  const guarded: (string | null)[] = []
  let hasChanged = false
  let sinceYield = 0
  for (const { text, path } of texts) {
    const cost = costOf(text.length, rules)
    if ((sinceYield += cost) > MAX_IN_ONE_GO) {
      yield
      sinceYield = cost
    }
    const sieves = findings.sieves(rules, path, isArguments(path))
    const out = cost <= MAX_IN_ONE_GO ? sieves.all(text) : (yield* sieves.pushInSlices(text)) + sieves.end()
    hasChanged ||= sieves.hasChanged
    guarded.push(sieves.hasChanged ? out : null)
  }
  return hasChanged ? guarded : null
}

/** The request's members with these texts in place of `textsOf(chat)`. */
export function changesWith(chat: Chat, guarded: readonly (string | null)[]): ChatChanges {
  let at = 0
  return changesOf(chat, text => guarded[at++] ?? text)
}

/** The members with texts that change, changed. */
function changesOf({ body }: Chat, change: (text: string, path: readonly Step[]) => string): ChatChanges {
  const changes: Record<string, unknown> = {}
  for (const name of PEOPLES) {
    const value = body[name]
    const changed = name === 'metadata' ? mapMembers(value, change) : mapTexts(value, change, [name])
    if (changed !== value) changes[name] = changed
  }
  return changes
}

/** The client chooses the names of metadata, so that any of its values can be a text. */
function mapMembers(value: unknown, change: (text: string, path: readonly Step[]) => string): unknown {
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value)
  const mapped = members.map(([name, each]) => [name, mapTexts(each, change, ['metadata', name])] as const)
  return mapped.some(([, each], i) => each !== members[i]![1]) ? Object.fromEntries(mapped) : value
}
