/** The values of `auto`: a model's prices, sizes and deprecation, from the price catalog. */
import type { Price } from '#contract'
import { dearest } from '../catalog/dearest.ts'
import type { ListProblem } from '../catalog/listed-model.ts'
import type { CatalogModel, PriceCatalog, WithSource } from '../catalog/price-catalog.ts'
import { vendorOf } from '../providers/dialects/vendors.ts'
import type { ModelOrigin, Provider } from './configuration.ts'
import type { ModelShape, TargetShape } from './file-shapes.ts'
import { priceFrom } from './prices.ts'
import { isWildcard } from './wildcards.ts'
import type { Source } from './yaml/source.ts'

/** The values of a model, in place of each `auto`. */
export interface ModelValues {
  readonly price: Price | null
  /** By target; null: unknown. */
  readonly costs: readonly (Price | null)[]
  readonly context: number
  readonly maxOutput: number
  readonly reasoning: boolean
  readonly deprecation: { readonly date: string | null; readonly successor: string | null } | null
  readonly origin: ModelOrigin
}

/** Whether a configuration needs the price catalog. */
export function needsCatalog(models: Readonly<Record<string, Partial<ModelShape> | null>>): boolean {
  return Object.entries(models).some(
    ([id, shape]) =>
      isWildcard(id) ||
      [shape?.price, shape?.context, shape?.max_output, shape?.reasoning].includes('auto') ||
      (Array.isArray(shape?.targets) && shape.targets.some(target => target?.cost === 'auto')),
  )
}

export interface AutoParts {
  readonly source: Source
  readonly providers: ReadonlyMap<string, Provider>
  /** Null: the configuration does not need it. */
  readonly catalog: PriceCatalog | null
  /** Mistakes in the operator's price list that concern models in use. */
  readonly faults: Set<ListProblem>
}

/**
 * The values of a model without problems. A value that the catalog lacks is reported; the result must not be used then.
 * @param at the model's JSON pointer in the file
 * @param places each target's index in the file
 */
export function valuesOf(
  at: string,
  shape: ModelShape,
  targets: readonly TargetShape[],
  places: readonly number[],
  parts: AutoParts,
): ModelValues {
  const isAuto = shape.price === 'auto'
  const wants = { context: shape.context ?? 'auto', maxOutput: shape.max_output ?? 'auto' }
  const reasoning = shape.reasoning ?? (isAuto ? 'auto' : false)
  const needed = isAuto || wants.context === 'auto' || wants.maxOutput === 'auto' || reasoning === 'auto'
  const costs = targets.map(({ cost }) => (cost === undefined ? (isAuto ? 'auto' : undefined) : cost))
  const rows = targets.map((target, index) => {
    const isWritten = costs[index] !== undefined && costs[index] !== 'auto'
    if (!needed && costs[index] !== 'auto') return null
    // A target with a cost of its own may be unknown to the catalog.
    return findIn(`${at}/targets/${places[index]}`, target, parts, { mayMiss: isWritten, wantsPrice: !isWritten })
  })
  const built = costs.map((cost, index): Price | null => {
    if (cost === undefined) return null
    return cost === 'auto' ? requestable(rows[index]?.price ?? null, shape) : (priceFrom(cost) ?? [])
  })
  const known = rows.flatMap(model => (model === null ? [] : [model]))
  const least = (of: (model: CatalogModel) => WithSource<number>): WithSource<number> =>
    known.map(of).toSorted((a, b) => a.value - b.value)[0] ?? { value: 1, source: 'default' }
  const context = wants.context === 'auto' ? least(model => model.context) : written(wants.context)
  const maxOutput = wants.maxOutput === 'auto' ? least(model => model.maxOutput) : written(wants.maxOutput)
  const reasons =
    reasoning === 'auto'
      ? (known.find(model => model.reasoning.value)?.reasoning ??
        known[0]?.reasoning ?? { value: false, source: 'default' })
      : { value: reasoning, source: shape.reasoning === undefined ? 'default' : 'gateway.yaml' }
  for (const [key, size] of [
    ['context', wants.context],
    ['max_output', wants.maxOutput],
  ] as const) {
    if (size !== 'auto' || known.length > 0 || !parts.source.sound(at)) continue
    parts.source.report(at, `no price list has the ${key} of a target of this model`, {
      rule: 'unknown-model',
      suggestion: `write ${key}`,
    })
  }
  const price =
    shape.price === 'auto' ? dearest(built.flatMap(cost => (cost === null ? [] : [cost]))) : priceFrom(shape.price)
  return {
    price,
    costs: built,
    context: context.value,
    maxOutput: Math.min(maxOutput.value, context.value),
    reasoning: reasons.value,
    deprecation: deprecationOf(shape, isAuto ? known : []),
    origin: {
      price: isAuto ? (known[0] ?? null) : null,
      context: context.source,
      maxOutput: maxOutput.source,
      reasoning: reasons.source,
      targets: rows,
    },
  }
}

const written = <T>(value: T): WithSource<T> => ({ value, source: 'gateway.yaml' })

function deprecationOf(shape: ModelShape, known: readonly CatalogModel[]): ModelValues['deprecation'] {
  // A model is deprecated when all of its targets are; the latest date counts.
  const ends = known.map(({ deprecation }) => deprecation)
  const isListed = ends.length > 0 && !ends.includes(null)
  const listed = isListed ? ends.toSorted((a, b) => (b!.date ?? '').localeCompare(a!.date ?? ''))[0]! : null
  if (!shape.deprecation) return listed
  return {
    date: shape.deprecation.date ?? listed?.date ?? null,
    successor: shape.deprecation.successor ?? listed?.successor ?? null,
  }
}

/** Removes service tiers that clients cannot request: they would only make holds larger. */
function requestable(price: Price | null, { allow }: ModelShape): Price | null {
  return price === null || allow.includes('service_tier') ? price : price.filter(({ tier }) => tier === undefined)
}

interface LookupOptions {
  readonly mayMiss: boolean
  readonly wantsPrice: boolean
}

function findIn(at: string, target: TargetShape, parts: AutoParts, wanted: LookupOptions): CatalogModel | null {
  const { source, providers, catalog, faults } = parts
  const provider = providers.get(target.provider)
  if (provider === undefined || catalog === null) return null
  const name = target.base_model ?? target.model
  const place = `${at}/${target.base_model === undefined ? 'model' : 'base_model'}`
  const report = (message: string, suggestion?: string) =>
    source.report(place, message, { rule: 'unknown-model', ...(suggestion === undefined ? {} : { suggestion }) })
  const vendor = vendorOf(provider)
  const model = vendor === undefined ? null : catalog.find(vendor, name)
  if (model === null) {
    if (wanted.mayMiss) return null
    if (vendor === undefined) {
      report(
        `no price list has the provider "${provider.name}"`,
        provider.dialect === 'demo'
          ? 'write the price'
          : 'write the price, or the profile of the provider whose models these are',
      )
    } else {
      const near = catalog.nearest(vendor, name)
      const suggestion =
        near === undefined ? 'write its price, or add a list with "catalog: FILE"' : `did you mean "${near}"?`
      report(`no price list has the model ${source.show(place, name)} of ${vendor.title}`, suggestion)
    }
    return null
  }
  if (model.problems.length > 0) {
    for (const problem of model.problems) faults.add(problem)
    source.markUnusable(place)
    return null
  }
  if (model.price === null && wanted.wantsPrice) {
    report(`no price list has a price for tokens of the model ${source.show(place, name)}`, 'write its price')
    return null
  }
  return model
}
