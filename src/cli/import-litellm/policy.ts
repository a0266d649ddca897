/** Builds the policy: limits of accounts and models, credit, and the order of targets. */
import { fitsPattern } from '#contract'
import { wholeOf } from '../../catalog/decimal.ts'
import { isWildcard } from '../../config/wildcards.ts'
import type { Deployment } from './deployments.ts'
import { idOf } from './fallbacks.ts'
import type { BudgetYaml } from './litellm-budgets.ts'
import type { ModelYaml } from './models.ts'
import type { Fields, TextValue } from './read.ts'
import type { Remarks } from './remarks.ts'

export interface PolicyParts {
  readonly groups: ReadonlyMap<string, readonly Deployment[]>
  /** With the targets of their fallbacks. */
  readonly models: ReadonlyMap<string, ModelYaml>
  readonly router: Fields | null
  readonly settings: Fields | null
  /** `default_key_generate_params`. */
  readonly defaults: Fields | null
  /** LiteLLM rejects unsupported parameters unless `drop_params` is set. */
  readonly dropsParams: boolean
  readonly budgets: readonly BudgetYaml[]
  readonly remarks: Remarks
}

type Step = Readonly<Record<string, unknown>>

export function policyOf(parts: PolicyParts): { steps: Step[] } {
  const { requests, tokens } = accountLimits(parts)
  const { budgets } = parts
  return {
    steps: [
      { use: 'api-key' },
      ...requests,
      { use: 'schema' },
      ...tokens,
      ...modelLimits(parts),
      {
        use: 'credits',
        with: { when_short: ['clamp_output', 'refuse'], ...(budgets.length === 0 ? {} : { budgets }) },
      },
      routeStep(parts),
    ],
  }
}

/** LiteLLM limits each key. Here, account owners can create keys, so a limit per key would have no effect on an account. */
function accountLimits({ defaults, remarks }: PolicyParts): { readonly requests: Step[]; readonly tokens: Step[] } {
  const [rpm, tpm] = ['rpm_limit', 'tpm_limit'].map(key => defaults?.text(key) ?? null) as [
    TextValue | null,
    TextValue | null,
  ]
  const [requests, tokens] = [rate('requests', rpm, remarks), rate('tokens', tpm, remarks)].map(rates =>
    Object.keys(rates).map((kind): Step => ({ use: 'rate-limit', id: kind, with: { per: 'account', ...rates } })),
  ) as [Step[], Step[]]
  if (requests.length + tokens.length === 0) return { requests, tokens }
  remarks.add(
    'changed',
    (rpm ?? tpm)!,
    'the limit of a key becomes one of an account, for all of its keys',
    'write per: key at the step rate-limit for keys',
  )
  return { requests, tokens }
}

function rate(kind: 'requests' | 'tokens', value: TextValue | null, remarks: Remarks): Record<string, string> {
  const amount = value && wholeOf(value.text)
  if (value && !amount) remarks.wrongNumber(value, 'it is not a whole number from 1')
  return amount && amount > 0 ? { [kind]: `${amount} per minute` } : {}
}

/** One step for each pair of limits: with `per: model`, each of its models has its own bucket. */
function modelLimits({ groups, models, remarks }: PolicyParts): Step[] {
  const steps = new Map<string, { ids: string[]; rates: Record<string, string> }>()
  for (const [name, group] of groups) {
    const id = idOf(name)
    if (id === null || !models.has(id)) continue
    const rates: Record<string, string> = {}
    for (const [key, kind] of [
      ['rpm', 'requests'],
      ['tpm', 'tokens'],
    ] as const) {
      const limits = group.flatMap(each => (each[key] === null ? [] : [each[key]]))
      if (limits.length === group.length) rates[kind] = `${limits.reduce((a, b) => a + b)} per minute`
      else if (limits.length > 0)
        remarks.add(
          'lost',
          group[0]!.params,
          'not every deployment has rpm or tpm: the model has no limit',
          'write max_inflight of the targets',
          `${id}: ${key}`,
        )
    }
    if (Object.keys(rates).length === 0) continue
    remarks.add(
      'changed',
      group[0]!.params,
      'rpm and tpm of deployments become one limit of the model: above it, clients are refused',
      'write max_inflight of the targets, so that other targets take over',
      id,
    )
    const mark = JSON.stringify(rates)
    const step = steps.get(mark) ?? { ids: [], rates }
    step.ids.push(id)
    steps.set(mark, step)
  }
  return [...steps.values()].map(({ ids, rates }, index) => ({
    use: 'rate-limit',
    id: `models-${index + 1}`,
    ...whenOf(ids, [...models.keys()]),
    with: { per: 'model', ...rates },
  }))
}

