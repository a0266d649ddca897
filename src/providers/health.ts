/**
 * The health of each target: recent results, attempts in progress, latency. It determines the order in which an exchange tries its
 * targets. A failing target is ejected: it moves behind the others for a while, but is never removed. If all are failing, the first one
 * is tried anyway.
 */
import type { ErrorCode, Target, TargetsView, UpstreamFailure } from '#contract'

/** Consecutive failures that eject a target. */
const FAILURES_IN_A_ROW = 5
/** Or: half of the attempts within the window failed, of at least this many. */
const MIN_TO_JUDGE = 10
const WINDOW_MS = 30_000
/** Length of the first ejection; doubled for each further one until an attempt succeeds. */
const EJECTED_MS = 15_000
const MAX_EJECTED_MS = 120_000
/** Weight of a new latency against the average so far. */
const LATENCY_SHARE = 0.2

/** An older latency is discarded: one request measures it anew. */
const LATENCY_FRESH_MS = 60_000

/** Failures that do not count against the target: the request caused them, or the gateway (no free connection). */
const NOT_ITS_FAULT: ReadonlySet<ErrorCode> = new Set([
  'overloaded',
  'upstream_forbidden',
  'upstream_rejected',
  'context_length_exceeded',
  'content_filter',
  'request_too_large',
  'upstream_too_large',
  'unsupported_parameter',
])
/** How long a rate-limited target is avoided if the provider does not say. */
const LIMITED_MS = 1000

/** The health of a target. Times are spans from now. */
export interface TargetHealth {
  readonly state: TargetState
  /** How long the ejection or the limit still lasts; 0 without one. */
  readonly forMs: number
  readonly inflight: number
  readonly failuresInARow: number
  /** Number of ejections since the start. */
  readonly ejections: number
  /** In the last 30 seconds. */
  readonly attempts: number
  readonly failed: number
  /** Until the first event of streams; null if not measured recently. */
  readonly latencyMs: number | null
}

/** `half_open`: the ejection is over, and one attempt probes the target. */
export type TargetState = 'well' | 'limited' | 'ejected' | 'half_open'

class Latency {
  ms: number | null = null
  measuredAtMs = 0

  take(ms: number, atMs: number): void {
    const isFresh = this.ms !== null && atMs - this.measuredAtMs < LATENCY_FRESH_MS
    this.ms = isFresh ? this.ms! + LATENCY_SHARE * (ms - this.ms!) : ms
    this.measuredAtMs = atMs
  }
}

class TargetRecord {
  inflight = 0
  inARow = 0
  /** The attempts in the window, oldest first. */
  results: { atMs: number; failed: boolean }[] = []
  ejections = 0
  allEjections = 0
  ejectedUntilMs = 0
  limitedUntilMs = 0
  /** When the last rate limit was reported. A success of an attempt that started before it does not end the limit. */
  limitedAtMs = 0
  /** Half-open: one attempt is probing the target, and the others wait for its result. */
  probing = false
  readonly stream = new Latency()
  readonly whole = new Latency()

  stateAt(atMs: number): TargetState {
    if (atMs < this.ejectedUntilMs) return 'ejected'
    if (atMs < this.limitedUntilMs) return 'limited'
    return this.ejections > 0 ? 'half_open' : 'well'
  }

  /** 0: usable; 1: rate-limited, which ends soon; 2: ejected, or being probed. */
  rankAt(atMs: number): number {
    const state = this.stateAt(atMs)
    if (state === 'well') return 0
    if (state === 'half_open') return this.probing ? 2 : 0
    return state === 'limited' ? 1 : 2
  }

  note(atMs: number, failed: boolean): void {
    this.results.push({ atMs, failed })
    while (this.results[0]!.atMs < atMs - WINDOW_MS || this.results.length > 200) this.results.shift()
  }

  /** Whether a target that is not ejected has too many failures. */
  get isFailing(): boolean {
    const failures = this.results.filter(result => result.failed).length
    const half = this.results.length >= MIN_TO_JUDGE && failures * 2 >= this.results.length
    return this.inARow >= FAILURES_IN_A_ROW || half
  }
}

/** An attempt in progress. The first call of `good`, `bad` or `dropped` counts. */
export class TrackedAttempt {
  readonly #healthTracker: HealthTracker
  readonly #target: string
  readonly #record: TargetRecord
  readonly #startedMs: number
  #isProbe: boolean
  #isOver = false

