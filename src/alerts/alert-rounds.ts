/** The regular work of alerts: detects trouble and low balances, sends due alerts, and removes old ones. */
import type { Clock, Log, Random } from '#contract'
import type { AlertsConfig } from '../common/alerts-config.ts'
import type { AlertFigures, Alerts, NewAlert } from '../store/alerts/alert-rows.ts'
import { Episodes, type ProcessState } from './episodes.ts'
import { type DeliveryResult, Sender } from './sender.ts'

export interface AlertRoundsParts {
  readonly alerts: Alerts
  /** The running configuration. */
  config(): AlertsConfig
  /** The state of this process now. */
  state(): Promise<ProcessState>
  /** The name of this process for people. */
  readonly replica: string
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** Calls `check` repeatedly with the monotonic time in milliseconds, until the returned function is called. */
  watch(check: (atMs: number) => void): () => void
  attempted(receiver: string, result: DeliveryResult): void
}

export interface AlertRounds {
  /** As of the last round. */
  figures(): AlertFigures
  close(): Promise<void>
}

const EVERY_MS = 2000
const BALANCES_EVERY_MS = 10_000
const FIGURES_EVERY_MS = 10_000
const SWEEP_EVERY_MS = 60_000
/** Maximum number of alerts that the store has not accepted; more are dropped. */
const MOST_UNWRITTEN = 100

/** Starts the rounds. A round begins after the one before has ended. */
export function startAlertRounds(parts: AlertRoundsParts): AlertRounds {
  const { alerts, clock, log } = parts
  const sender = new Sender({ ...parts, webhooks: () => parts.config().webhooks })
  const episodes = new Episodes(parts.replica)
  let unwritten: readonly NewAlert[] = []
  let figures: AlertFigures = { kinds: new Map(), waiting: new Map() }
  let round: Promise<void> | null = null
  let isFailing = false

  async function writeEpisodes(): Promise<void> {
    unwritten = [...unwritten, ...episodes.begun(await parts.state(), clock.now())].slice(0, MOST_UNWRITTEN)
    if (unwritten.length > 0) await alerts.put(unwritten)
    unwritten = []
  }

  async function lookAtBalances(): Promise<void> {
    const { lowBalance } = parts.config()
    if (lowBalance !== null) await alerts.lookAtBalances(lowBalance, clock.now())
  }

  const tasks: readonly (readonly [everyMs: number, task: () => Promise<void>])[] = [
    [EVERY_MS, writeEpisodes],
    [BALANCES_EVERY_MS, lookAtBalances],
    [EVERY_MS, () => sender.look()],
    [FIGURES_EVERY_MS, async () => void (figures = await alerts.figures(clock.now()))],
    [SWEEP_EVERY_MS, () => alerts.sweep(clock.now() - parts.config().keepMs)],
  ]
  const lastAtMs = tasks.map(() => Number.NEGATIVE_INFINITY)
  let config = parts.config()

  async function run(atMs: number): Promise<void> {
    if (config !== parts.config()) lastAtMs.fill(Number.NEGATIVE_INFINITY)
    config = parts.config()
    let failure: unknown = null
    for (const [index, [everyMs, task]] of tasks.entries()) {
      if (atMs - lastAtMs[index]! < everyMs) continue
      lastAtMs[index] = atMs
      // A failed task must not prevent the others.
      await task().catch((error: unknown) => (failure ??= error))
    }
    // Readiness reports the problem of the store; the next round tries again.
    if (failure !== null && !isFailing) log.warn({ error: failure }, 'alerts cannot be written or read now')
    isFailing = failure !== null
  }

  const unwatch = parts.watch(atMs => {
    if (round !== null || atMs - lastAtMs[0]! < EVERY_MS) return
    round = run(atMs).finally(() => {
      round = null
    })
  })
  return {
    figures: () => figures,
    async close() {
      unwatch()
      await Promise.all([round, sender.close()])
    },
  }
}
