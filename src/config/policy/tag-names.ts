/** Checks the tags that limits and budgets use against those that the steps declare. */
import { tagOf } from '#contract'
import { didYouMean } from '../yaml/problem.ts'
import type { Source } from '../yaml/source.ts'
import type { LoadedStep } from './loaded-policy.ts'

/** The tags that the steps declare; undefined if unknown. */
export function declaredTags(source: Source, steps: readonly LoadedStep[]): readonly string[] | undefined {
  const giver = steps.find(givesTags)
  return giver === undefined || !source.sound(`${giver.address}/with`) ? undefined : (namesOf(giver) ?? undefined)
}

/** Whether a request can have the tag after these steps. An external plugin may give any tag. */
export function canHaveTag(steps: readonly LoadedStep[], tag: string): boolean {
  return steps.some(step => givesTags(step) && namesOf(step)?.includes(tag) !== false)
}

/** Reports each tag of a limit or a budget that no earlier step declares: no request would have it. */
export function checkTags(source: Source, steps: readonly LoadedStep[]): void {
  for (const [i, { address, plugin, builtIn, settings, mode }] of steps.entries()) {
    if (!builtIn || mode === 'off' || !['rate-limit', 'credits'].includes(plugin.name)) continue
    const { per, budgets = [] } = Object(settings) as Partial<{ per: unknown; budgets: readonly { per: unknown }[] }>
    const declared = declaredTags(source, steps.slice(0, i))
    const named = [['/per', per] as const, ...budgets.map((each, at) => [`/budgets/${at}/per`, each?.per] as const)]
    for (const [place, text] of named) {
      const at = `${address}/with${place}`
      const tag = typeof text === 'string' && source.sound(at) ? tagOf(text) : null
      if (tag === null || declared === undefined || declared.includes(tag)) continue
      source.report(at, `no step before this one declares the tag ${JSON.stringify(tag)}`, {
        rule: 'wrong-value',
        suggestion: didYouMean(tag, declared) ?? 'declare it in the step "tags"',
      })
    }
  }
}

function givesTags({ plugin, mode }: LoadedStep): boolean {
  return mode !== 'off' && (plugin.gives?.includes('tags') ?? false)
}

function namesOf({ builtIn, settings }: LoadedStep): readonly string[] | null {
  return builtIn ? Object.keys((settings as { readonly tags: object }).tags) : null
}
