/**
 * What is known of each target: how it has done lately, how many attempts it has under way, how long its answers take to
 * begin. From that comes the order in which an exchange's targets are tried. A target that fails is put behind the
 * others for a while, never taken away: when all are sick, the first one is asked all the same.
 */
import type { ErrorCode, Target, TargetsView, UpstreamFailure } from '#contract'

/** Failures in a row after which a target is put behind the others. */
const FAILURES_IN_A_ROW = 5
/** Or: of so many attempts within the window, half failed. */
const FEWEST_TO_JUDGE = 10
const WINDOW_MS = 30_000
/** For the first time; doubled for each further one until an attempt succeeds. */
const EJECTED_MS = 15_000
const LONGEST_EJECTED_MS = 120_000
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

/** An attempt under way, seen from the board. Exactly one of the two ends is called, once. */
export interface Ticket {
  /** The answer has begun. @param streams whether it is a stream: of whole ones nothing comes before all is made */
  begun(streams: boolean): void
  /** It went well as far as the target is concerned. */
  good(): void
  bad(failure: UpstreamFailure): void
  /** Given up by us: nothing is learned of the target. */
  dropped(): void
}

export interface Board extends TargetsView {
  /**
   * Those that may be asked now, best first: the given order, with the sick and the limited behind. A target with as many
   * attempts under way as it takes is left out.
   */
  arrange(targets: readonly Target[]): readonly Target[]
  begin(target: Target): Ticket
  /** What is known of a target now, for operators; undefined when it was never asked. */
  look(target: string): TargetHealth | undefined
}

/** How a target does. Times are spans from now. */
export interface TargetHealth {
  readonly state: TargetState
  /** For how long it is still put behind the others; 0 when it is not. */
  readonly forMs: number
  readonly inflight: number
  readonly failuresInARow: number
  /** Of the last 30 seconds. */
  readonly attempts: number
  readonly failed: number
  /** To the first event of streams; null: not measured lately. */
  readonly latencyMs: number | null
}

/** `half_open`: its time behind the others is over, and one attempt tries it. */
export type TargetState = 'well' | 'limited' | 'ejected' | 'half_open'

/** What is known of one target. */
class Knowledge {
  inflight = 0
  inARow = 0
  /** The window's attempts, the oldest first. */
  results: { atMs: number; failed: boolean }[] = []
  ejections = 0
  ejectedUntilMs = 0
  limitedUntilMs = 0
  /** When the last limit was heard of: what was begun before says nothing against it. */
  limitedAtMs = 0
  /** Half-open: one attempt tries it, and the others wait for what it finds. */
  probing = false
  readonly latency = { stream: new Latency(), whole: new Latency() }
}

class Latency {
  ms: number | null = null
  measuredAtMs = 0

  take(ms: number, atMs: number): void {
    const isFresh = this.ms !== null && atMs - this.measuredAtMs < LATENCY_FRESH_MS
    this.ms = isFresh ? this.ms! + LATENCY_SHARE * (ms - this.ms!) : ms
    this.measuredAtMs = atMs
  }
}

/** @param now monotonic milliseconds */
export function createBoard(now: () => number, onEjected: (target: string, forMs: number) => void = () => {}): Board {
  const records = new Map<string, Knowledge>()
  const recordOf = (target: string): Knowledge => {
    let record = records.get(target)
    if (!record) {
      record = new Knowledge()
      records.set(target, record)
    }
    return record
  }

  function stateOf(record: Knowledge): TargetState {
    const at = now()
    if (at < record.ejectedUntilMs) return 'ejected'
    if (at < record.limitedUntilMs) return 'limited'
    return record.ejections > 0 ? 'half_open' : 'well'
  }

  /** 0: to be asked; 1: limited, which ends soon; 2: sick. */
  function rankOf(record: Knowledge): number {
    const state = stateOf(record)
    if (state === 'well') return 0
    if (state === 'half_open') return record.probing ? 2 : 0
    return state === 'limited' ? 1 : 2
  }

  function eject(target: string, record: Knowledge): void {
    const forMs = Math.min(EJECTED_MS * 2 ** record.ejections, LONGEST_EJECTED_MS)
    record.ejections++
    record.ejectedUntilMs = now() + forMs
    record.results = []
    record.inARow = 0
    onEjected(target, forMs)
  }

  function failed(target: string, record: Knowledge, wasProbe: boolean): void {
    record.inARow++
    note(record, true)
    const failures = record.results.filter(result => result.failed).length
    const half = record.results.length >= FEWEST_TO_JUDGE && failures * 2 >= record.results.length
    if (wasProbe || (stateOf(record) === 'well' && (record.inARow >= FAILURES_IN_A_ROW || half))) eject(target, record)
  }

  function note(record: Knowledge, failed: boolean): void {
    const atMs = now()
    record.results.push({ atMs, failed })
    while (record.results[0]!.atMs < atMs - WINDOW_MS || record.results.length > 200) record.results.shift()
  }

  return {
    arrange(targets) {
      const open = targets.filter(target => recordOf(target.id).inflight < target.maxInflight)
      // Nearly always all are well: then nothing moves.
      if (open.every(target => rankOf(recordOf(target.id)) === 0)) return open
      return open.toSorted((one, other) => rankOf(recordOf(one.id)) - rankOf(recordOf(other.id)))
    },
    begin(target) {
      const record = recordOf(target.id)
      const startedMs = now()
      const isProbe = stateOf(record) === 'half_open' && !record.probing
      if (isProbe) record.probing = true
      record.inflight++
      let over = false
      const end = (act: () => void) => {
        if (over) return
        over = true
        record.inflight--
        if (isProbe) record.probing = false
        act()
      }
      return {
        begun(streams) {
          record.latency[streams ? 'stream' : 'whole'].take(now() - startedMs, now())
        },
        good: () =>
          end(() => {
            record.inARow = 0
            // One that was begun before the ejection, or the limit, says nothing about the time after it.
            if (isProbe) record.ejections = 0
            if (startedMs > record.limitedAtMs) record.limitedUntilMs = 0
            note(record, false)
          }),
        bad: failure =>
          end(() => {
            if (failure.code === 'upstream_rate_limited') {
              record.limitedAtMs = now()
              record.limitedUntilMs = now() + (failure.retryAfterMs ?? LIMITED_MS)
            } else if (!NOT_ITS_FAULT.has(failure.code)) failed(target.id, record, isProbe)
            // Who refuses a request lives.
            else if (isProbe && failure.code !== 'overloaded') record.ejections = 0
          }),
        dropped: () => end(() => {}),
      }
    },
    look(target) {
      const record = records.get(target)
      if (!record) return undefined
      const recent = record.results.filter(({ atMs }) => atMs >= now() - WINDOW_MS)
      const { ms, measuredAtMs } = record.latency.stream
      return {
        state: stateOf(record),
        forMs: Math.max(0, record.ejectedUntilMs - now(), record.limitedUntilMs - now()),
        inflight: record.inflight,
        failuresInARow: record.inARow,
        attempts: recent.length,
        failed: recent.filter(({ failed }) => failed).length,
        latencyMs: now() - measuredAtMs < LATENCY_FRESH_MS ? ms : null,
      }
    },
    latencyMs(target, streams) {
      const record = records.get(target)
      const latency = record?.latency[streams ? 'stream' : 'whole']
      if (!record || !latency) return null
      // One request is enough to learn it anew: until its answer begins, the old value stands for the others.
      const isStale = now() - latency.measuredAtMs >= LATENCY_FRESH_MS
      return isStale && record.inflight === 0 ? null : latency.ms
    },
  }
}
