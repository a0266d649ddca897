/** Helpers for CLI tests: a folder with a configuration, its commands and its store. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { controlPath, startControl } from '../../src/api/control/socket.ts'
import type { VerbName, VerbResults } from '../../src/api/control/verbs.ts'
import type { Terminal } from '../../src/cli/terminal.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { takeLock } from '../../src/store/files/lock.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { loadSecret } from '../../src/store/secret.ts'
import { type Result, runCommand, runJson } from '../helpers/command.ts'

export type { Result }

const clock = { now: () => Date.now() }

/** A gateway with the embedded demo provider, on a free port. */
export const CONFIGURATION = `version: 1
listen: 127.0.0.1:0
providers:
  demo:
    dialect: demo
    pace: 1ms
models:
  demo-small:
    targets:
      - { provider: demo, model: demo-small }
    price: { per: 1M tokens, input: $0.15, output: $0.60 }
    context: 8Ki
    max_output: 1Ki
routes:
  - { path: /v1/chat/completions, policy: standard }
`

export const STANDARD_POLICY = `steps:
  - use: api-key
  - use: schema
  - use: credits
  - use: route
`

export interface Place {
  readonly folder: string
  /** The path of the database in the default configuration. */
  readonly database: string
  /** Writes a file in the folder and returns its path. */
  write(name: string, text: string): string
  /** Runs one command line in the folder. */
  tollgate(args: readonly string[], overrides?: Partial<Terminal>): Promise<Result>
  /** Runs the command of a verb (`account.create`) with `--json`; fails if its exit code is not 0. */
  json<Name extends VerbName>(verb: Name, ...args: readonly string[]): Promise<VerbResults[Name]>
  remove(): void
}

export function makePlace(configuration = 'version: 1\nstore: sqlite:./data/tollgate.db\n'): Place {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-'))
  const write = (name: string, text: string): string => {
    const file = join(folder, name)
    writeFileSync(file, text)
    return file
  }
  write('gateway.yaml', configuration)
  const tollgate: Place['tollgate'] = (args, overrides) => runCommand(folder, args, overrides)
  return {
    folder,
    database: join(folder, 'data/tollgate.db'),
    write,
    tollgate,
    json: (verb, ...args) => runJson(folder, [...verb.split('.'), ...args]),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** A store that this process has locked. */
export interface Owner {
  readonly store: LocalStore
  stop(): Promise<void>
}

/** Does what `serve` does with a store: locks it, opens it and listens for commands. */
export async function startGateway({ folder, database }: Place): Promise<Owner> {
  const { store, stop } = await ownStore(database)
  const control = await startControl(store, controlPath(`sqlite:${database}`, join(folder, 'gateway.yaml')))
  return {
    store,
    async stop() {
      await control.close()
      await stop()
    },
  }
}

/** Locks and opens a database, as a command does without a running gateway. */
export async function ownStore(database: string): Promise<Owner> {
  const lock = await takeLock(database, clock)
  const store = await openStore({ url: `sqlite:${database}`, secret: loadSecret(null, dirname(database)), clock })
  return {
    store,
    async stop() {
      await store.close()
      lock.release()
    },
  }
}
