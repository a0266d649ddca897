/**
 * How a command reaches the store: through the control socket of the gateway that runs, or, when none does, by taking
 * the lock and opening the store itself.
 */
import { userInfo } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import type { VerbName, VerbResults, VerifyView } from '../api/control/verbs.ts'
import type { Database } from '../store/engine/database.ts'
import { realPath } from '../store/files/files.ts'
import type { Store } from '../store/store.ts'
import { findStore, type StorePlace } from './place.ts'
import { CommandError, progressLine, type Terminal } from './terminal.ts'

/** How long a gateway may take from locking its store to listening for commands, or another command to be done. */
const PATIENCE_MS = 5000
const ROUND_MS = 50

type Args = Readonly<Record<string, unknown>>

/**
 * Does a verb on the store that a configuration names. Throws what the verb throws, and a `CommandError` when neither a
 * gateway answers nor the store can be opened.
 */
export async function operate<Name extends VerbName>(
  terminal: Terminal,
  config: string,
  verb: Name,
  args: Args,
): Promise<VerbResults[Name]> {
  const place = await findStore(terminal, config)
  const { runVerb } = await import('../api/control/verbs.ts')
  const deadline = Date.now() + PATIENCE_MS
  for (;;) {
    const result = await askGateway(place, verb, args)
    if (result !== null) return result
    if (place.store === 'memory') throw new CommandError(nobodyRemembers(terminal))
    const isLast = Date.now() >= deadline
    const owned = await (place.database === null
      ? usePostgres(terminal, place)
      : tryToOwn(place, place.database, isLast))
    if (owned) return await owned.use(store => runVerb(store, verb, args, { plans: place.plans }))
    await wait(ROUND_MS)
  }
}

/** Asks the gateway that runs on a store; null when none does. Throws what the verb throws. */
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
 * Checks the ledger. A database is read as one snapshot by this process, whether a gateway runs or not: nothing is
 * written, nothing waits, and the gateway's streams go on. Only a store in memory has to be asked.
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

/** Refuses a store of another version or of another program, and changes nothing. */
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
  // Opening would say so too, in SQLite's words.
  if (!existsSync(path)) throw new CommandError(`There is no store at ${path} yet.`)
  const database = openDatabase(path, { readOnly: true })
  migrate(database, { canWrite: false })
  return database
}

/** Who gives credit, for the ledger: the user of this machine. */
export function actor(): string {
  try {
    return `cli:${userInfo().username}`
  } catch {
    // A container may run as a user id that has no name.
    return `cli:${process.getuid?.() ?? 'unknown'}`
  }
}

interface Owned {
  use<Result>(work: (store: Store) => Promise<Result>): Promise<Result>
}

/** The store, when nobody else has it. Undefined while somebody has it and may still come to answer; else throws. */
async function tryToOwn(place: StorePlace, path: string, isLast: boolean): Promise<Owned | undefined> {
  const [{ takeLock }, { StoreError }] = await Promise.all([
    import('../store/files/lock.ts'),
    import('../store/error.ts'),
  ])
  const clock = { now: () => Date.now() }
  const lock = await takeLock(path, clock).catch((error: Error) => {
    if (!(error instanceof StoreError)) throw new CommandError(`The store ${path} cannot be opened: ${error.message}.`)
    // One with a cause is about the file itself; waiting would not mend it.
    if (error.cause !== undefined) throw error
    if (isLast) throw new CommandError(`${error.message} It does not answer at its control socket either.`)
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
          // With the lock in hand nobody is alive, so every open hold is a dead one's.
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

/** The store in PostgreSQL, which gateways and commands share. */
async function usePostgres(terminal: Terminal, place: StorePlace): Promise<Owned> {
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

function nobodyRemembers(terminal: Terminal): string {
  return (
    'The configuration says "store: memory", which keeps accounts and keys only as long as the gateway runs, and none ' +
    `runs here. Start it (${terminal.self} serve), or write "store: sqlite:./.tollgate/tollgate.db".`
  )
}
