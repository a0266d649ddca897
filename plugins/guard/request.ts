/** The request as the provider may see it: its texts through the rules. */
import type { Chat, ChatChanges } from '#contract'
import type { Findings, Rule } from './rules.ts'
import { isArguments, mapTexts, type Step, wordsOf } from './texts.ts'

/** What people write. Tools, schemas and the like are the developer's. */
const PEOPLES = ['messages', 'prediction', 'user', 'safety_identifier', 'prompt_cache_key', 'metadata'] as const

/**
 * Puts the texts through the rules; returns what has to take their place, or null when nothing was replaced. Throws the
 * refusal of a rule that refuses.
 */
export function guardRequest(chat: Chat, rules: readonly Rule[], findings: Findings): ChatChanges | null {
  const changes: Record<string, unknown> = {}
  const guard = (text: string, path: readonly Step[]) =>
    findings.sieves(rules, wordsOf(path), isArguments(path)).all(text)
  for (const name of PEOPLES) {
    const value = chat.body[name]
    const guarded = name === 'metadata' ? mapMembers(value, guard) : mapTexts(value, guard, [name])
    if (guarded !== value) changes[name] = guarded
  }
  return Object.keys(changes).length > 0 ? changes : null
}

/** Metadata has names of the client's own: none of them says that its value is no text. */
function mapMembers(value: unknown, guard: (text: string, path: readonly Step[]) => string): unknown {
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value)
  const mapped = members.map(([name, each]) => [name, mapTexts(each, guard, ['metadata', name])] as const)
  return mapped.some(([, each], i) => each !== members[i]![1]) ? Object.fromEntries(mapped) : value
}
