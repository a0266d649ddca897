/** `tollgate serve`: runs the gateway until a signal ends it. */
import type { Command } from 'commander'
import { type AddCommand, configOf, example, pathOf } from './commands.ts'
import { environmentOf, type Problems, problemText, readConfiguration } from './configuration.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'

export const addServe: AddCommand = (program, { terminal, finish }) => {
  program
    .command('serve')
    .description('run the gateway; SIGTERM or Ctrl-C lets open requests finish, a second signal ends them')
    .addHelpText('after', example('serve', 'serve -c /etc/tollgate/gateway.yaml'))
    .action((_options: object, command: Command) => finish(() => serveUntilEnd(terminal, configOf(command))))
}

async function serveUntilEnd(terminal: Terminal, config: string): Promise<ExitCode> {
  const configFile = pathOf(terminal, config)
  const env = environmentOf(terminal, config)
  const [{ serve }, { quickStart, startText }] = await Promise.all([import('../main.ts'), import('./quick-start.ts')])
  const page = async () => {
    const { buildPage, BUILT } = await import('./page.ts')
    // A failed build does not stop the gateway. The dashboard serves the last build, if there is one.
    return buildPage().catch((error: Error) => {
      terminal.err(`${error.message}\n`)
      return BUILT
    })
  }
  const started = serve({ configFile, env, page })
  const running = await started.catch(async (error: unknown) => {
    throw await readable(terminal, config, error)
  })
  const options = { self: terminal.self, onTerminal: terminal.ask !== undefined }
  const text = async () => (await quickStart(running, options)) ?? (await startText(running, terminal.self))
  // The text is optional: it needs the store, which may be unavailable or, after a signal, closed.
  terminal.out(await text().catch(() => ''))
  return (await running.finished) === 0 ? 0 : 1
}

/** Explains why a start failed. Unexpected errors are returned unchanged. */
async function readable(terminal: Terminal, config: string, error: unknown): Promise<unknown> {
  if (isProblems(error)) {
    return new CommandError(
      `${config} has problems, so the gateway was not started.\n\n${await problemText(terminal, error)}`,
    )
  }
  const { code, address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number }
  const reason = code === undefined ? undefined : LISTEN_ERRORS[code]
  if (reason === undefined || port === undefined) return error
  const key = await keyOf(terminal, config, port)
  return new CommandError(`${address}:${port} ${reason}. Change the key "${key}" of ${config}.`)
}

/** Errors of `listen(2)`, in words that continue "127.0.0.1:8080 …". */
const LISTEN_ERRORS: Record<string, string> = {
  EADDRINUSE: 'is in use by another program, possibly another gateway',
  EACCES: 'cannot be opened by this user (ports below 1024 are reserved)',
  EADDRNOTAVAIL: 'is not an address of this machine',
}

async function keyOf(terminal: Terminal, config: string, port: number): Promise<'listen' | 'dashboard' | 'admin'> {
  const loaded = await readConfiguration(terminal, config)
  if ('problems' in loaded) return 'listen'
  const { admin, dashboard } = loaded.configuration
  if (admin?.port === port) return 'admin'
  return dashboard?.port === port ? 'dashboard' : 'listen'
}

function isProblems(error: unknown): error is Problems {
  return typeof error === 'object' && error !== null && 'problems' in error && 'sources' in error
}
