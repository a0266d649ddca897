/**
 * What is known of each target: how it has done lately, how many attempts it has under way, how long its answers take to
 * begin. From that comes the order in which an exchange's targets are tried. A target that fails is put behind the
 * others for a while, never taken away: when all are sick, the first one is asked all the same.
 */
import type { ErrorCode, Target, TargetsView, UpstreamFailure } from '#contract'

/** Failures in a row after which a target is put behind the others. */
const FAILURES_IN_A_ROW = 5
/** Or: of so many attempts within the window, half failed. */
const MIN_TO_JUDGE = 10
const WINDOW_MS = 30_000
/** For the first time; doubled for each further one until an attempt succeeds. */
const EJECTED_MS = 15_000
const MAX_EJECTED_MS = 120_000
/** How much a new latency counts against the ones before it. */
const LATENCY_SHARE = 0.2

/** A latency that was measured longer ago is not believed any more: the target is asked once to learn the new one. */
const LATENCY_FRESH_MS = 60_000

/** Failures that say nothing of the target's health: they are the request's own, or the gateway's (no free connection). */
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
/** Until when a limited target is left alone when it does not say. */
const LIMITED_MS = 1000

/** How a target does. Times are spans from now. */
export interface TargetHealth {
  readonly state: TargetState
  /** For how long it is still put behind the others; 0 when it is not. */
  readonly forMs: number
  readonly inflight: number
  readonly failuresInARow: number
  /** How often it was put behind the others since the start. */
  readonly ejections: number
  /** Of the last 30 seconds. */
  readonly attempts: number
  readonly failed: number
  /** To the first event of streams; null: not measured lately. */
  readonly latencyMs: number | null
}

/** `half_open`: its time behind the others is over, and one attempt tries it. */
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

/** What is known of one target. */
class Knowledge {
  inflight = 0
  inARow = 0
  /** The window's attempts, the oldest first. */
  results: { atMs: number; failed: boolean }[] = []
  ejections = 0
  allEjections = 0
  ejectedUntilMs = 0
  limitedUntilMs = 0
  /** When the last limit was heard of: what was begun before says nothing against it. */
  limitedAtMs = 0
  /** Half-open: one attempt tries it, and the others wait for what it finds. */
  probing = false
  readonly stream = new Latency()
  readonly whole = new Latency()

  stateAt(atMs: number): TargetState {
    if (atMs < this.ejectedUntilMs) return 'ejected'
    if (atMs < this.limitedUntilMs) return 'limited'
    return this.ejections > 0 ? 'half_open' : 'well'
  }

  /** 0: to be asked; 1: limited, which ends soon; 2: sick. */
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

  /** Whether the failures are too many for a target that is asked like the others. */
  get isSick(): boolean {
    const failures = this.results.filter(result => result.failed).length
    const half = this.results.length >= MIN_TO_JUDGE && failures * 2 >= this.results.length
    return this.inARow >= FAILURES_IN_A_ROW || half
  }
}

/** An attempt under way. Exactly one of `good`, `bad` and `dropped` counts: the first. */
export class TrackedAttempt {
  readonly #healthTracker: HealthTracker
  readonly #target: string
  readonly #record: Knowledge
  readonly #startedMs: number
  #isProbe: boolean
  #isOver = false

  constructor(healthTracker: HealthTracker, target: string, record: Knowledge, atMs: number) {
    this.#healthTracker = healthTracker
    this.#target = target
    this.#record = record
    this.#startedMs = atMs
    this.#isProbe = record.stateAt(this.#startedMs) === 'half_open' && !record.probing
    if (this.#isProbe) record.probing = true
    record.inflight++
  }

  /** The answer has begun. @param streams whether it is a stream: of whole ones nothing comes before all is made */
  begun(streams: boolean, atMs = this.#healthTracker.now()): void {
    this.#record[streams ? 'stream' : 'whole'].take(atMs - this.#startedMs, atMs)
  }

  /** Its stream has begun well: a probe has found what it was for, however long the rest takes. */
  streams(): void {
    if (this.#isOver || !this.#isProbe) return
    this.#isProbe = this.#record.probing = false
    this.#record.ejections = 0
  }

  /** It went well as far as the target is concerned. */
  good(atMs = this.#healthTracker.now()): void {
    // One that was begun before the ejection, or the limit, says nothing about the time after it.
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
    // Who refuses a request lives.
    else if (this.#isProbe && failure.code !== 'overloaded') record.ejections = 0
  }

  /** Given up by us: nothing is learned of the target. */
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
    if (this.#isProbe || (record.stateAt(atMs) === 'well' && record.isSick))
      this.#healthTracker.eject(this.#target, record)
  }
}

export class HealthTracker implements TargetsView {
  readonly now: () => number
  readonly #onEjected: (target: string, forMs: number) => void
  readonly #records = new Map<string, Knowledge>()
  /** How many configurations have each target. */
  readonly #users = new Map<string, number>()

  /**
   * @param now monotonic milliseconds
   * @param onEjected told of a target that is put behind the others, and for how long
   */
  constructor(now: () => number, onEjected: (target: string, forMs: number) => void = () => {}) {
    this.now = now
    this.#onEjected = onEjected
  }

  /**
   * Those that may be asked now, best first: the given order, with the sick and the limited behind. A target with as many
   * attempts under way as it takes is left out.
   */
  arrange(targets: readonly Target[]): readonly Target[] {
    const atMs = this.now()
    // Nearly always all are well: then nothing moves.
    if (targets.every(target => this.#isOpen(target) && this.#recordOf(target.id).rankAt(atMs) === 0)) return targets
    const rankOf = ({ id }: Target) => this.#recordOf(id).rankAt(atMs)
    return targets.filter(target => this.#isOpen(target)).sort((one, other) => rankOf(one) - rankOf(other))
  }

  begin({ id }: Pick<Target, 'id'>, atMs = this.now()): TrackedAttempt {
    return new TrackedAttempt(this, id, this.#recordOf(id), atMs)
  }

  /** A configuration with these targets begins to be used. */
  keep(targets: readonly Pick<Target, 'id'>[]): void {
    for (const { id } of targets) this.#users.set(id, (this.#users.get(id) ?? 0) + 1)
  }

  /** A configuration with these targets is used no more. The last one that has a target takes its record along. */
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

  /** What is known of a target now, for operators; undefined when it was never asked. */
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
    // One request is enough to learn it anew: until its answer begins, the old value stands for the others.
    const isStale = this.now() - latency.measuredAtMs >= LATENCY_FRESH_MS
    return isStale && record.inflight === 0 ? null : latency.ms
  }

  /** Puts a target behind the others for a while: longer each time. */
  eject(target: string, record: Knowledge): void {
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

  #recordOf(target: string): Knowledge {
    let record = this.#records.get(target)
    if (!record) {
      record = new Knowledge()
      this.#records.set(target, record)
    }
    return record
  }
}
