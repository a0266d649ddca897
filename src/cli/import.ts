/** `tollgate import litellm`: writes a configuration from that of a LiteLLM proxy, checks it, and says what is not in it. */
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { makeFolder } from '../store/files/files.ts'
import { type AddCommand, example, jsonOption, pathOf, withoutConfig } from './commands.ts'
import { count, json } from './format.ts'
import type { Imported } from './import-litellm/index.ts'
import type { PriceList } from './import-litellm/models.ts'
import { quoted } from './shell.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'

interface Options {
  readonly out?: string
  readonly force?: true
  readonly prices?: string
  readonly unpriced: 'disable' | 'free'
  readonly json?: true
}

export const addImport: AddCommand = (program, { terminal, finish }) => {
  const group = program
    .command('import')
    .description('convert the configuration of another gateway')
    .addHelpText('after', example('import litellm config.yaml --out gateway'))

  withoutConfig(group.command('litellm'))
    .description("convert a LiteLLM proxy's config.yaml to gateway.yaml and a policy; list what was not converted")
    .argument('<file>', 'path of the config.yaml')
    .option('--out <folder>', 'folder for the files (default: print them)')
    .option('--force', 'overwrite existing files')
    .option(
      '--prices <file>',
      "LiteLLM's model_prices_and_context_window.json: prices and sizes for models that have none in the config",
    )
    .addOption(
      new Option('--unpriced <how>', 'how to treat models without a price')
        .choices(['disable', 'free'])
        .default('disable'),
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      example('import litellm config.yaml --out gateway', 'import litellm config.yaml --prices prices.json'),
    )
    .action((file: string, options: Options, command: Command) => {
      if (options.force && options.out === undefined)
        command.error('error: --force is for --out: without --out no file is written')
      return finish(() => importFile(terminal, file, options))
    })
}

async function importFile(terminal: Terminal, file: string, options: Options): Promise<ExitCode> {
  const [{ importLitellm }, { filesOf, summary }] = await Promise.all([
    import('./import-litellm/index.ts'),
    import('./import-litellm/render.ts'),
  ])
  const text = await readText(terminal, file)
  const prices = options.prices === undefined ? null : await readPrices(terminal, options.prices)
  const imported = importLitellm(text, file, { prices, unpriced: options.unpriced })
  const commands = commandsOf(terminal, imported, options)
  const files = filesOf(imported, basename(file), commands)
  const problems = await problemsOf(files, imported)
  if (options.out !== undefined) await write(terminal, options.out, files, options.force ?? false)
  if (options.json) {
    const { remarks, variables } = imported
    const written = options.out === undefined ? { files: Object.fromEntries(files) } : { files: [...files.keys()] }
    terminal.out(
      json({
        ok: problems.length === 0,
        ...written,
        remarks,
        variables: [...variables.keys()],
        commands: imported.commands,
        problems,
      }),
    )
    return problems.length === 0 ? 0 : 1
  }
  if (options.out === undefined) {
    for (const [name, content] of files) if (name.endsWith('.yaml')) terminal.out(`# --- ${name}\n${content}\n`)
  }
  terminal.err(`${summary(imported.remarks, basename(file))}\n${ending(imported, commands, options)}`)
  if (problems.length === 0) return 0
  terminal.err(
    `\nWhat is still wrong, as tollgate check says it:\n${problems.map(problem => `  ${problem}\n`).join('')}`,
  )
  return 1
}

/** As they can be pasted where the import ran. */
function commandsOf({ self }: Terminal, { commands }: Imported, { out }: Options): string[] {
  const config = out === undefined ? '' : ` -c ${quoted(join(out, 'gateway.yaml'))}`
  return commands.map(command => `${self} ${command}${config}`)
}

function ending({ gateway, variables }: Imported, commands: readonly string[], { out }: Options): string {
  const [models, providers] = ['models', 'providers'].map(key => Object.keys(gateway[key] as object).length) as [
    number,
    number,
  ]
  const where = out === undefined ? 'On stdout: ' : `Written to ${out}: `
  const names = [...variables.keys()].toSorted()
  const beside = out === undefined ? '' : `, or in .env (copy ${join(out, '.env.example')})`
  const set = names.length === 0 ? '' : `Set these in the environment${beside}: ${names.join(', ')}\n`
  const make = commands.map(command => `  ${command}\n`).join('')
  return `${where}${count(providers, 'provider')} and ${count(models, 'model')}.\n${set}Keys live in LiteLLM's database and cannot be moved; make new ones:\n${make}`
}

async function readText(terminal: Terminal, file: string): Promise<string> {
  return readFile(pathOf(terminal, file), 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(
      `${file} cannot be read: ${error.code === 'ENOENT' ? 'there is no such file' : error.message}.`,
    )
  })
}

async function readPrices(terminal: Terminal, file: string): Promise<PriceList> {
  const text = await readText(terminal, file)
  try {
    const prices = JSON.parse(text) as unknown
    if (typeof prices === 'object' && prices !== null && !Array.isArray(prices)) return prices as PriceList
  } catch {
    // Said below, without a word of the file.
  }
  throw new CommandError(`${file} is no list of prices: a JSON map by the names of models.`)
}

/** Checks what would be written, in memory, with values for the variables that pass. As `file:line:column: sentence`. */
async function problemsOf(files: ReadonlyMap<string, string>, { variables }: Imported): Promise<string[]> {
  const [{ loadConfiguration }, { builtinRegistry }, { sentence }, { sampleAccount }] = await Promise.all([
    import('../config/load.ts'),
    import('../loader/builtin.ts'),
    import('../config/yaml/problem.ts'),
    import('./import-litellm/clouds.ts'),
  ])
  const folder = resolve('/tollgate-import')
  const loaded = await loadConfiguration(join(folder, 'gateway.yaml'), {
    env: Object.fromEntries(variables),
    registry: builtinRegistry(),
    readFile: async path => {
      const name = relative(folder, path)
      const content = files.get(name)
      if (content !== undefined) return content
      // A file of the operator's own, such as that of a service account.
      if (!name.startsWith('policies')) return sampleAccount()
      throw Object.assign(new Error('there is no such file'), { code: 'ENOENT' })
    },
  })
  if (!('problems' in loaded)) return []
  return loaded.problems.map(problem => {
    return `${relative(folder, problem.file)}:${problem.line}:${problem.column}: ${sentence(problem)}`
  })
}

/** All or nothing: a file that is there stays as it is unless `force` says otherwise. */
async function write(
  terminal: Terminal,
  out: string,
  files: ReadonlyMap<string, string>,
  force: boolean,
): Promise<void> {
  const folder = pathOf(terminal, out)
  const there = [...files.keys()].filter(name => existsSync(join(folder, name)))
  if (there.length > 0 && !force) {
    throw new CommandError(`${out} has ${there.join(', ')} already. Nothing was written; --force overwrites.`)
  }
  for (const [name, content] of files) {
    makeFolder(dirname(join(folder, name)))
    await writeFile(join(folder, name), content)
  }
}
