/** `catalog`: reads the operator's price list, loads the price catalog if models need it, and reports mistakes in the list. */
import { basename, dirname, resolve } from 'node:path'
import { valuesAt } from '../catalog/json-places.ts'
import type { ListProblem } from '../catalog/listed-model.ts'
import { loadPriceCatalog, type PriceCatalog } from '../catalog/price-catalog.ts'
import { readPriceList } from '../catalog/price-list.ts'
import { vendorNamed } from '../providers/dialects/vendors.ts'
import { needsCatalog } from './auto-values.ts'
import type { NamedList } from './configuration.ts'
import type { GatewayShape } from './file-shapes.ts'
import { type Reading, Source } from './yaml/source.ts'
import { reasonOf } from './yaml/substitute.ts'
import { MAX_LIST_BYTES } from './yaml/text-file.ts'

/** The price catalog of a configuration. */
export interface Prices {
  /** Null: no model needs it. */
  readonly catalog: PriceCatalog | null
  /** The list that the configuration names, readable or not. */
  readonly named: NamedList | null
  /** Mistakes in the list that concern models in use. Callers add to it. */
  readonly faults: Set<ListProblem>
  /** The list as a file with problems; null without any. */
  sourceOf(): Source | null
}

/** A price list from elsewhere than the configuration. */
export interface ReplacementList {
  /** The name of its file in problems, and its text. */
  readonly file: string
  readonly text: string
  /** Added to `accept` of the configuration. */
  readonly accept: readonly string[]
  /** Whether any price is accepted. */
  readonly anyPrice?: boolean
}

export interface PriceOptions {
  readonly today: Date
  /** If set, the catalog is loaded for handwritten prices too. */
  readonly warn?: unknown
  readonly priceList?: ReplacementList | null | undefined
}

export async function loadPrices(
  source: Source,
  { catalog, models }: Partial<Pick<GatewayShape, 'catalog' | 'models'>>,
  reading: Reading,
  { today, warn, priceList: given }: PriceOptions,
): Promise<Prices> {
  const faults = new Set<ListProblem>()
  const named = namedIn(source, catalog)
  const list = given !== undefined ? given : named && (await readNamed(source, named, catalog, reading))
  if (list === null) {
    const isNeeded = warn !== undefined || needsCatalog(models ?? {})
    return { catalog: isNeeded ? await loadPriceCatalog(null, [], today) : null, named, faults, sourceOf: () => null }
  }
  const read = readPriceList(basename(list.file), list.text)
  for (const problem of read.problems) faults.add(problem)
  const accept = [...(named?.accept ?? []), ...list.accept]
  const prices = await loadPriceCatalog(read, accept, today, list)
  // With an unreadable list every entry would be reported.
  if (read.providers.size > 0) checkAccepted(source, named?.accept ?? [], prices)
  return {
    catalog: prices,
    named,
    faults,
    sourceOf: () => listSource(list.file, list.text, faults),
  }
}

/** Reports entries of `accept` without a model in a list, usually misspelt. */
function checkAccepted(source: Source, accept: readonly string[], catalog: PriceCatalog): void {
  for (const [index, entry] of accept.entries()) {
    const slash = entry.indexOf('/')
    const [name, model] = [entry.slice(0, slash), entry.slice(slash + 1)]
    const vendor = vendorNamed(name)
    if (vendor !== undefined && catalog.find(vendor, model) !== null) continue
    const at = `/catalog/accept/${index}`
    const near = vendor === undefined ? undefined : catalog.nearest(vendor, model)
    const suggestion =
      near === undefined ? 'write VENDOR/MODEL, as in the error about the price' : `did you mean "${name}/${near}"?`
    source.report(at, `no price list has ${source.show(at, entry)}`, { rule: 'unknown-model', suggestion })
  }
}

function namedIn(source: Source, catalog: GatewayShape['catalog'] | undefined): NamedList | null {
  const file = typeof catalog === 'string' ? catalog : catalog?.file
  if (file === undefined || !source.sound('/catalog')) return null
  return {
    file: resolve(dirname(source.file), file),
    accept: typeof catalog === 'object' ? (catalog.accept ?? []) : [],
  }
}

/** Null if it cannot be read, which is reported. */
async function readNamed(
  source: Source,
  { file }: NamedList,
  catalog: GatewayShape['catalog'] | undefined,
  reading: Reading,
): Promise<ReplacementList | null> {
  const text = await reading.readFile(file, MAX_LIST_BYTES).catch((error: NodeJS.ErrnoException) => error)
  if (typeof text === 'string') return { file, text, accept: [] }
  const [at, written] = typeof catalog === 'string' ? ['/catalog', catalog] : ['/catalog/file', catalog!.file]
  source.report(at, `the price list ${written} cannot be read: ${reasonOf(text)}`, { rule: 'unreadable-file' })
  return null
}

/**
 * A price list as a file with problems; null without any. Positions are computed only for mistakes, because a list has 50,000
 * lines.
 */
export function listSource(file: string, text: string, faults: ReadonlySet<ListProblem>): Source | null {
  if (faults.size === 0) return null
  const source = new Source(file, text, true)
  const places = valuesAt(
    text,
    [...faults].map(({ path }) => path),
  )
  for (const { path, offset, message, suggestion, concealed } of faults) {
    if (concealed) source.report('', message, { rule: 'price-list', suggestion, concealed })
    else source.reportAt(offset ?? places.get(path.join('\0')) ?? 0, 'price-list', message, suggestion)
  }
  return source
}
