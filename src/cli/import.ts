/** `tollgate import litellm`: converts and checks the configuration of a LiteLLM proxy, and lists unconverted settings. */
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { loadPriceCatalog } from '../catalog/price-catalog.ts'
import { type PriceList, readPriceList } from '../catalog/price-list.ts'
import { makeFolder } from '../store/files/files.ts'
import { type AddCommand, example, jsonOption, pathOf, withoutConfig } from './commands.ts'
import { count, json } from './format.ts'
import type { ImportResult } from './import-litellm/index.ts'
import { quoted } from './shell.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'

interface Options {
  readonly out?: string
  readonly force?: true
  readonly catalog?: string
  readonly verbose?: true
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
    .option('--catalog <file>', 'a price list with precedence over the built-in one, of LiteLLM or models.dev')
    .option('--verbose', 'print all remarks, each with its line')
    .addOption(
      new Option('--unpriced <how>', 'how to treat models of paid providers without a known price')
        .choices(['disable', 'free'])
        .default('disable'),
    )
    .addOption(jsonOption())
    .addHelpText('after', example('import litellm config.yaml --out gateway', 'import litellm config.yaml --verbose'))
    .action((file: string, options: Options, command: Command) => {
      if (options.force && options.out === undefined)
        command.error('error: --force needs --out: without --out no file is written')
      return finish(() => importFile(terminal, file, options))
    })
}

async function importFile(terminal: Terminal, file: string, options: Options): Promise<ExitCode> {
  const [{ importLitellm }, { filesOf, listOf, summary }] = await Promise.all([
    import('./import-litellm/index.ts'),
    import('./import-litellm/render.ts'),
  ])
  const text = await readText(terminal, file)
  const prices = options.catalog === undefined ? null : await readPrices(terminal, options.catalog, options.out)
  const catalog = await loadPriceCatalog(prices?.list ?? null, [], new Date())
  const imported = importLitellm(text, file, { catalog, list: prices?.path ?? null, unpriced: options.unpriced })
  const commands = commandsOf(terminal, imported, options)
  const files = filesOf(imported, basename(file), commands)
  const problems = await problemsOf(files, imported, prices)
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
  const rest = options.out === undefined ? '--verbose' : `--verbose, or ${join(options.out, 'IMPORTED.md')}`
  const report = options.verbose
    ? listOf(imported.remarks, basename(file))
    : summary(imported.remarks, basename(file), rest)
  terminal.err(`${report}\n${ending(imported, commands, options, terminal.self)}`)
  if (problems.length === 0) return 0
  terminal.err(`\nProblems found by tollgate check:\n${problems.map(problem => `  ${problem}\n`).join('')}`)
  return 1
}

/** The commands for the folder of the import. */
function commandsOf({ self }: Terminal, { commands }: ImportResult, { out }: Options): string[] {
  const config = out === undefined ? '' : ` -c ${quoted(join(out, 'gateway.yaml'))}`
  return commands.map(command => `${self} ${command}${config}`)
}

/** The next steps: the commands until the first answer. */
function ending(
  { gateway, variables }: ImportResult,
  commands: readonly string[],
  { out }: Options,
  self: string,
): string {
  const models = Object.values(gateway['models'] as Record<string, { enabled?: boolean }>)
  const off = models.filter(({ enabled }) => enabled === false).length
  const counted = `${count(Object.keys(gateway['providers'] as object).length, 'provider')} and ${count(models.length, 'model')}${off === 0 ? '' : ` (${off} of them off)`}`
  const names = [...variables.keys()].toSorted()
  const beside = out === undefined ? '' : `, or in .env (copy ${join(out, '.env.example')})`
  const set = names.length === 0 ? '' : `Set these in the environment${beside}: ${names.join(', ')}\n`
  const config = out === undefined ? '' : ` -c ${quoted(join(out, 'gateway.yaml'))}`
  const start = out === undefined ? commands : [`${self} check${config}`, ...commands, `${self} serve${config}`]
  const how =
    out === undefined
      ? "Keys are in LiteLLM's database and cannot be moved; create new ones:"
      : "Check, create an account and a key (LiteLLM's keys cannot be moved), and serve:"
  return `${out === undefined ? 'On stdout: ' : `Written to ${out}: `}${counted}.\n${set}${how}\n${start.map(command => `  ${command}\n`).join('')}`
}

async function readText(terminal: Terminal, file: string): Promise<string> {
  return readFile(pathOf(terminal, file), 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(
      `${file} cannot be read: ${error.code === 'ENOENT' ? 'the file does not exist' : error.message}.`,
    )
  })
}

interface Prices {
  readonly list: PriceList
  readonly text: string
  /** Relative to the folder of gateway.yaml. */
  readonly path: string
}

async function readPrices(terminal: Terminal, file: string, out: string | undefined): Promise<Prices> {
  const text = await readText(terminal, file)
  const list = readPriceList(basename(file), text)
  const [problem] = list.problems
  if (problem !== undefined) throw new CommandError(`${file}: ${problem.message}.`)
  return { list, text, path: relative(pathOf(terminal, out ?? '.'), pathOf(terminal, file)) }
}

/** Checks the files in memory, with valid values for the variables. Returns `file:line:column: sentence` for each problem. */
export async function problemsOf(
  files: ReadonlyMap<string, string>,
  { variables }: ImportResult,
  prices: Prices | null = null,
): Promise<string[]> {
  const [{ loadConfiguration }, { builtinRegistry }, { sentence }, { sampleAccount }] = await Promise.all([
    import('../config/load.ts'),
    import('../loader/builtin.ts'),
    import('../config/yaml/problem.ts'),
    import('./import-litellm/clouds.ts'),
  ])
  const folder = resolve('/tollgate-import/a/b/c')
  const loaded = await loadConfiguration(join(folder, 'gateway.yaml'), {
    env: Object.fromEntries(variables),
    registry: builtinRegistry(),
    readFile: async path => {
      const name = relative(folder, path)
      const content = prices !== null && path === resolve(folder, prices.path) ? prices.text : files.get(name)
      if (content !== undefined) return content
      // Another file of the operator, such as a service account's.
      if (!name.startsWith('policies')) return sampleAccount()
      throw Object.assign(new Error('the file does not exist'), { code: 'ENOENT' })
    },
  })
  if (!('problems' in loaded)) return []
  return loaded.problems.map(problem => {
    return `${relative(folder, problem.file)}:${problem.line}:${problem.column}: ${sentence(problem)}`
  })
}

/** Writes all files or none: without `force`, an existing file is an error. */
async function write(
  terminal: Terminal,
  out: string,
  files: ReadonlyMap<string, string>,
  force: boolean,
): Promise<void> {
  const folder = pathOf(terminal, out)
  const there = [...files.keys()].filter(name => existsSync(join(folder, name)))
  if (there.length > 0 && !force) {
    throw new CommandError(`${out} already has ${there.join(', ')}. Nothing was written; use --force to overwrite.`)
  }
  for (const [name, content] of files) {
    makeFolder(dirname(join(folder, name)))
    await writeFile(join(folder, name), content)
  }
}
