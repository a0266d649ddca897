/**
 * `tollgate schema`: writes a JSON Schema for editors, which complete keys, explain them and mark mistakes. With `--markdown`
 * it writes a reference of the same keys.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import type { Command } from 'commander'
import type { AnyPlugin } from '#contract'
import { type AddCommand, configOf, example, pathOf } from './commands.ts'
import { shownPath } from './configuration.ts'
import { count, json, pairs } from './format.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'

/** Beside gateway.yaml. Files in this folder are generated and not committed. */
const STANDARD_PLACE = join('.tollgate', 'schema.json')

export const addSchema: AddCommand = (program, { terminal, finish }) => {
  program
    .command('schema')
    .description('write a JSON Schema for editors: gateway.yaml, policies, policy tests and settings of plugins')
    .option(
      '--out <file>',
      `file to write; - is standard output (default: ${STANDARD_PLACE} beside the configuration; with --markdown: -)`,
    )
    .option('--markdown', 'write a Markdown reference of all keys instead')
    .addHelpText('after', example('schema', 'schema --out -', 'schema --markdown --out REFERENCE.md'))
    .action(({ out, markdown }: { out?: string; markdown?: true }, command: Command) =>
      finish(() => (markdown ? writeReference(terminal, out ?? '-') : writeSchema(terminal, configOf(command), out))),
    )
}

async function writeReference(terminal: Terminal, out: string): Promise<ExitCode> {
  const { configurationReference } = await import('../config/reference.ts')
  const text = configurationReference()
  if (out === '-') terminal.out(text)
  else {
    const file = pathOf(terminal, out)
    await write(file, text)
    terminal.out(`Wrote ${shownPath(terminal, file)}.\n`)
  }
  return 0
}

async function writeSchema(terminal: Terminal, config: string, out: string | undefined): Promise<ExitCode> {
  const configFile = pathOf(terminal, config)
  if (out === '-') {
    terminal.out((await schemaOf(terminal, configFile)).text)
    return 0
  }
  const file = out === undefined ? join(dirname(configFile), STANDARD_PLACE) : pathOf(terminal, out)
  const plugins = await writeSchemaFile(terminal, configFile, file)
  terminal.out(
    `Wrote ${shownPath(terminal, file)}: gateway.yaml, policies and their tests, and the settings of ${count(plugins, 'plugin')}.\n` +
      `Run this again after an update, or when a plugin changes. Editors with yaml-language-server find it by the first line of a file:\n\n` +
      pairs([
        [shownPath(terminal, configFile), modeline(configFile, file)],
        ['policies/*.yaml', modeline(join(dirname(configFile), 'policies', 'any.yaml'), file)],
      ]),
  )
  return 0
}

/** Writes the schema of a configuration and its plugins. Returns the number of plugins. */
export async function writeSchemaFile(terminal: Terminal, configFile: string, file: string): Promise<number> {
  const { text, plugins } = await schemaOf(terminal, configFile)
  await makeFolder(dirname(file))
  await write(file, text)
  return plugins
}

async function schemaOf(terminal: Terminal, configFile: string): Promise<{ text: string; plugins: number }> {
  const [{ editorSchema }, { externalPlugins }, { builtinRegistry }, { POLICY_TEST_SCHEMA }] = await Promise.all([
    import('../config/json-schema.ts'),
    import('../config/policy/external-plugins.ts'),
    import('../loader/builtin.ts'),
    import('../testing/policy/schema.ts'),
  ])
  const registry = builtinRegistry()
  const { plugins, left } = await externalPlugins(configFile, registry)
  const builtIn = registry.names.map(use => ({ use, plugin: registry.find(use) as AnyPlugin }))
  for (const { use, reason } of left) terminal.err(`The settings of ${use} are not in the schema: ${reason}\n`)
  const all = [...builtIn, ...plugins]
  return { text: json(editorSchema(all, POLICY_TEST_SCHEMA)), plugins: all.length }
}

/** The first line of a YAML file, which points its editor to the schema. */
export function modeline(yaml: string, schema: string): string {
  const path = relative(dirname(yaml), schema).split(sep).join('/')
  return `# yaml-language-server: $schema=${path.startsWith('../') ? path : `./${path}`}`
}

/** Creates one folder, for the owner only: the store keeps its secret in the default folder. */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EEXIST') throw new CommandError(`the folder ${folder} does not exist and cannot be created: ${code}`)
  }
}

async function write(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new CommandError(`${file} cannot be written: ${code}`)
  }
}
