/**
 * Combines the operators' views of all replicas. Each publishes its exchanges in progress and its providers every few seconds, and reads
 * those of the others on demand.
 */
import { setTimeout as wait } from 'node:timers/promises'
import type { ExchangeView, ProviderView } from '../api/views.ts'
import type { Replicas } from '../store/engine/replicas.ts'
import type { Promised } from '../store/promised.ts'
import { mergeProviders } from './operator-views.ts'
import type { ServingViews } from './serving.ts'

export interface ReplicaViews {
  /** Exchanges in progress, oldest first; of each other replica the oldest `MOST_PUBLISHED`. */
  exchanges(): Promise<readonly ExchangeView[]>
  providers(): Promise<readonly ProviderView[]>
  /** The number of exchanges in progress, and of open holds. */
  counts(): Promise<{ readonly inflight: number; readonly openHolds: number }>
}

export interface ReplicaViewsParts {
  readonly views: Pick<Promised<ServingViews>, 'exchanges' | 'providers'>
  openHolds(): number
  /** Null: this process is the only one. */
  readonly replicas: Replicas | null
  /** Calls back repeatedly with the monotonic time in milliseconds, until the returned function is called. */
  watch(check: (atMs: number) => void): () => void
}

interface ReplicaReport {
  readonly format: typeof FORMAT
  readonly inflight: number
  readonly openHolds: number
  readonly exchanges: readonly ExchangeView[]
  readonly providers: readonly ProviderView[]
}

interface OtherReplica extends ReplicaReport {
  readonly name: string
}

/** The format of published views. Replicas of another version may publish another one. */
const FORMAT = 2
const EVERY_MS = 5000
/** The time to wait for the others: a report or an audit may keep the database's readers busy. */
const PATIENCE_MS = 1000
const AT_LEAST_EVERY_MS = 60_000
/** The page shows no more. */
const MOST_PUBLISHED = 200

export function createReplicaViews({ views, openHolds, replicas, watch }: ReplicaViewsParts): ReplicaViews {
  let lastViews: readonly OtherReplica[] = []
  let reading: Promise<readonly OtherReplica[]> | undefined
  if (replicas !== null) publishPeriodically(replicas, published, watch)

  async function published(): Promise<ReplicaReport> {
    const [exchanges, providers] = await Promise.all([views.exchanges(), views.providers()])
    const oldest = exchanges.slice(0, MOST_PUBLISHED)
    return { format: FORMAT, inflight: exchanges.length, openHolds: openHolds(), exchanges: oldest, providers }
  }

  /** The views of the others; the last ones that were read if the database is unavailable or slow. */
  async function others(): Promise<readonly OtherReplica[]> {
    if (replicas === null) return lastViews
    reading ??= readOthers(replicas)
      .catch(() => lastViews)
      .finally(() => {
        reading = undefined
      })
    return Promise.race([reading, wait(PATIENCE_MS, undefined, { ref: false }).then(() => lastViews)])
  }

  async function readOthers(from: Replicas): Promise<readonly OtherReplica[]> {
    const all = await from.others()
    lastViews = all.flatMap(({ name, view }) => {
      const published = JSON.parse(view) as ReplicaReport
      return published.format === FORMAT ? [{ ...published, name }] : []
    })
    return lastViews
  }

  return {
    async exchanges() {
      const own = await views.exchanges()
      if (replicas === null) return own
      const more = (await others()).flatMap(({ name, exchanges }) =>
        exchanges.map(each => ({ ...each, replica: name })),
      )
      const all = [...own.map(each => ({ ...each, replica: replicas.name })), ...more]
      return all.sort((one, other) => (one.id < other.id ? -1 : 1))
    },
    async providers() {
      return mergeProviders([await views.providers(), ...(await others()).map(({ providers }) => providers)])
    },
    async counts() {
      const all = [await published(), ...(await others())]
      return {
        inflight: all.reduce((sum, each) => sum + each.inflight, 0),
        openHolds: all.reduce((sum, each) => sum + each.openHolds, 0),
      }
    },
  }
}

/** Publishes changes, and unchanged views once a minute: a row disappears with an expired lease. */
function publishPeriodically(
  replicas: Replicas,
  published: () => Promise<ReplicaReport>,
  watch: ReplicaViewsParts['watch'],
): void {
  let lastAtMs = Number.NEGATIVE_INFINITY
  let last = { view: '', atMs: Number.NEGATIVE_INFINITY }
  let isPublishing = false

  async function publish(atMs: number): Promise<void> {
    const view = JSON.stringify(await published())
    if (view === last.view && atMs - last.atMs < AT_LEAST_EVERY_MS) return
    await replicas.publish(view)
    last = { view, atMs }
  }

  watch(atMs => {
    if (isPublishing || atMs - lastAtMs < EVERY_MS) return
    lastAtMs = atMs
    isPublishing = true
    const done = () => void (isPublishing = false)
    // Readiness reports an unwritable database; the next round retries.
    publish(atMs).then(done, done)
  })
}
