/** Metric sources: the values that metrics read on demand, of this thread and of the process. */

import type { NanoUsd } from '#contract'
import type { AlertRounds } from '../alerts/alert-rounds.ts'
import { type DeadlineClock, ROUND_MS } from '../common/clock.ts'
import { VERSION } from '../common/version.ts'
import { targetsOf } from '../config/target-entries.ts'
import { type MainSources, NO_ALERTS, NOT_SERVING, type OwnSources, type ServingFigures } from '../observe/metrics.ts'
import type { Generation } from '../request/generation.ts'
import type { LiveExchange } from '../request/send/live-exchange.ts'
import type { State } from '../state/state.ts'
import type { Store } from '../store/store.ts'
import type { Reloads } from './reload.ts'

/** The state of the unit that serves clients in this thread. */
export function servingFigures(
  { configuration, healthTracker, upstreams }: Generation,
  exchanges: readonly LiveExchange[],
  isOverloaded: boolean,
): ServingFigures {
  return {
    isOverloaded,
    held: heldBy(exchanges),
    targets: targetsOf(configuration).map(({ id, provider }) => {
      const { state = 'well', inflight = 0, ejections = 0 } = healthTracker.look(id) ?? {}
      return { provider, target: id, state, inflight, ejections }
    }),
    credentialsOut: [...configuration.providers.values()].flatMap(provider => {
      if (provider.dialect === 'demo') return []
      const good = upstreams.get(provider.name)?.goodCredentials() ?? 0
      return [[provider.name, provider.credentials.length - good] as const]
    }),
  }
}

function heldBy(exchanges: readonly LiveExchange[]): NanoUsd {
  // A settled hold no longer counts.
  return exchanges.reduce((sum, { hold = 0n, charge }) => (charge === null ? sum + hold : sum), 0n)
}

export interface OwnParts {
  readonly store: Store
  readonly thread: 'main' | 'serving'
  readonly deadlineClock: Pick<DeadlineClock, 'watch'>
  /** Undefined while the thread serves no client. */
  serving(): ServingFigures | undefined
}

/** The sources of each thread. */
export function ownSources({ store, thread, deadlineClock, serving }: OwnParts): OwnSources {
  return {
    serving: () => serving() ?? NOT_SERVING,
    unwritten: store.unwritten,
    writing: store.writing,
    node: { thread, watch: deadlineClock.watch, roundMs: ROUND_MS },
  }
}

export interface MainParts {
  readonly store: Store
  readonly state: Pick<State, 'queued' | 'health'>
  /** Undefined while the gateway starts. */
  serving(): { inflight(): number; queued(): number; threads(): ReturnType<MainSources['threads']> } | undefined
  reloads(): Reloads
  /** Undefined while the gateway starts. */
  alerts(): AlertRounds | undefined
  configHash(): string
}

/** The sources of the main thread only. */
export function mainSources({ store, state, serving, reloads, alerts, configHash }: MainParts): MainSources {
  return {
    version: VERSION,
    configHash,
    inflight: () => serving()?.inflight() ?? 0,
    inflightLimit: () => reloads().generation().configuration.limits.maxInflight,
    queued: () => state.queued() + (serving()?.queued() ?? 0),
    threads: () => serving()?.threads() ?? { answering: 0, silent: 0, deaths: 0 },
    configuration: () => ({ isCurrent: reloads().problem() === null, atMs: reloads().running().at }),
    holdsOpen: store.openHolds,
    ledgerHealthy: store.healthy,
    lease: store.lease,
    stateServer: state.health,
    alerts: () => alerts()?.figures() ?? NO_ALERTS,
  }
}
