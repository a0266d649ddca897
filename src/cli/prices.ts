/** `tollgate prices`: shows prices with their lists, compares price lists, and writes a list for `catalog`. */
import { type Command, Option } from 'commander'
import { type AddCommand, configOf, example, jsonOption } from './commands.ts'
import { listValue } from './values.ts'

export const addPrices: AddCommand = (program, { terminal, finish }) => {
  const group = program
    .command('prices')
    .description('show prices with their lists; compare and update price lists')
    .addHelpText('after', example('prices show', 'prices diff prices-new.json --log usage.jsonl'))

  group
    .command('show')
    .description('show the prices, costs and sizes of models with their sources')
    .argument('[model]', 'id or alias of a model, ids with a *, VENDOR/MODEL, or VENDOR (default: all models)')
    .addOption(jsonOption())
    .addHelpText('after', example('prices show', 'prices show chat-small', 'prices show openai/gpt-5'))
    .action((model: string | undefined, options: { json?: true }, command: Command) =>
      finish(async () => {
        const { showPrices } = await import('./prices/show-prices.ts')
        return showPrices(terminal, model ?? null, {
          config: configOf(command),
          isNamed: isNamed(command),
          json: options.json ?? false,
          today: new Date(Date.now()),
        })
      }),
    )

  group
    .command('diff')
    .description(
      'show the changes in another price list; exit code 1 for prices that fall to 0 or change more than tenfold',
    )
    .argument('<list>', 'file or https address in the format of LiteLLM or models.dev')
    .addOption(acceptOption())
    .option('--log <files...>', 'logs of the plugin usage-log; show the cost of their traffic, by model and account')
    .addOption(jsonOption())
    .addHelpText('after', example('prices diff prices-new.json --log usage.jsonl'))
    .action((from: string, options: DiffOptions, command: Command) =>
      finish(async () => {
        const { diffPrices } = await import('./prices/diff-prices.ts')
        return diffPrices(terminal, from, {
          config: configOf(command),
          accept: options.accept,
          logs: options.log ?? [],
          json: options.json ?? false,
          today: new Date(Date.now()),
        })
      }),
    )

  group
    .command('update')
    .description("write the configuration's price list from another one, for review; show the changes")
    .requiredOption('--from <list>', 'file or https address in the format of LiteLLM or models.dev')
    .option('--out <file>', 'file to write (default: the catalog of the configuration)')
    .addOption(acceptOption())
    .option('--all', 'keep the models of all vendors (default: of the vendors that the configuration uses)')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      example(
        'prices update --from model_prices.json',
        'prices update --from https://models.dev/api.json --out new.json',
      ),
    )
    .action((options: UpdateOptions, command: Command) =>
      finish(async () => {
        const { updatePrices } = await import('./prices/update-prices.ts')
        return updatePrices(terminal, options.from, {
          config: configOf(command),
          out: options.out ?? null,
          accept: options.accept,
          all: options.all ?? false,
          json: options.json ?? false,
          today: new Date(Date.now()),
        })
      }),
    )
}

interface DiffOptions {
  readonly accept: readonly string[]
  readonly log?: readonly string[]
  readonly json?: true
}

interface UpdateOptions {
  readonly from: string
  readonly out?: string
  readonly accept: readonly string[]
  readonly all?: true
  readonly json?: true
}

/** Models separated by commas, or the option several times. */
function acceptOption(): Option {
  return new Option('--accept <models>', 'VENDOR/MODEL whose price may fall to 0 or change more than tenfold')
    .argParser((text: string, before: readonly string[]) => [...before, ...listValue(text)])
    .default([], 'none')
}

/** Whether the configuration was given by the command line or TOLLGATE_CONFIG. */
function isNamed(command: Command): boolean {
  return command.optsWithGlobals<{ config: string }>().config !== './gateway.yaml'
}
