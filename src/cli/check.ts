/** `tollgate check`: reports all problems of configurations with their positions, also for CI. */
import { type Command, Option } from 'commander'
import { plansOf } from './account-plans.ts'
import { type AddCommand, configOf, example } from './commands.ts'
import { readConfiguration } from './configuration.ts'
import { tryStarts } from './plugin-starts.ts'
import { type CheckedFile, isPassed, jsonReport, type ReportContext, textReport, wantsColours } from './report.ts'
import { githubReport } from './report-github.ts'
import { sarifReport } from './report-sarif.ts'
import type { ExitCode } from './terminal.ts'

/** The writer of each report format. */
const REPORTS = { text: textReport, json: jsonReport, sarif: sarifReport, github: githubReport } as const

interface CheckOptions {
  readonly strict?: boolean
  readonly format: keyof typeof REPORTS
  readonly colour: boolean
  readonly color: boolean
}

export const addCheck: AddCommand = (program, { terminal, finish }) => {
  program
    .command('check')
    .alias('validate')
    .description('check configurations and list all problems and warnings; exit code 1 if there is a problem')
    .argument('[files...]', 'configurations (default: the one of --config)')
    .addOption(
      new Option(
        '--format <format>',
        'format of the report: sarif is for code scanning, github for annotations of a workflow',
      )
        .choices(Object.keys(REPORTS))
        .default('text'),
    )
    .addOption(new Option('--json', 'the same as --format json').implies({ format: 'json' }))
    .option('--strict', 'exit code 1 for warnings too')
    .addOption(new Option('--no-colour', 'no colours (or set NO_COLOR; FORCE_COLOR forces colours)'))
    .addOption(new Option('--no-color').hideHelp())
    .addHelpText('after', example('check', 'check staging.yaml production.yaml --format sarif > check.sarif'))
    .action((files: string[], { format, strict = false, colour, color }: CheckOptions, command: Command) =>
      finish(async () => {
        const colours = wantsColours(terminal.env, {
          allowed: colour && color,
          onTerminal: process.stdout.isTTY === true,
        })
        const context: ReportContext = { terminal, colours, strict, version: program.version() ?? '' }
        return check(files.length > 0 ? files : [configOf(command)], format, context)
      }),
    )
}

async function check(
  files: readonly string[],
  format: CheckOptions['format'],
  context: ReportContext,
): Promise<ExitCode> {
  const checked: CheckedFile[] = []
  for (const file of files) {
    const loaded = await readConfiguration(context.terminal, file, { plansOf })
    checked.push({ file, loaded: await tryStarts(context.terminal, file, loaded) })
  }
  context.terminal.out(await REPORTS[format](checked, context))
  return isPassed(checked, context.strict) ? 0 : 1
}
