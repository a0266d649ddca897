/** Filters and sorts the list of models: one wildcard can match hundreds. */
import type { ModelView, OperatorModelView } from '../../api/views.ts'
import { nano } from './format.ts'
import { hasNoPrice } from './price-lines.ts'

/** A model, and for operators also its costs. */
export interface ModelRow {
  readonly id: string
  readonly model: ModelView
  readonly costs: OperatorModelView | null
}

/** The search, the group and the order of a list. Empty text: all models, in the gateway's order. */
export interface ListQuery {
  readonly search: string
  /** A wildcard, or `OTHERS`. */
  readonly group: string
  readonly sort: string
}

/** The group of models without a wildcard. */
export const OTHERS = 'others'

/** The rows of the API's answer, for members or operators. */
export function rowsOf(items: readonly (ModelView | OperatorModelView)[]): ModelRow[] {
  return items.map(item =>
    'model' in item ? { id: item.id, model: item.model, costs: item } : { id: item.id, model: item, costs: null },
  )
}

/** Each wildcard with its number of models; empty without wildcards. */
export function groupsOf(rows: readonly ModelRow[]): (readonly [group: string, models: number])[] {
  const groups = new Map<string, number>()
  for (const { model } of rows) groups.set(groupOf(model), (groups.get(groupOf(model)) ?? 0) + 1)
  return [...groups.keys()].every(group => group === OTHERS) ? [] : [...groups]
}

const groupOf = ({ wildcard }: ModelView): string => wildcard ?? OTHERS

type Order = (a: ModelRow, b: ModelRow) => number
const byMoney =
  (of: (model: ModelView) => string | undefined): Order =>
  (a, b) => {
    const [one, other] = [nano(of(a.model) ?? '0'), nano(of(b.model) ?? '0')]
    return one < other ? -1 : one > other ? 1 : 0
  }
/** The smaller of both margins. A missing price sorts before any loss, an unknown cost after any gain. */
const leastMargin = ({ costs }: ModelRow): number => {
  if (costs === null) return Number.MAX_VALUE
  const of = (unit: 'input' | 'output') =>
    hasNoPrice(costs, unit) ? -Number.MAX_VALUE : (costs.margin[unit] ?? Number.MAX_VALUE)
  return Math.min(of('input'), of('output'))
}

/** The orders of a list. */
export const SORTS: Readonly<Record<string, { readonly label: string; readonly order: Order }>> = {
  name: { label: 'Name', order: (a, b) => a.id.localeCompare(b.id) },
  input: { label: 'Input price', order: byMoney(({ price }) => price?.input) },
  output: { label: 'Output price', order: byMoney(({ price }) => price?.output) },
  context: { label: 'Longest context', order: (a, b) => b.model.context - a.model.context },
  margin: { label: 'Smallest margin', order: (a, b) => leastMargin(a) - leastMargin(b) },
}

/** The matching models, in the chosen order. */
export function filterModels(rows: readonly ModelRow[], { search, group, sort }: ListQuery): readonly ModelRow[] {
  const words = search.toLowerCase().split(/\s+/)
  const found = rows.filter(({ model }) => {
    if (group !== '' && groupOf(model) !== group) return false
    const { id, aliases, description, owned_by } = model
    const text = [id, ...aliases, description ?? '', owned_by].join('\n').toLowerCase()
    return words.every(word => text.includes(word))
  })
  const order = Object.hasOwn(SORTS, sort) ? SORTS[sort]!.order : null
  return order === null ? found : found.sort(order)
}
