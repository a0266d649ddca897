/** A plan: a policy whose steps have been created, in YAML order, frozen. */
import { dirname, resolve } from 'node:path'
import {
  type AnyPlugin,
  type DecidingStep,
  mistakeText,
  type StepInstance,
  type StepMiddleware,
  type StepRun,
  type TrailEntry,
} from '#contract'
import { BUILT_IN } from './builtin.ts'
import { disposeAll, disposeInTime } from './dispose.ts'
import { middlewareOf } from './middleware-of.ts'

/** The parts of a configured step that a plan needs. */
export interface PlannableStep {
  readonly id: string
  readonly plugin: AnyPlugin
  /** A Koa middleware from npm. */
  readonly foreign: boolean
  readonly settings: unknown
  readonly when: { evaluate(facts: Record<string, unknown>): boolean } | null
  readonly mode: 'enforce' | 'shadow' | 'off'
  readonly onError: 'refuse' | 'skip'
  /** Its place in the policy file. */
  readonly position?: { readonly file: string; readonly line: number; readonly column: number }
}

export interface PlannedStep extends PlannableStep {
  readonly critical: boolean
  /** Its entry in the trail for an exchange that just passed; shared by all exchanges. */
  readonly passed: TrailEntry
  /** The step as a middleware. */
  readonly handle: StepMiddleware
  /** For a step that only decides; null if it wraps, or runs in shadow, where all its actions are observed. */
  readonly decide: DecidingStep['decide'] | null
  readonly after: Required<DecidingStep>['after'] | null
  /** Whether it takes a credential of this form; null if it takes any. */
  readonly takes: Required<DecidingStep>['takes'] | null
}

export interface Plan {
  readonly name: string
  readonly steps: readonly PlannedStep[]
  /** The index of the first step that needs the request's body; the number of steps if none does. */
  readonly bodyFrom: number
  /** Whether an unsupported tool is refused in any case, so that it can be refused before credit is held. */
  readonly refusesTools: boolean
  /**
   * Releases the resources of the steps, once, when no exchange uses the plan any more. Takes at most `DISPOSE_LIMIT_MS`. Rejects with all
   * errors, and with the names of steps that did not end in time.
   */
  dispose(): Promise<void>
}

export class PlanError extends Error {
  override readonly name = 'PlanError'
  /** The id of the step. */
  readonly step: string
  /** The step's place in the policy; undefined without a file. */
  readonly position: PlannableStep['position']
  /** The message without the place in the policy. */
  readonly reason: string
  /** Resolves when the steps before it are released; rejects with their errors. */
  readonly undone: Promise<void>

  constructor(policy: string, step: PlannableStep, why: string, cause: unknown, undone: Promise<void>) {
    const reason = `the step "${step.id}" cannot be created${why}`
    super(`${placeOf(policy, step.position)}${reason}`, { cause })
    this.step = step.id
    this.position = step.position
    this.reason = reason
    this.undone = undone
    undone.catch(() => {})
  }
}

/**
 * Creates every step of a policy, except those that are off. `servicesFor` gives a step exactly the services that its plugin
 * names in `uses`.
 *
 * @param run where the steps run
 */
export function createPlan(
  name: string,
  steps: readonly PlannableStep[],
  servicesFor: (step: PlannableStep) => Readonly<Record<string, unknown>>,
  run: StepRun = 'serve',
): Plan {
  const disposers: (() => Promise<void>)[] = []
  const dispose = () => disposeAll(disposers.splice(0))
  const failed = (step: PlannableStep, why: string, cause?: unknown) => new PlanError(name, step, why, cause, dispose())
  const planned = steps.map((step): PlannedStep => {
    const critical = step.plugin.critical === true
    const passed: TrailEntry = Object.freeze({ step: step.id, ...pluginOf(step), verdict: 'passed' })
    const wraps = { ...step, critical, passed, decide: null, after: null, takes: null }
    if (step.mode === 'off') return Object.freeze({ ...wraps, handle: (_ctx, next) => next() })
    let made: StepMiddleware | StepInstance
    try {
      const folder = step.position && { folder: resolve(dirname(step.position.file)) }
      const place = { policy: name, id: step.id, mode: step.mode, run, ...folder }
      made = step.plugin.create(step.settings as never, servicesFor(step) as never, place) as
        | StepMiddleware
        | StepInstance
    } catch (cause) {
      throw failed(step, `: ${reasonOf(step, cause)}`, cause)
    }
    const handle = middlewareOf(made)
    if (handle === undefined) {
      throw failed(step, ': create() returned neither a middleware nor { handle } nor { decide }')
    }
    const instance: StepInstance = typeof made === 'function' ? { handle: made } : made
    if (instance.handle !== undefined && ('decide' in instance || 'after' in instance)) {
      throw failed(step, ': create() returned { handle } with decide or after, which would never run')
    }
    if (instance.dispose) {
      const go = instance.dispose.bind(instance)
      disposers.push(() =>
        disposeInTime(`${placeOf(name, step.position)}the step "${step.id}"`, go, step.position?.file),
      )
    }
    const takes = instance.takes?.bind(instance) ?? null
    if (instance.decide === undefined || step.mode === 'shadow') return Object.freeze({ ...wraps, handle, takes })
    const after = instance.after?.bind(instance) ?? null
    return Object.freeze({ ...wraps, handle, decide: instance.decide.bind(instance), after, takes })
  })
  const first = planned.findIndex(needsBody)
  return Object.freeze({
    name,
    steps: Object.freeze(planned),
    bodyFrom: first < 0 ? planned.length : first,
    refusesTools: refusesTools(planned),
    dispose,
  })
}

/** For the trail: names the plugin only if the step has another name. */
function pluginOf({ id, plugin: { name } }: PlannableStep): Pick<TrailEntry, 'plugin'> {
  return id === name ? {} : { plugin: name }
}

/** A middleware from npm may use the body, so it always counts. */
function needsBody({ plugin, foreign, mode, settings }: PlannedStep): boolean {
  if (mode === 'off') return false
  const needs = plugin.needsBody ?? true
  return foreign || (typeof needs === 'function' ? needs(settings as never) : needs)
}

/** The message of a built-in plugin's error is for the author of the policy; its place in the source would not help. */
function reasonOf({ plugin, position }: PlannableStep, cause: unknown): string {
  return BUILT_IN.includes(plugin) ? (cause as Error).message : mistakeText(cause, position?.file)
}

/** The beginning of an error about a step: `policies/standard.yaml:4:10: `. */
export function placeOf(policy: string, position: PlannableStep['position']): string {
  return position ? `${position.file}:${position.line}:${position.column}: ` : `policy "${policy}": `
}

/** Whether the policy has steps that select targets, and all of them have `on_dropped: refuse`. */
function refusesTools(steps: readonly PlannedStep[]): boolean {
  const words = steps
    .filter(({ plugin }) => plugin.gives?.includes('targets'))
    .map(({ settings }) => (settings as { readonly on_dropped?: unknown } | null | undefined)?.on_dropped)
  return words.length > 0 && words.every(word => word === 'refuse')
}
