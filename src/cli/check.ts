/** `tollgate check`: what a pull request runs. Says everything that is wrong with configurations, and where. */
import { type Command, Option } from 'commander'
import type { LoadResult } from '../config/load.ts'
import type { Problem } from '../config/problem.ts'
import { type AddCommand, configOf, example } from './commands.ts'
import { problemText, readConfiguration, shownPath } from './configuration.ts'
import { count, json } from './format.ts'
import type { ExitCode, Terminal } from './terminal.ts'

type Format = 'text' | 'json'

export const addCheck: AddCommand = (program, { terminal, finish }) => {
  program
    .command('check')
    .alias('validate')
    .description('check configurations: exit code 1 and a list when something is wrong')
    .argument('[files...]', 'the configurations; left out: the one of --config')
    .addOption(new Option('--format <format>', 'how to print').choices(['text', 'json']).default('text'))
    .addOption(new Option('--json', 'the same as --format json').implies({ format: 'json' }))
    .addHelpText('after', example('check', 'check staging.yaml production.yaml --format json'))
    .action((files: string[], options: { format: Format }, command: Command) =>
      finish(() => check(terminal, files.length > 0 ? files : [configOf(command)], options.format)),
    )
}

async function check(terminal: Terminal, files: readonly string[], format: Format): Promise<ExitCode> {
  const results: { file: string; loaded: LoadResult }[] = []
  for (const file of files) results.push({ file, loaded: await readConfiguration(terminal, file) })
  const fine = results.every(({ loaded }) => 'configuration' in loaded)
  if (format === 'json') {
    terminal.out(json({ ok: fine, files: results.map(({ file, loaded }) => asJson(terminal, file, loaded)) }))
    return fine ? 0 : 1
  }
  for (const { file, loaded } of results) {
    if ('configuration' in loaded) {
      const { providers, models, routes } = loaded.configuration
      const contents = [count(providers.size, 'provider'), count(models.size, 'model'), count(routes.length, 'route')]
      terminal.out(`${files.length > 1 ? `${file}: ` : ''}OK: ${contents.join(', ')}\n`)
    } else {
      const total = `${count(loaded.problems.length, 'problem')} in ${file}`
      terminal.out(`${await problemText(terminal, loaded)}\n${total}\n`)
    }
  }
  return fine ? 0 : 1
}

function asJson(terminal: Terminal, file: string, loaded: LoadResult): object {
  if ('problems' in loaded) {
    return { file, ok: false, problems: loaded.problems.map(problem => problemJson(terminal, problem)) }
  }
  const { providers, models, routes } = loaded.configuration
  return { file, ok: true, providers: providers.size, models: models.size, routes: routes.length, problems: [] }
}

function problemJson(terminal: Terminal, { file, line, column, message, suggestion }: Problem): object {
  return { file: shownPath(terminal, file), line, column, message, suggestion: suggestion ?? null }
}
