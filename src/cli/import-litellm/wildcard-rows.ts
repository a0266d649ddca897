/** Finds the models of the price catalog for rows with a wildcard, such as `openai/*`. */
import { fitsPattern } from '#contract'
import { bySpecificity, isWildcard, starIn } from '../../config/wildcards.ts'
import type { DialectName } from '../../providers/dialects/dialect-names.ts'
import type { Deployment } from './deployments.ts'
import { type ModelParts, vendorOfProvider } from './known-prices.ts'
import type { Value } from './read.ts'

type Groups = ReadonlyMap<string, readonly Deployment[]>
type Parts = Pick<ModelParts, 'catalog' | 'providers'>

/** Whether a name has exactly one `*`. */
export const hasStar = (name: string): boolean => name.split('*').length === 2

/** The models of a deployment's provider in the catalog; null: the vendor is not in the catalog. */
export function idsAt({ provider: at }: Deployment, { catalog, providers }: Parts): readonly string[] | null {
  const provider = providers.get(at) as { dialect: DialectName }
  const vendor = vendorOfProvider(provider)
  const ids = vendor ? catalog.ids(vendor, provider.dialect) : []
  return ids.length === 0 ? null : ids
}

/** The deployments of a model that a wildcard serves, as if each had its own row; empty if no wildcard serves it. */
export function deploymentsOfWildcard(name: string, groups: Groups, parts: Parts): Deployment[] {
  const patterns = [...groups.keys()].filter(id => hasStar(id) && fitsPattern(id, name)).toSorted(bySpecificity)
  for (const pattern of patterns) {
    const star = starIn(pattern, name)!
    const filled = (text: string) => text.replace('*', () => star)
    const served = groups.get(pattern)!.flatMap(each => {
      const own = { ...each, group: name, name: filled(each.name), model: filled(each.model) }
      return hasStar(each.name) && idsAt(each, parts)?.includes(own.name) ? [own] : []
    })
    if (served.length > 0) return served
  }
  return []
}

/** Adds a group for each named model that a wildcard serves, because fallbacks and aliases need single models. */
export function withModelsNamed(names: readonly string[], groups: Groups, parts: ModelParts): Groups {
  const all = new Map(groups)
  for (const name of names) {
    const found = isWildcard(name) || groups.has(name) ? [] : deploymentsOfWildcard(name, groups, parts)
    if (found.length === 0) continue
    all.set(name, found)
    const message = 'a wildcard model in fallbacks or aliases gets its own entry'
    parts.remarks.add('changed', found[0]!.params, message, null, name)
  }
  return all
}

/** All texts and keys in a value. */
export function textsIn(value: Value | null | undefined): string[] {
  if (!value) return []
  if (value.kind === 'text') return [value.text]
  if (value.kind === 'list') return value.items.flatMap(textsIn)
  return value.keys().flatMap(key => [key, ...textsIn(value.peek(key))])
}