  constructor(healthTracker: HealthTracker, target: string, record: TargetRecord, atMs: number) {
    this.#healthTracker = healthTracker
    this.#target = target
    this.#record = record
    this.#startedMs = atMs
    this.#isProbe = record.stateAt(this.#startedMs) === 'half_open' && !record.probing
    if (this.#isProbe) record.probing = true
    record.inflight++
  }

  /** The answer has begun. @param streams whether it is a stream; a whole answer begins only when all of it is ready */
  begun(streams: boolean, atMs = this.#healthTracker.now()): void {
    this.#record[streams ? 'stream' : 'whole'].take(atMs - this.#startedMs, atMs)
  }

  /** The stream has begun without an error. A probe succeeds here, however long the stream takes. */
  streams(): void {
    if (this.#isOver || !this.#isProbe) return
    this.#isProbe = this.#record.probing = false
    this.#record.ejections = 0
  }

  /** The attempt ended without a failure of the target. */
  good(atMs = this.#healthTracker.now()): void {
    // An attempt that started before the ejection or the limit does not end it.
    this.streams()
    if (!this.#ends()) return
    const record = this.#record
    record.inARow = 0
    if (this.#startedMs > record.limitedAtMs) record.limitedUntilMs = 0
    record.note(atMs, false)
  }

  bad(failure: UpstreamFailure): void {
    if (!this.#ends()) return
    const record = this.#record
    if (failure.code === 'upstream_rate_limited') {
      record.limitedAtMs = this.#healthTracker.now()
      record.limitedUntilMs = record.limitedAtMs + (failure.retryAfterMs ?? LIMITED_MS)
    } else if (!NOT_ITS_FAULT.has(failure.code)) this.#failed()
    // The target answered, though with a refusal: the probe succeeded.
    else if (this.#isProbe && failure.code !== 'overloaded') record.ejections = 0
  }

  /** The gateway ended the attempt: it says nothing about the target. */
  dropped(): void {
    this.#ends()
  }

  #ends(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    this.#record.inflight--
    if (this.#isProbe) this.#record.probing = false
    return true
  }

  #failed(): void {
    const record = this.#record
    const atMs = this.#healthTracker.now()
    record.inARow++
    record.note(atMs, true)
    if (this.#isProbe || (record.stateAt(atMs) === 'well' && record.isFailing))
      this.#healthTracker.eject(this.#target, record)
  }
}

export class HealthTracker implements TargetsView {
  readonly now: () => number
  readonly #onEjected: (target: string, forMs: number) => void
  readonly #records = new Map<string, TargetRecord>()
  /** Number of configurations that have each target. */
  readonly #users = new Map<string, number>()

  /**
   * @param now monotonic milliseconds
   * @param onEjected called when a target is ejected, with the duration
   */
  constructor(now: () => number, onEjected: (target: string, forMs: number) => void = () => {}) {
    this.now = now
    this.#onEjected = onEjected
  }

  /**
   * The targets that may be tried now, best first: in the given order, with the ejected and the rate-limited ones last. Omits a target
   * at its `max_inflight`.
   */
  arrange(targets: readonly Target[]): readonly Target[] {
    const atMs = this.now()
    // The usual case: all are healthy, so the order stays.
    if (targets.every(target => this.#isOpen(target) && this.#recordOf(target.id).rankAt(atMs) === 0)) return targets
    const rankOf = ({ id }: Target) => this.#recordOf(id).rankAt(atMs)
    return targets.filter(target => this.#isOpen(target)).sort((one, other) => rankOf(one) - rankOf(other))
  }

  begin({ id }: Pick<Target, 'id'>, atMs = this.now()): TrackedAttempt {
    return new TrackedAttempt(this, id, this.#recordOf(id), atMs)
  }

  /** A configuration with these targets is now in use. */
  keep(targets: readonly Pick<Target, 'id'>[]): void {
    for (const { id } of targets) this.#users.set(id, (this.#users.get(id) ?? 0) + 1)
  }

  /** A configuration with these targets is not in use any more. The last user of a target deletes its record. */
  release(targets: readonly Pick<Target, 'id'>[]): void {
    for (const { id } of targets) {
      const left = this.#users.get(id)! - 1
      if (left > 0) this.#users.set(id, left)
      else {
        this.#users.delete(id)
        this.#records.delete(id)
      }
    }
  }

  /** The current health of a target, for operators; undefined if it was never tried. */
  look(target: string): TargetHealth | undefined {
    const record = this.#records.get(target)
    if (!record) return undefined
    const atMs = this.now()
    const recent = record.results.filter(result => result.atMs >= atMs - WINDOW_MS)
    const { ms, measuredAtMs } = record.stream
    return {
      state: record.stateAt(atMs),
      forMs: Math.max(0, record.ejectedUntilMs - atMs, record.limitedUntilMs - atMs),
      inflight: record.inflight,
      failuresInARow: record.inARow,
      ejections: record.allEjections,
      attempts: recent.length,
      failed: recent.filter(({ failed }) => failed).length,
      latencyMs: atMs - measuredAtMs < LATENCY_FRESH_MS ? ms : null,
    }
  }

  latencyMs(target: string, streams: boolean): number | null {
    const record = this.#records.get(target)
    if (!record) return null
    const latency = record[streams ? 'stream' : 'whole']
    // One request is enough to measure it anew. Until its answer begins, the old value is used for the others.
    const isStale = this.now() - latency.measuredAtMs >= LATENCY_FRESH_MS
    return isStale && record.inflight === 0 ? null : latency.ms
  }

  /** Ejects a target, longer each time. */
  eject(target: string, record: TargetRecord): void {
    const forMs = Math.min(EJECTED_MS * 2 ** record.ejections, MAX_EJECTED_MS)
    record.ejections++
    record.allEjections++
    record.ejectedUntilMs = this.now() + forMs
    record.results = []
    record.inARow = 0
    this.#onEjected(target, forMs)
  }

  #isOpen({ id, maxInflight }: Target): boolean {
    return this.#recordOf(id).inflight < maxInflight
  }

  #recordOf(target: string): TargetRecord {
    let record = this.#records.get(target)
    if (!record) {
      record = new TargetRecord()
      this.#records.set(target, record)
    }
    return record
  }
}
