/** Wildcards (ids with a `*`): checks them and finds their models in the price catalog. */
import { fitsPattern } from '#contract'
import type { PriceCatalog } from '../catalog/price-catalog.ts'
import { type Vendor, vendorOf } from '../providers/dialects/vendors.ts'
import type { Provider } from './configuration.ts'
import type { ModelShape, TargetShape } from './file-shapes.ts'
import type { Source } from './yaml/source.ts'

/** One model of a wildcard. */
export interface ExpandedModel {
  readonly id: string
  /** The targets that have the model, with its name in place of the wildcard. */
  readonly targets: readonly TargetShape[]
  /** Each target's index in the file. */
  readonly places: readonly number[]
}

export const isWildcard = (id: string): boolean => id.includes('*')

/** The text of a name that the `*` of a pattern matches; null: the name does not match. */
export function starIn(pattern: string, name: string): string | null {
  if (!fitsPattern(pattern, name)) return null
  const star = pattern.indexOf('*')
  return name.slice(star, name.length - (pattern.length - star - 1))
}

/** Reports a wildcard that cannot work. */
export function checkWildcard(source: Source, at: string, id: string, shape: Partial<ModelShape>): void {
  const report = (place: string, message: string, suggestion: string) =>
    source.report(place, message, { rule: 'wildcard', suggestion })
  if (id.split('*').length > 2) report(at, `the id "${id}" has more than one *`, 'write one')
  for (const [index, target] of (shape.targets ?? []).entries()) {
    const { model } = target ?? {}
    if (typeof model !== 'string') continue
    const stars = model.split('*').length - 1
    if (isWildcard(id) && stars === 0) {
      report(
        `${at}/targets/${index}/model`,
        `the id "${id}" has a *, but the target's model "${model}" has none: all ids would mean one model`,
        'write model: "*"',
      )
    } else if (!isWildcard(id) && stars > 0) {
      report(
        `${at}/targets/${index}/model`,
        `the target's model "${model}" has a *, but the id "${id}" has none`,
        `write the id with a *, such as "${id}/*"`,
      )
    } else if (stars > 1) {
      report(`${at}/targets/${index}/model`, `the target's model "${model}" has more than one *`, 'write one')
    } else if (isWildcard(id) && target.base_model !== undefined) {
      report(
        `${at}/targets/${index}/base_model`,
        'base_model is one model, but a wildcard means several',
        'remove this line',
      )
    }
  }
  if (isWildcard(id) && (shape.aliases ?? []).length > 0) {
    report(`${at}/aliases`, 'an alias is one model, but a wildcard means several', 'remove this line')
  }
}

/** The models of a wildcard. Reports a wildcard without any. */
export function expand(
  source: Source,
  at: string,
  id: string,
  targets: readonly TargetShape[],
  { providers, catalog }: { readonly providers: ReadonlyMap<string, Provider>; readonly catalog: PriceCatalog },
): ExpandedModel[] {
  const found = new Map<string, { targets: TargetShape[]; places: number[] }>()
  for (const [index, target] of targets.entries()) {
    const provider = providers.get(target.provider)
    if (provider === undefined) continue
    const names = namesAt(provider, target.model, catalog)
    if (names === null) {
      source.report(`${at}/targets/${index}`, `no price list has the models of the provider "${provider.name}"`, {
        rule: 'wildcard',
        suggestion: 'write each model with its own id',
      })
      continue
    }
    if (names.length === 0) {
      source.report(
        `${at}/targets/${index}/model`,
        `no model of the provider "${provider.name}" in the price catalog fits "${target.model}"`,
        { rule: 'wildcard', suggestion: 'tollgate prices show lists the models' },
      )
    }
    for (const name of names) {
      const full = id.replace('*', () => starIn(target.model, name)!)
      if (full === '') continue
      const entry = found.get(full) ?? { targets: [], places: [] }
      found.set(full, entry)
      entry.targets.push({ ...target, model: name })
      entry.places.push(index)
    }
  }
  return [...found].map(([full, entry]) => ({ id: full, ...entry }))
}

function namesAt(provider: Provider, pattern: string, catalog: PriceCatalog): string[] | null {
  const vendor = vendorOf(provider)
  if (vendor === undefined || provider.dialect === 'demo') return null
  const ids = catalog.ids(vendor, provider.dialect)
  if (ids.length === 0) return null
  const all = vendor.name === 'bedrock' ? [...new Set([...ids, ...inArea(ids, vendor, provider, catalog)])] : ids
  return all.filter(name => fitsPattern(pattern, name))
}

/** The prefixes of Bedrock's inference profiles, by the prefix of the region's name. */
const AREAS: readonly (readonly [region: string, area: string])[] = [
  ['us-gov-', 'us-gov'],
  ['us-', 'us'],
  ['eu-', 'eu'],
  ['ap-', 'apac'],
]
/** Vendors whose models have profiles for areas. */
const WITH_PROFILES = /^(amazon|anthropic|deepseek|meta|mistral|writer)\./

/** Most Bedrock models have one name per area of regions, and price lists contain only some of these names. */
function inArea(ids: readonly string[], vendor: Vendor, provider: Provider, catalog: PriceCatalog): string[] {
  const region = /^https?:\/\/bedrock-runtime[^.]*\.([a-z0-9-]+)\./.exec(provider.baseUrl)?.[1] ?? ''
  const area = AREAS.find(([start]) => region.startsWith(start))?.[1]
  if (area === undefined) return []
  const plain = ids.map(id => id.replace(/^global\./, '')).filter(id => WITH_PROFILES.test(id))
  return [...new Set(plain)].map(id => `${area}.${id}`).filter(id => catalog.find(vendor, id)?.price != null)
}

/** Sorts wildcards that match the same model: the longest has precedence. */
export function bySpecificity(a: string, b: string): number {
  return b.length - a.length
}
