/** The request as the provider may see it: its texts through the rules. */
import type { Chat, ChatChanges, Sliced } from '#contract'
import { costOf, type Findings, MOST_IN_ONE_GO, type Rule } from './rules.ts'
import { isArguments, mapTexts, type Step } from './texts.ts'

/** What people write. Tools, schemas and the like are the developer's. */
const PEOPLES = ['messages', 'prediction', 'user', 'safety_identifier', 'prompt_cache_key', 'metadata'] as const

/**
 * Puts the texts through the rules; returns what has to take their place, or null when nothing was replaced. Throws the
 * refusal of a rule that refuses. Yields between parts of a long text, and between texts when there are many.
 */
export function* guardRequest(chat: Chat, rules: readonly Rule[], findings: Findings): Sliced<ChatChanges | null> {
  const texts: { readonly text: string; readonly path: readonly Step[] }[] = []
  changesOf(chat, (text, path) => {
    texts.push({ text, path })
    return text
  })
  const guarded: string[] = []
  let hasChanged = false
  let sinceYield = 0
  for (const { text, path } of texts) {
    const cost = costOf(text.length, rules)
    if ((sinceYield += cost) > MOST_IN_ONE_GO) {
      yield
      sinceYield = cost
    }
    const sieves = findings.sieves(rules, path, isArguments(path))
    const out = cost <= MOST_IN_ONE_GO ? sieves.all(text) : (yield* sieves.pushInSlices(text)) + sieves.end()
    hasChanged ||= sieves.hasChanged
    guarded.push(sieves.hasChanged ? out : text)
  }
  if (!hasChanged) return null
  let at = 0
  return changesOf(chat, () => guarded[at++]!)
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

/** Metadata has names of the client's own: none of them says that its value is no text. */
function mapMembers(value: unknown, change: (text: string, path: readonly Step[]) => string): unknown {
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value)
  const mapped = members.map(([name, each]) => [name, mapTexts(each, change, ['metadata', name])] as const)
  return mapped.some(([, each], i) => each !== members[i]![1]) ? Object.fromEntries(mapped) : value
}
