/** Steps of two configurations side by side: which are the same, and which look at what a log does not hold. */
import { isDeepStrictEqual } from 'node:util'
import type { Configuration, StepConfig } from '../config/configuration.ts'

/** Says of the path of a route and the id of a step that both sides have whether they mean two different things. */
export type IsChanged = (route: string, step: string) => boolean

/** Compares each route's steps with those of the route of the same path. */
export function changedSteps(one: Configuration, other: Configuration): IsChanged {
  const theirs = new Map(other.routes.map(({ path, steps }) => [path, steps.steps]))
  const changed = new Map(
    one.routes.map(({ path, steps }) => [
      path,
      new Set(
        steps.steps.flatMap(step => {
          const twin = theirs.get(path)?.find(({ id }) => id === step.id)
          return twin && !isSame(step, twin) ? [step.id] : []
        }),
      ),
    ]),
  )
  return (route, step) => changed.get(route)?.has(step) ?? false
}

function isSame(one: StepConfig, other: StepConfig): boolean {
  return isDeepStrictEqual(meaningOf(one), meaningOf(other))
}

/** A plugin of somebody's own is loaded once for each side: it is known by its name. */
function meaningOf({ plugin, settings, mode, onError, when }: StepConfig): unknown {
  return [plugin.name, settings, mode, onError, when?.source]
}

type Step = Pick<StepConfig, 'plugin' | 'settings'>

interface GuardRules {
  readonly rules?: readonly { readonly on: string; readonly action: string }[]
}

/** Whether it is a guard that looks at answers, whose words are in no log. */
export function looksAtAnswers({ plugin, settings }: Step): boolean {
  return plugin.name === 'guard' && ((settings as GuardRules).rules ?? []).some(({ on }) => on !== 'request')
}

/** Whether it comes with the gateway and makes another request of the one that came. */
export function rewritesRequests({ plugin, settings }: Step): boolean {
  const redacts = ({ on, action }: { readonly on: string; readonly action: string }) =>
    on !== 'answer' && action === 'redact'
  return plugin.name === 'prompt' || (plugin.name === 'guard' && ((settings as GuardRules).rules ?? []).some(redacts))
}
