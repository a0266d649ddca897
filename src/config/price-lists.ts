/** `catalog`: reads the operator's price list, loads the price catalog where models need it, and reports mistakes of the list. */
import { basename, dirname, resolve } from 'node:path'
import { valueAt } from '../catalog/json-places.ts'
import type { ListProblem } from '../catalog/listed-model.ts'
import { loadPriceCatalog, type PriceCatalog } from '../catalog/price-catalog.ts'
import { readPriceList } from '../catalog/price-list.ts'
import { needsCatalog } from './auto-values.ts'
import type { GatewayShape } from './file-shapes.ts'
import { type Reading, Source } from './yaml/source.ts'
import { reasonOf } from './yaml/substitute.ts'

/** The price catalog of a configuration. */
export interface Prices {
  /** Null: no model needs it. */
  readonly catalog: PriceCatalog | null
  /** Mistakes of the list that models meet, to be added. */
  readonly faults: Set<ListProblem>
  /** The list as a file with problems; null: there are none. */
  sourceOf(): Source | null
}

/**
 * Loads the price catalog.
 * @param always also where no model needs it, so that prices by hand can be compared
 */
export async function loadPrices(
  source: Source,
  { catalog: named, models }: Partial<Pick<GatewayShape, 'catalog' | 'models'>>,
  reading: Reading,
  today: Date,
  always: boolean,
): Promise<Prices> {
  const faults = new Set<ListProblem>()
  const isNeeded = always || needsCatalog(models ?? {})
  const none: Prices = { catalog: null, faults, sourceOf: () => null }
  const file = typeof named === 'string' ? named : named?.file
  if (file === undefined || !source.sound('/catalog')) {
    return isNeeded ? { ...none, catalog: await loadPriceCatalog(null, [], today) } : none
  }
  const path = resolve(dirname(source.file), file)
  const text = await reading.readFile(path).catch((error: NodeJS.ErrnoException) => error)
  if (typeof text !== 'string') {
    const at = typeof named === 'string' ? '/catalog' : '/catalog/file'
    source.report(at, `the price list ${file} cannot be read: ${reasonOf(text)}`, { rule: 'unreadable-file' })
    return isNeeded ? { ...none, catalog: await loadPriceCatalog(null, [], today) } : none
  }
  const list = readPriceList(basename(file), text)
  for (const problem of list.problems) faults.add(problem)
  const accept = typeof named === 'object' ? named.accept : []
  return {
    catalog: await loadPriceCatalog(list, accept, today),
    faults,
    sourceOf: () => listSource(path, text, faults),
  }
}

/** Positions are looked for only where there is a mistake: a list has 50,000 lines. */
function listSource(file: string, text: string, faults: ReadonlySet<ListProblem>): Source | null {
  if (faults.size === 0) return null
  const source = new Source(file, text, true)
  for (const { path, offset, message, suggestion } of faults) {
    source.reportAt(offset ?? valueAt(text, path), 'price-list', message, suggestion)
  }
  return source
}