/** The condition of a step for these models; empty for all models. */
function whenOf(ids: readonly string[], all: readonly string[]): { readonly when?: string } {
  const own = ids.filter(id => !isWildcard(id))
  const others = all.filter(id => !ids.includes(id))
  const wildcards = ids.filter(isWildcard).map(id => ofWildcard(id, others))
  if (wildcards.some(terms => terms.length === 0)) return {}
  const terms = wildcards.map(each => each.join(' && '))
  const when = own.length === 0 ? terms : [isOne(own), ...terms]
  return { when: when.length === 1 ? when[0]! : when.map(each => `(${each})`).join(' || ') }
}

const isOne = (ids: readonly string[]): string =>
  ids.length === 1 ? `model.id == ${JSON.stringify(ids[0])}` : `model.id in ${JSON.stringify(ids)}`

/** Terms that are all true for a model of the wildcard, but not for one with its own row or with a longer wildcard. */
function ofWildcard(id: string, all: readonly string[]): string[] {
  const others = all.filter(each => !isWildcard(each) && fitsPattern(id, each))
  const longer = all.filter(each => isWildcard(each) && each.length > id.length && areNested(id, each))
  return [
    ...fits(id),
    ...(others.length === 0 ? [] : [`!(${isOne(others)})`]),
    ...longer.map(each => `!(${fits(each).join(' && ')})`),
  ]
}

function fits(id: string): string[] {
  const [before, after] = id.split('*') as [string, string]
  return [
    ...(before === '' ? [] : [`model.id.startsWith(${JSON.stringify(before)})`]),
    ...(after === '' ? [] : [`model.id.endsWith(${JSON.stringify(after)})`]),
  ]
}

/** Whether a name can match both wildcards. */
function areNested(a: string, b: string): boolean {
  const [[before, after], [start, end]] = [a.split('*'), b.split('*')] as [[string, string], [string, string]]
  const areStarts = before.startsWith(start) || start.startsWith(before)
  return areStarts && (after.endsWith(end) || end.endsWith(after))
}

const STRATEGIES: Readonly<Record<string, string | null>> = {
  'simple-shuffle': null,
  'latency-based-routing': 'latency',
}

function routeStep(parts: PolicyParts): Step {
  const { router, dropsParams, remarks } = parts
  const strategy = router?.text('routing_strategy') ?? null
  if (strategy && !Object.hasOwn(STRATEGIES, strategy.text)) {
    remarks.add(
      'lost',
      strategy,
      'the routing strategy is not supported: targets are chosen by their weights',
      'order: latency, or listed, at the step route',
      strategy.text,
    )
  }
  const order = strategy ? STRATEGIES[strategy.text] : null
  const attempts = attemptsOf(parts)
  const settingsOfStep = {
    ...(order ? { order } : {}),
    ...(attempts === null ? {} : { attempts }),
    on_dropped: dropsParams ? 'tell' : 'refuse',
  }
  return { use: 'route', with: settingsOfStep }
}

/** The default and the maximum of `attempts` at the step `route`. */
const STANDARD_ATTEMPTS = 3
const MAX_ATTEMPTS = 10

/**
 * LiteLLM retries within each model and then uses its fallbacks. Here, attempts count across all targets, so there are at
 * least as many as the longest chain has targets.
 */
function attemptsOf({ models, router, settings, remarks }: PolicyParts): number | null {
  const [first, second] = [router, settings].map(fields => fields?.text('num_retries') ?? null)
  if (first && second) remarks.add('changed', second, 'the same setting of router_settings has precedence')
  const retries = first ?? second ?? null
  const count = retries && wholeOf(retries.text)
  if (retries && count === null) remarks.wrongNumber(retries, 'it is not a whole number')
  const [longest, length] = longestOf(models)
  const wanted = Math.max(count === null ? STANDARD_ATTEMPTS : count + 1, length)
  const attempts = Math.min(MAX_ATTEMPTS, wanted)
  if (retries && count !== null) {
    const message = 'attempts count across all targets of a model, including its fallbacks'
    const most = wanted > MAX_ATTEMPTS ? ', the maximum' : wanted === count + 1 ? '' : `, the targets of ${longest}`
    remarks.add('changed', retries, message, 'attempts: of the step route', `attempts: ${attempts}${most}`)
  }
  const at = router ?? settings
  if (length > MAX_ATTEMPTS && at)
    remarks.add(
      'changed',
      at,
      `a request has ${MAX_ATTEMPTS} attempts at most`,
      'remove targets',
      `${longest}: ${length}`,
    )
  return count === null && attempts === STANDARD_ATTEMPTS ? null : attempts
}

function longestOf(models: ReadonlyMap<string, ModelYaml>): [id: string, targets: number] {
  let longest: [string, number] = ['', 0]
  for (const [id, { targets }] of models) if (targets.length > longest[1]) longest = [id, targets.length]
  return longest
}
