/** Compares the steps of two configurations, and finds steps that need data that is not in a log. */
import { isDeepStrictEqual } from 'node:util'
import type { Configuration, StepConfig } from '../config/configuration.ts'

/**
 * A step compared with the one of the same route and id in another configuration. `same`; `words`: same plugin and settings, but
 * another mode, condition or `onError`; `other`; `alone`: the other configuration does not have it.
 */
export type Likeness = 'same' | 'words' | 'other' | 'alone'

/** Returns the likeness for the path of a route and the id of a step. */
export type LikenessOf = (route: string, step: string) => Likeness

/** Compares each route's steps with those of the route with the same path. */
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

/** Plugins are compared by name, because a plugin outside the gateway is loaded once for each configuration. */
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

/** Whether it is a guard that checks answers, whose text is in no log. */
export function looksAtAnswers({ plugin, settings }: Step): boolean {
  return plugin.name === 'guard' && ((settings as GuardRules).rules ?? []).some(({ on }) => on !== 'request')
}

/** Whether it is a guard that checks requests. */
export function looksAtRequests({ plugin, settings }: Step): boolean {
  return plugin.name === 'guard' && ((settings as GuardRules).rules ?? []).some(({ on }) => on !== 'answer')
}

/** Whether it is a built-in step that rewrites requests. */
export function rewritesRequests({ plugin, settings }: Step): boolean {
  const redacts = ({ on, action }: { readonly on: string; readonly action: string }) =>
    on !== 'answer' && action === 'redact'
  return plugin.name === 'prompt' || (plugin.name === 'guard' && ((settings as GuardRules).rules ?? []).some(redacts))
}
