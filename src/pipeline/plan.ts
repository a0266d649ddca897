/** A policy made ready to run: its steps created once, in YAML order, frozen. */
import type { AnyPlugin, StepInstance, StepMiddleware } from '#contract'

/** What a plan needs to know of a configured step. */
export interface PlannableStep {
  readonly id: string
  readonly plugin: AnyPlugin
  /** A Koa middleware from npm. */
  readonly foreign: boolean
  readonly settings: unknown
  readonly when: { evaluate(facts: Record<string, unknown>): boolean } | null
  readonly mode: 'enforce' | 'shadow' | 'off'
  readonly onError: 'refuse' | 'skip'
  /** Where the policy says it. */
  readonly position?: { readonly file: string; readonly line: number; readonly column: number }
}

export interface PlannedStep extends PlannableStep {
  readonly critical: boolean
  readonly handle: StepMiddleware
}

export interface Plan {
  readonly name: string
  readonly steps: readonly PlannedStep[]
  /** Lets go of what the steps hold; once, when no exchange uses the plan any more. */
  dispose(): Promise<void>
}

/** A plugin's `create` threw: the policy cannot run. */
export class PlanError extends Error {
  override readonly name = 'PlanError'
}

/**
 * Creates every step of a policy. `servicesFor` gives a step exactly the services that its plugin names in `uses`.
 * Steps that are off are not created.
 */
export function createPlan(
  name: string,
  steps: readonly PlannableStep[],
  servicesFor: (step: PlannableStep) => Readonly<Record<string, unknown>>,
): Plan {
  const disposers: (() => void | Promise<void>)[] = []
  const planned = steps.map((step): PlannedStep => {
    const critical = step.plugin.critical === true
    if (step.mode === 'off') return Object.freeze({ ...step, critical, handle: (_ctx, next) => next() })
    let made: StepMiddleware | StepInstance
    try {
      const place = { policy: name, id: step.id }
      made = step.plugin.create(step.settings as never, servicesFor(step) as never, place) as
        | StepMiddleware
        | StepInstance
    } catch (cause) {
      throw new PlanError(`${placeOf(name, step)}: ${(cause as Error).message}`, { cause })
    }
    const handle = typeof made === 'function' ? made : made?.handle
    if (typeof handle !== 'function') {
      throw new PlanError(`${placeOf(name, step)}: create() returned neither a middleware nor { handle }`)
    }
    if (typeof made !== 'function' && made.dispose) disposers.push(made.dispose.bind(made))
    return Object.freeze({ ...step, critical, handle })
  })
  return Object.freeze({
    name,
    steps: Object.freeze(planned),
    async dispose() {
      for (const dispose of disposers.splice(0)) await dispose()
    },
  })
}

/** For errors: `policies/standard.yaml:4:10: the step "volume" cannot be created`. */
function placeOf(policy: string, { id, position }: PlannableStep): string {
  const where = position ? `${position.file}:${position.line}:${position.column}: ` : `policy "${policy}": `
  return `${where}the step "${id}" cannot be created`
}
