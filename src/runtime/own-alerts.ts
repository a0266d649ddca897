/** The alerts of this process: observations of its providers and files, sent to the webhooks of the running configuration. */
import { hostname } from 'node:os'
import type { Clock, Random } from '#contract'
import { type AlertRounds, startAlertRounds } from '../alerts/alert-rounds.ts'
import type { DeadlineClock } from '../common/clock.ts'
import type { Logger } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Store } from '../store/store.ts'
import type { Reloads } from './reload.ts'
import type { ServingSet } from './serving.ts'

export interface OwnAlertsParts {
  readonly store: Store
  readonly clock: Clock
  readonly random: Random
  readonly deadlineClock: Pick<DeadlineClock, 'watch'>
  readonly log: Pick<Logger, 'log'>
  readonly metrics: Pick<Metrics, 'alertAttempted'>
  readonly reloads: Pick<Reloads, 'generation' | 'problem'>
  readonly serving: { readonly views: Pick<ServingSet['views'], 'providers'> }
}

export function startOwnAlerts({
  store,
  log,
  deadlineClock,
  metrics,
  reloads,
  serving,
  ...time
}: OwnAlertsParts): AlertRounds {
  return startAlertRounds({
    ...time,
    alerts: store.alerts,
    config: () => reloads.generation().configuration.alerts,
    state: async () => ({ providers: await serving.views.providers(), problem: reloads.problem() }),
    replica: store.replicas?.name ?? hostname(),
    log: log.log,
    watch: deadlineClock.watch,
    attempted: metrics.alertAttempted,
  })
}
