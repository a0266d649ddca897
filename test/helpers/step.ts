/**
 * Runs steps without a gateway. Settings are checked and parsed as from YAML, the context
 * is Koa's own, the exchange and the runner are the real ones. What would be sent upstream is the test's `next`.
 */
import type { Context } from 'koa'
import { type AnyPlugin, type Facts, isRefusal, type Refusal, type RouteView, type Services } from '#contract'
import { createPlans } from '../../src/config/plan-catalog.ts'
import { compileSchema } from '../../src/config/yaml/ajv.ts'
import { createPlan } from '../../src/loader/plan.ts'
import { parseJson } from '../../src/providers/dialects/json-parse.ts'
import type { Exchange } from '../../src/request/exchange.ts'
import type { StepReport } from '../../src/request/pipeline/step-report.ts'
import { Contexts } from '../../src/simulate/context.ts'
import { SimulatedExchange } from '../../src/simulate/exchange.ts'

/** A step as in a policy. */
export interface StepText {
  readonly use: AnyPlugin
  readonly with?: Readonly<Record<string, unknown>>
  readonly id?: string
}

/** A request as it reaches the steps. */
export interface StepRequest {
  /** Names and values in turn, as in `rawHeaders`. */
  readonly headers?: readonly (readonly [name: string, value: string])[]
  readonly body?: unknown
  readonly bytes?: Buffer
  readonly address?: string
  readonly route?: Partial<RouteView>
  /** The facts of earlier steps. */
  readonly facts?: Partial<Facts>
  readonly next?: (exchange: Exchange) => void | Promise<void>
}

export interface StepResult {
  readonly exchange: Exchange
  readonly ctx: Context
  /** The error for the client; null when every step let the request pass. */
  readonly refusal: Refusal | null
  /** Whether the request passed the last step. */
  readonly passed: boolean
  /** The mistakes of steps, as in the log. */
  readonly reports: readonly StepReport[]
}

/** Creates the steps once; the result runs requests through them. Throws when settings do not fit their schema. */
export function createSteps(
  steps: readonly StepText[],
  services: Partial<Services> = {},
): (request?: StepRequest) => Promise<StepResult> {
  const plan = createPlan(
    'test',
    steps.map(step => ({
      id: step.id ?? step.use.name,
      plugin: step.use,
      foreign: false,
      settings: readSettings(step.use, step.with ?? {}),
      when: null,
      mode: 'enforce',
      onError: 'refuse',
    })),
    step => Object.fromEntries((step.plugin.uses ?? []).map(name => [name, service(services, name)])),
  )
  let count = 0
  return async (request = {}) => {
    const route: RouteView = {
      path: '/v1/chat/completions',
      kind: 'chat',
      policy: 'test',
      price: null,
      ...request.route,
    }
    const ctx = contextOf(request.headers ?? [], route.path)
    const reports: StepReport[] = []
    let passed = false
    const exchange = new SimulatedExchange({
      id: `req_test_${++count}`,
      route,
      plan,
      ...(request.address === undefined ? {} : { address: request.address }),
      ctx,
      bytes: request.bytes ?? Buffer.from(request.body === undefined ? '' : JSON.stringify(request.body)),
      parse: parseJson,
      facts: () => ({}),
      async send(exchange) {
        passed = true
        await request.next?.(exchange)
        return null
      },
      answer: () => Promise.reject(new Error('this test has nothing to answer with')),
    })
    for (const [name, value] of Object.entries(request.facts ?? {})) {
      Object.defineProperty(exchange, name, { value, writable: true })
    }
    const error = await exchange.play({ reportStep: report => void reports.push(report), stepGraceMs: 1000 })
    if (error !== null && !isRefusal(error)) throw error
    return { exchange, ctx, refusal: error, passed, reports }
  }
}

/** Settings as `create` gets them: checked, units parsed, defaults filled in. */
export function readSettings(plugin: AnyPlugin, settings: Readonly<Record<string, unknown>>): unknown {
  const validate = compileSchema(plugin.settings)
  const read = structuredClone(settings)
  if (validate(read)) return read
  throw new Error(
    `${plugin.name}: ${validate.errors?.map(error => `${error.instancePath} ${error.message}`).join('; ')}`,
  )
}

function service(services: Partial<Services>, name: keyof Services): unknown {
  if (name === 'plans') return services.plans ?? createPlans({ plans: null })
  if (services[name] === undefined) throw new Error(`this test has no service "${name}"`)
  return services[name]
}

const contexts = new Contexts()

function contextOf(sent: NonNullable<StepRequest['headers']>, path: string): Context {
  const headers: Record<string, string> = {}
  // Of two headers with one name, Node keeps the first, as it does for Authorization.
  for (const [name, value] of sent) headers[name.toLowerCase()] ??= value
  return contexts.koa({ method: 'POST', path, headers, rawHeaders: sent.flat() })
}
