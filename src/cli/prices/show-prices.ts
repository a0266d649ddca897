/** `tollgate prices show`: shows prices of the configuration's models, or of any model in a price list. */

import { existsSync } from 'node:fs'
import { fitsPattern } from '#contract'
import { loadPriceCatalog, type PriceCatalog } from '../../catalog/price-catalog.ts'
import { didYouMean } from '../../config/yaml/problem.ts'
import { VENDORS, type Vendor, vendorNamed } from '../../providers/dialects/vendors.ts'
import { pathOf } from '../commands.ts'
import { problemText } from '../configuration.ts'
import { json, table } from '../format.ts'
import { loadWithStandIns } from '../simulated.ts'
import { CommandError, type ExitCode, type Terminal } from '../terminal.ts'
import { priceDetails, priceTable } from './price-text.ts'
import { catalogModel, modelJson, modelsOf, type PricedModel } from './price-view.ts'

export interface ShowOptions {
  readonly config: string
  /** Whether the command line names the configuration, which must then exist. */
  readonly isNamed: boolean
  readonly json: boolean
  readonly today: Date
}

interface PriceSources {
  readonly models: readonly PricedModel[]
  readonly catalog: PriceCatalog
}

/**
 * Prints prices.
 * @param name a model of the configuration or its alias, such ids with a `*`, VENDOR/MODEL, or VENDOR; null: all models of the
 * configuration
 */
export async function showPrices(terminal: Terminal, name: string | null, options: ShowOptions): Promise<ExitCode> {
  const known = await load(terminal, name, options)
  if (known === null) return 1
  if (name === null && known.models.length === 0) return showVendors(terminal, known.catalog, options)
  const own = name === null ? known.models : ownModels(known.models, name)
  const models = own.length > 0 ? own : listedModels(known, name!)
  const isDetailed = name !== null && vendorNamed(name) === undefined
  if (options.json) terminal.out(json({ models: models.map(modelJson) }))
  else terminal.out(isDetailed ? models.map(priceDetails).join('\n') : priceTable(models))
  return 0
}

/** Null if the configuration has problems, which are printed, and only the configuration could answer. */
async function load(terminal: Terminal, name: string | null, options: ShowOptions): Promise<PriceSources | null> {
  const { config, isNamed, today } = options
  const builtIn = async () => ({ models: [], catalog: await loadPriceCatalog(null, [], today) })
  if (!isNamed && !existsSync(pathOf(terminal, config))) return builtIn()
  const loaded = await loadWithStandIns(terminal, config, { today })
  if ('configuration' in loaded) {
    const catalog = loaded.catalog ?? (await loadPriceCatalog(null, [], today))
    return { models: modelsOf(loaded.configuration), catalog }
  }
  if (name !== null && vendorNamed(name.split('/')[0]!) !== undefined) {
    terminal.err(`${config} has problems (${terminal.self} check shows them): these are prices of the built-in list.\n`)
    return builtIn()
  }
  terminal.err(`${await problemText(terminal, loaded)}\nThe prices of a configuration with problems are unknown.\n`)
  return null
}

function ownModels(models: readonly PricedModel[], name: string): PricedModel[] {
  const exact = models.filter(({ id, aliases }) => id === name || aliases.includes(name))
  if (exact.length > 0 || name.split('*').length !== 2) return exact
  return models.filter(({ id, wildcard }) => wildcard === name || fitsPattern(name, id))
}

function listedModels({ models, catalog }: PriceSources, name: string): PricedModel[] {
  const slash = name.indexOf('/')
  const [vendorName, model] = slash < 0 ? [name, '*'] : [name.slice(0, slash), name.slice(slash + 1)]
  const vendor = vendorNamed(vendorName)
  if (vendor === undefined) throw new CommandError(notFound(models, name))
  const names = model.split('*').length === 2 ? idsOf(catalog, vendor, model) : [model]
  const found = names.flatMap(each => {
    const row = catalog.find(vendor, each)
    return row === null ? [] : [catalogModel(`${vendor.name}/${each}`, row)]
  })
  if (found.length > 0) return found
  const near = catalog.nearest(vendor, model)
  const suggestion = near === undefined ? '' : `; did you mean "${vendor.name}/${near}"?`
  throw new CommandError(`No price list has the model "${model}" of ${vendor.title}${suggestion}`)
}

const idsOf = (catalog: PriceCatalog, vendor: Vendor, pattern: string): string[] =>
  catalog.ids(vendor, vendor.dialect).filter(id => pattern === '*' || fitsPattern(pattern, id))

function notFound(models: readonly PricedModel[], name: string): string {
  const known = [...models.map(({ id }) => id), ...VENDORS.map(vendor => vendor.name)]
  const suggestion = didYouMean(name, known) ?? 'write the id of a model, VENDOR/MODEL or VENDOR, such as openai/gpt-5'
  return `No model of the configuration and no vendor has the name "${name}"; ${suggestion}`
}

function showVendors(terminal: Terminal, catalog: PriceCatalog, options: ShowOptions): ExitCode {
  const vendors = VENDORS.map(({ name, title, dialect }) => ({
    name,
    title,
    models: catalog.ids(vendorNamed(name)!, dialect).length,
  })).filter(({ models }) => models > 0)
  if (options.json) terminal.out(json({ vendors }))
  else {
    const rows = vendors.map(({ name, title, models }) => [name, title, String(models)])
    terminal.out(table([{ title: 'VENDOR' }, { title: 'NAME' }, { title: 'MODELS', right: true }], rows))
    terminal.err(`\nFor the models of a vendor: ${terminal.self} prices show openai\n`)
  }
  return 0
}
