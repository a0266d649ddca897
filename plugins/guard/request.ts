/** Applies the rules to the texts of a request. */
import type { Chat, ChatChanges, Sliced } from '#contract'
import { costOf, type Findings, MAX_IN_ONE_GO, type Rule } from './rules.ts'
import { isArguments, mapTexts, type Step } from './texts.ts'

/** Members that people write. Tools, schemas and the like are written by developers. */
const MEMBERS = ['messages', 'prediction', 'user', 'safety_identifier', 'prompt_cache_key', 'metadata'] as const

export interface PlacedText {
  readonly text: string
  readonly path: readonly Step[]
}

/** Returns the texts of a request that rules search, in their order. */
export function textsOf(chat: Chat): PlacedText[] {
  const texts: PlacedText[] = []
  changesOf(chat, (text, path) => {
    texts.push({ text, path })
    return text
  })
  return texts
}

/** The new texts of a request, in their order; null for an unchanged text. Null if no text changed. */
export type NewTexts = readonly (string | null)[] | null

/**
 * Applies the rules to texts. Throws the refusal of a rule that refuses. Yields between parts of a long text, and between
 * texts if there are many.
 */
export function* guardTexts(
  texts: readonly PlacedText[],
  rules: readonly Rule[],
  findings: Findings,
): Sliced<NewTexts> {
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

/** Returns the members of the request with these texts in place of `textsOf(chat)`. */
export function changesWith(chat: Chat, guarded: readonly (string | null)[]): ChatChanges {
  let at = 0
  return changesOf(chat, text => guarded[at++] ?? text)
}

/** Returns the members with changed texts. */
function changesOf({ body }: Chat, change: (text: string, path: readonly Step[]) => string): ChatChanges {
  const changes: Record<string, unknown> = {}
  for (const name of MEMBERS) {
    const value = body[name]
    const changed = name === 'metadata' ? mapMembers(value, change) : mapTexts(value, change, [name])
    if (changed !== value) changes[name] = changed
  }
  return changes
}

/** The client chooses the names of metadata, so each of its values may be text, whatever its name. */
function mapMembers(value: unknown, change: (text: string, path: readonly Step[]) => string): unknown {
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value)
  const mapped = members.map(([name, each]) => [name, mapTexts(each, change, ['metadata', name])] as const)
  return mapped.some(([, each], i) => each !== members[i]![1]) ? Object.fromEntries(mapped) : value
}
