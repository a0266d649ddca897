/** Steps of two configurations side by side: which are the same, and which look at what a log does not hold. */
import { isDeepStrictEqual } from 'node:util'
import type { Configuration, StepConfig } from '../config/configuration.ts'

/**
 * What a step is beside the one of the same route and id in another configuration: `same`; `words`: the same plugin and
 * settings with another mode, condition or `on_error`; `other`; `alone`: there is none to compare with.
 */
export type Likeness = 'same' | 'words' | 'other' | 'alone'

/** Says it of the path of a route and the id of a step. */
export type LikenessOf = (route: string, step: string) => Likeness

/** Compares each route's steps with those of the route of the same path. */
export function likenessOf(one: Configuration, other: Configuration | null): LikenessOf {
  const theirs = new Map(other?.routes.map(({ path, steps }) => [path, steps.steps]))
  const known = new Map(
    one.routes.map(({ path, steps }) => [
      path,
      new Map(
        steps.steps.map(step => {
          const twin = theirs.get(path)?.find(({ id }) => id === step.id)
          return [step.id, twin ? likenessTo(step, twin) : 'alone']
        }),
      ),
    ]),
  )
  return (route, step) => known.get(route)?.get(step) ?? 'alone'
}

/** A plugin of somebody's own is loaded once for each side: it is known by its name. */
function likenessTo(one: StepConfig, other: StepConfig): Likeness {
  if (one.plugin.name !== other.plugin.name || !isDeepStrictEqual(one.settings, other.settings)) return 'other'
  return isDeepStrictEqual(placeOf(one), placeOf(other)) ? 'same' : 'words'
}

function placeOf({ mode, onError, when }: StepConfig): unknown {
  return [mode, onError, when?.source]
}

type Step = Pick<StepConfig, 'plugin' | 'settings'>

interface GuardRules {
  readonly rules?: readonly { readonly on: string; readonly action: string }[]
}

/** Whether it is a guard that looks at answers, whose words are in no log. */
export function looksAtAnswers({ plugin, settings }: Step): boolean {
  return plugin.name === 'guard' && ((settings as GuardRules).rules ?? []).some(({ on }) => on !== 'request')
}

/** Whether it is a guard that looks at requests. */
export function looksAtRequests({ plugin, settings }: Step): boolean {
  return plugin.name === 'guard' && ((settings as GuardRules).rules ?? []).some(({ on }) => on !== 'answer')
}

/** Whether it comes with the gateway and makes another request of the one that came. */
export function rewritesRequests({ plugin, settings }: Step): boolean {
  const redacts = ({ on, action }: { readonly on: string; readonly action: string }) =>
    on !== 'answer' && action === 'redact'
  return plugin.name === 'prompt' || (plugin.name === 'guard' && ((settings as GuardRules).rules ?? []).some(redacts))
}
