/** `tollgate exposure`: the largest hold and the worst loss that a configuration allows, as a table or as a gate in CI. */

import { type Command, InvalidArgumentError, Option } from 'commander'
import { formatMoney, parseMoney, UnitError } from '../contract/quantities.ts'
import { type AddCommand, configOf, example, jsonOption } from './commands.ts'
import { problemText, readConfiguration } from './configuration.ts'
import type { Exposure, Loss } from './exposure-figures.ts'
import type { Figure } from './exposure-policies.ts'
import { json, showMoney } from './format.ts'
import type { ExitCode, Terminal } from './terminal.ts'
import { listValue } from './values.ts'

interface Options {
  readonly maxHold?: bigint
  readonly maxHouseLoss?: bigint
  readonly losses: readonly Loss[]
  readonly explain?: true
  readonly json?: true
}

/** The same as `LOSSES` of `exposure-figures.ts`, which is loaded only when needed. */
const KINDS: readonly Loss[] = ['margin', 'overrun', 'unpaid', 'unpriced']

export const addExposure: AddCommand = (program, { terminal, finish }) => {
  program
    .command('exposure')
    .description('show the largest hold, overdraft and loss that a configuration allows')
    .option('--max-hold <dollars>', 'exit code 1 if a single hold can exceed this', amountValue)
    .option(
      '--max-house-loss <dollars>',
      'exit code 1 if the operator can lose more on one exchange, over all its attempts',
      amountValue,
    )
    .addOption(
      new Option('--losses <kinds>', `losses that --max-house-loss counts: ${KINDS.join(', ')}`)
        .default(KINDS, 'all')
        .argParser(lossesValue),
    )
    .option('--explain', 'show the formula of each figure')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      example('exposure --explain', 'exposure --max-hold 5 --max-house-loss 0.10 --losses margin,unpriced'),
    )
    .action((options: Options, command: Command) => finish(() => exposure(terminal, configOf(command), options)))
}

async function exposure(terminal: Terminal, config: string, options: Options): Promise<ExitCode> {
  const loaded = await readConfiguration(terminal, config)
  if ('problems' in loaded) {
    terminal.err(`${await problemText(terminal, loaded)}\nThe exposure of a configuration with problems is unknown.\n`)
    return 1
  }
  const [{ exposureOf }, { exposureText }] = await Promise.all([
    import('./exposure-figures.ts'),
    import('./exposure-text.ts'),
  ])
  const result = exposureOf(loaded.configuration, options.losses)
  const exceeded = exceededBy(result, options)
  if (options.json) terminal.out(json({ ok: exceeded.length === 0, ...asJson(result), exceeded }))
  else {
    terminal.out(exposureText(result, options.explain ?? false))
    for (const sentence of exceeded) terminal.err(`${sentence}\n`)
  }
  return exceeded.length === 0 ? 0 : 1
}

/** A sentence for each figure above the limits of the command line. */
function exceededBy({ models, policies }: Exposure, options: Options): string[] {
  const { maxHold, maxHouseLoss, losses } = options
  const sentences: string[] = []
  const show = (amount: bigint) => showMoney(formatMoney(amount))
  if (maxHold !== undefined) {
    const holds = [
      ...models.map(({ id, largestHold: hold }) => [`the model ${id}`, hold] as const),
      ...policies.flatMap(({ raw }) =>
        raw.flatMap(({ path, hold }) => (hold ? [[`the route ${path}`, hold] as const] : [])),
      ),
    ]
    for (const [whose, { amount, formula }] of holds) {
      if (amount <= maxHold) continue
      sentences.push(`A hold of ${whose} can be ${show(amount)}, but ${show(maxHold)} is allowed: ${formula}`)
    }
  }
  if (maxHouseLoss === undefined) return sentences
  const bounded = losses.filter(loss => loss !== 'unpriced')
  for (const { id, worstExchange, unpriced } of models) {
    const { amount, formula } = worstExchange
    if (amount > maxHouseLoss) {
      const kinds = `${bounded.join(', ')}${bounded.length > 1 ? ' together' : ''}`
      sentences.push(
        `The model ${id} can cost the operator ${show(amount)} in one exchange (${kinds}), but ${show(maxHouseLoss)} is allowed: ${formula}`,
      )
    }
    if (losses.includes('unpriced') && unpriced.length > 0) {
      sentences.push(`The model ${id} allows ${unpriced.join(', ')}: its cost for the operator has no bound`)
    }
  }
  if (losses.includes('unpaid')) {
    for (const { path, unpaid } of policies.flatMap(({ raw }) => raw)) {
      if (unpaid === null || unpaid.amount <= maxHouseLoss) continue
      sentences.push(
        `The route ${path} can cost the operator ${show(unpaid.amount)} in one exchange (unpaid), but ${show(maxHouseLoss)} is allowed: ${unpaid.formula}`,
      )
    }
  }
  if (losses.includes('unpriced')) sentences.push(...policies.flatMap(({ unbounded }) => unbounded))
  return sentences
}

function asJson({ models, policies, largestHold, openHolds, overdraft }: Exposure): object {
  return {
    largest_hold: { ...figureJson(largestHold), of: largestHold.of },
    open_holds: figureJson(openHolds),
    overdraft: figureJson(overdraft),
    models: models.map(model => ({
      id: model.id,
      largest_hold: figureJson(model.largestHold),
      outside_cap: figureJson(model.outsideCap),
      margin: figureJson(model.margin),
      overrun: figureJson(model.overrun),
      unpaid: figureJson(model.unpaid),
      worst_exchange: figureJson(model.worstExchange),
      unpriced: model.unpriced,
      remarks: model.remarks,
    })),
    policies: policies.map(({ name, routes, charged, key, account, raw, unbounded, remarks }) => ({
      name,
      routes,
      charged,
      ...Object.fromEntries(
        Object.entries({ key, account }).map(([owner, { atOnce, formula, openHolds: holds }]) => [
          owner,
          { at_once: atOnce, formula, open_holds: figureJson(holds) },
        ]),
      ),
      raw: raw.map(({ path, hold, unpaid }) => ({
        path,
        hold: hold && figureJson(hold),
        unpaid: unpaid && figureJson(unpaid),
      })),
      unbounded,
      remarks,
    })),
  }
}

function figureJson({ amount, formula }: Figure): object {
  return { amount: formatMoney(amount), formula }
}

/** Dollars; 0 is allowed: `--max-house-loss 0`. */
function amountValue(text: string): bigint {
  try {
    return parseMoney(text)
  } catch (error) {
    if (error instanceof UnitError) throw new InvalidArgumentError(`${error.message}.`)
    throw error
  }
}

function lossesValue(text: string): readonly Loss[] {
  const names = listValue(text)
  const wrong = names.find(name => !(KINDS as readonly string[]).includes(name))
  if (wrong !== undefined) throw new InvalidArgumentError(`"${wrong}" is not one of ${KINDS.join(', ')}.`)
  return names as readonly Loss[]
}
