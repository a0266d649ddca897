/** Runs verbs of commands: through the control socket of a running gateway, or with the lock on the store. */
import { userInfo } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import type { VerbName, VerbResults, VerifyView } from '../api/control/verbs.ts'
import type { Database } from '../store/engine/database.ts'
import { realPath } from '../store/files/files.ts'
import type { Store } from '../store/store.ts'
import { findStore, type StorePlace } from './place.ts'
import { CommandError, progressLine, type Terminal } from './terminal.ts'

/**
 * The wait for a gateway that has locked the store but does not listen for commands yet, or for another command that holds the
 * lock.
 */
const TIMEOUT_MS = 5000
const ROUND_MS = 50

type Args = Readonly<Record<string, unknown>>

/**
 * Runs a verb on the store of a configuration. Throws the errors of the verb, and a `CommandError` if no gateway answers and
 * the store cannot be opened.
 */
export async function operate<Name extends VerbName>(
  terminal: Terminal,
  config: string,
  verb: Name,
  args: Args,
): Promise<VerbResults[Name]> {
  const place = await findStore(terminal, config)
  const { runVerb } = await import('../api/control/verbs.ts')
  const deadline = Date.now() + TIMEOUT_MS
  for (;;) {
    const result = await askGateway(place, verb, args)
    if (result !== null) return result
    if (place.store === 'memory') throw new CommandError(noGatewayText(terminal))
    const isLast = Date.now() >= deadline
    const owned = await (place.database === null
      ? usePostgres(terminal, place)
      : tryToOwn(place, place.database, isLast))
    if (owned) return await owned.use(store => runVerb(store, verb, args, { plans: place.plans }))
    await wait(ROUND_MS)
  }
}

/** Runs a verb in the gateway of a store; null if no gateway runs. Throws the errors of the verb. */
export async function askGateway<Name extends VerbName>(
  place: Pick<StorePlace, 'store' | 'configFile'>,
  verb: Name,
  args: Args,
): Promise<VerbResults[Name] | null> {
  const { callControl, controlPath, NoGateway } = await import('../api/control/socket.ts')
  try {
    return await callControl(controlPath(place.store, place.configFile), verb, args)
  } catch (error) {
    if (error instanceof NoGateway) return null
    throw error
  }
}

/**
 * Checks the ledger. This process reads the database as one snapshot, which neither writes nor blocks a running gateway. A
 * store in memory is checked by its gateway.
 */
export async function verifyLedger(terminal: Terminal, config: string): Promise<VerifyView> {
  const place = await findStore(terminal, config)
  if (place.store === 'memory') return operate(terminal, config, 'ledger.verify', {})
  const [{ verify }, { verifyView }] = await Promise.all([
    import('../store/money/verify.ts'),
    import('../api/control/verbs.ts'),
  ])
  const database = await openForReading(place)
  const progress = progressLine(terminal, 'Verifying')
  try {
    const path = place.database === null ? null : realPath(place.database)
    return verifyView(verify(database, progress.show, path))
  } finally {
    progress.end()
    database.close()
  }
}

/** Throws for a store of another version or of another program. Changes nothing. */
async function openForReading({ store, database: path }: StorePlace): Promise<Database> {
  if (path === null) {
    const { migratePostgres, openPostgres } = await import('../store/engine/postgres/index.ts')
    const database = openPostgres(store, { readOnly: true })
    migratePostgres(database, { canWrite: false })
    return database
  }
  const [{ existsSync }, { openDatabase }, { migrate }] = await Promise.all([
    import('node:fs'),
    import('../store/engine/database.ts'),
    import('../store/engine/migrate.ts'),
  ])
  // Clearer than SQLite's own error.
  if (!existsSync(path)) throw new CommandError(`The store ${path} does not exist yet.`)
  const database = openDatabase(path, { readOnly: true })
  migrate(database, { canWrite: false })
  return database
}

/** The author of credits in the ledger: the user of this machine. */
export function actor(): string {
  try {
    return `cli:${userInfo().username}`
  } catch {
    // The user id of a container may have no name.
    return `cli:${process.getuid?.() ?? 'unknown'}`
  }
}

interface OpenStore {
  use<Result>(work: (store: Store) => Promise<Result>): Promise<Result>
}

/** Opens the store if its lock is free. Undefined while another process may still answer; throws after the last attempt. */
async function tryToOwn(place: StorePlace, path: string, isLast: boolean): Promise<OpenStore | undefined> {
  const [{ takeLock }, { StoreError }] = await Promise.all([
    import('../store/files/lock.ts'),
    import('../store/error.ts'),
  ])
  const clock = { now: () => Date.now() }
  const lock = await takeLock(path, clock).catch((error: Error) => {
    if (!(error instanceof StoreError)) throw new CommandError(`The store ${path} cannot be opened: ${error.message}.`)
    // An error with a cause concerns the file itself; waiting does not help.
    if (error.cause !== undefined) throw error
    if (isLast) throw new CommandError(`${error.message} That process does not answer at its control socket.`)
    return undefined
  })
  if (lock === undefined) return undefined
  return {
    async use(work) {
      try {
        const [{ openStore }, { loadSecret, secretPlace }, { dirname }] = await Promise.all([
          import('../store/engine/sqlite.ts'),
          import('../store/secret.ts'),
          import('node:path'),
        ])
        const [configured, real] = [place.secret(), realPath(path)]
        const secret = loadSecret(configured, dirname(real), real)
        const where = secretPlace(configured, dirname(real))
        const store = await openStore({ url: place.store, secret, secretPlace: where, clock, writes: 'here' })
        try {
          // With the lock, no other process uses the store, so every open hold belongs to an ended process.
          await store.recover()
          return await work(store)
        } finally {
          await store.close()
        }
      } finally {
        lock.release()
      }
    },
  }
}

/** Opens a store in PostgreSQL, which gateways and commands share. */
async function usePostgres(terminal: Terminal, place: StorePlace): Promise<OpenStore> {
  const [{ openStore }, { secretPlace }, { loadPostgresSecret }, { storeFolder }] = await Promise.all([
    import('../store/engine/sqlite.ts'),
    import('../store/secret.ts'),
    import('../store/engine/postgres/index.ts'),
    import('../store/store-address.ts'),
  ])
  const [configured, folder] = [place.secret(), storeFolder(place.configFile)]
  const secret = loadPostgresSecret(configured, folder, place.store)
  const secretIn = secretPlace(configured, folder)
  const clock = { now: () => Date.now() }
  const onWait = (sentence: string) => terminal.err(`${sentence}\n`)
  const store = await openStore({ url: place.store, secret, secretPlace: secretIn, clock, writes: 'here', onWait })
  return {
    async use(work) {
      try {
        return await work(store)
      } finally {
        await store.close()
      }
    },
  }
}

function noGatewayText(terminal: Terminal): string {
  return (
    'The configuration has "store: memory", which keeps accounts and keys only while the gateway runs, and no gateway ' +
    `runs here. Start it (${terminal.self} serve), or write "store: sqlite:./.tollgate/tollgate.db".`
  )
}
