/**
 * The pumps: they turn the bytes of one attempt into the client's answer. A pump reports once that its answer is over: all but the
 * withheld end was sent, or the answer failed. After a disconnect, it is over when nothing more is awaited from the provider.
 */
import type { Chunk, OnDisconnect, StreamDecoder, UpstreamFailure } from '#contract'
import { type AnswerRoom, roomFailure, UNCOUNTED_BYTES } from '../../common/bytes.ts'
import type { DeadlineClock } from '../../common/clock.ts'
import type { Client } from './client.ts'
import { type ChunkItem, FinishFiller } from './fill.ts'
import type { Meter } from './meter.ts'
import { finishes, hasContent, type StreamAnswer } from './stream.ts'
import { TapError } from './taps.ts'

/** How an answer ended, as far as the pump knows. */
export type PumpEnding =
  | { readonly ending: 'complete' }
  | { readonly ending: 'failed'; readonly failure: UpstreamFailure }
  /** A step's watch or edit threw. */
  | { readonly ending: 'tapped'; readonly error: TapError }
  | { readonly ending: 'client_left' }
  | { readonly ending: 'cut' }

/** The attempt that feeds a pump. */
export interface Source {
  /** Ends the upstream request now. */
  abort(): void
  resume(): void
  /** Whether the request was sent: one that waits for a connection costs nothing. */
  readonly isSent: boolean
  /** Whether the provider may bill it: the request was sent, and no error has come back. */
  readonly isBillable: boolean
  /** The length of the answer from its head, else NaN. */
  readonly expectedBytes: number
}

/** Receives the answer of an attempt. Exactly one of `end` and `fail` is called, once. */
export interface Sink {
  /** @returns false to pause until `resume()` */
  data(bytes: Buffer): boolean
  end(): void
  fail(failure: UpstreamFailure): void
}

/** After a disconnect: how long to wait for the usage once every choice has finished. */
const USAGE_WAIT_MS = 2_000
/** How long an abandoned answer is read on with the policy `drain`. */
const DRAIN_MS = 30_000
/** How long the body may continue after `[DONE]`, before its connection is closed. */
const AFTER_DONE_MS = 1_000

const TOO_LATE = { code: 'upstream_invalid', detail: 'the stream does not end after its finish reason' } as const

export interface PumpParts extends AnswerRoom {
  readonly client: Client
  readonly meter: Meter
  readonly deadlineClock: DeadlineClock
  readonly onDisconnect: OnDisconnect
  /** Whether an answer that ends properly without a finish reason gets one. */
  readonly fillsFinish: boolean
  /** Called once, at the first content of a stream. */
  onBegun?(): void
  /** Called once, when the answer is over. Must not throw. */
  over(ending: PumpEnding): void
}

/** Shared by both pumps: one ending, disconnects, and cuts. */
export abstract class Pump implements Sink {
  /** Whether the answer exceeded its limit. Another attempt would cost the same again, so none is made. */
  overflowed = false
  protected source: Source | null = null
  protected readonly parts: PumpParts
  #isOver = false
  #unwatch: (() => void) | null = null
  #awaitsUsage = false

  constructor(parts: PumpParts) {
    this.parts = parts
  }

  abstract data(bytes: Buffer): boolean
  abstract end(): void

  /** Connects the attempt that feeds this pump. */
  feedFrom(source: Source): void {
    this.source = source
    this.parts.client.onResume(() => source.resume())
    // The answer may be over: the transport may be quicker than this call.
    if (this.#isOver) source.abort()
    else if (this.parts.client.left) this.leave()
  }

  fail(failure: UpstreamFailure): void {
    this.finish(this.parts.client.left ? { ending: 'client_left' } : { ending: 'failed', failure })
  }

  /** The client disconnected: stop, or read on to learn the cost of the answer. Nothing more is sent. */
  leave(): void {
    if (this.#isOver || this.#unwatch) return
    this.parts.meter.left = true
    if (this.parts.meter.complete) this.awaitUsage()
    else if (this.parts.onDisconnect === 'drain' && this.source?.isSent) this.#stopAfter(DRAIN_MS)
    else this.#stop({ ending: 'client_left' })
    this.source?.resume()
  }

  onStop(why: 'client_left' | 'cut'): void {
    if (why === 'cut') this.cut()
    else this.leave()
  }

  /** The shutdown's time is over. */
  cut(): void {
    this.#stop({ ending: 'cut' })
  }

  protected get isOver(): boolean {
    return this.#isOver
  }

  protected finish(ending: PumpEnding): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#unwatch?.()
    this.parts.over(ending)
  }

  /** The provider has finished, and the client disconnected. Starts the wait once: a stream that does not end gets no more time. */
  protected awaitUsage(): void {
    if (this.#awaitsUsage) return
    this.#awaitsUsage = true
    this.#stopAfter(USAGE_WAIT_MS)
  }

  /** A tap threw, or its promise was rejected. */
  protected tapped(error: unknown): void {
    this.finish({ ending: 'tapped', error: error instanceof TapError ? error : new TapError(-1, error) })
  }

  /** Ends the answer if this many bytes cannot be kept. */
  protected keep(bytes: number): void {
    const failure = roomFailure(bytes, this.parts)
    if (failure === null) return
    this.overflowed = true
    this.broken(failure)
  }

  /** Ends an answer that cannot be read any further. */
  protected broken(failure: UpstreamFailure): void {
    this.fail(failure)
    this.source?.abort()
  }

  /** Aborts the upstream request if it has not ended after this time. */
  #stopAfter(waitMs: number): void {
    this.#unwatch?.()
    const until = this.parts.deadlineClock.now() + waitMs
    this.#unwatch = this.parts.deadlineClock.watch(now => {
      if (now >= until) this.#stop({ ending: 'client_left' })
    })
  }

  #stop(ending: PumpEnding): void {
    if (this.#isOver) return
    const { meter } = this.parts
    // Only a disconnect that aborts a running, billable answer is charged by estimate; a failed or finished answer costs the same
    // without one.
    if (meter.left && !meter.finished && this.source?.isBillable) meter.abandoned = true
    this.finish(ending)
    this.source?.abort()
  }
}

/** Maximum number of chunks that wait for the first content: a role, annotations of a filter. */
const MAX_PRELUDE = 16

/**
 * Streams events to the client as they arrive. Only chunks before the first content are delayed. While nothing was sent, a failed attempt
 * can be followed by another one, and an error still has a status.
 */
export class StreamPump extends Pump {
  /** Whether anything was passed to the client's stream. */
  begun = false
  #prelude: ChunkItem[] = []
  readonly #decoder: StreamDecoder
  readonly #answer: StreamAnswer
  #done = false
  #anything = false
  /** A tap's promise is pending. */
  #waits = false
  /** The upstream body ended while a tap's promise was pending. */
  #endWaits = false
  /** Bytes since the last complete event. */
  #waitingBytes = 0
  /** Set if finish reasons are filled in. */
  readonly #filler: FinishFiller | null
  #unwatchBody: (() => void) | null = null

  constructor(parts: PumpParts, decoder: StreamDecoder, answer: StreamAnswer) {
    super(parts)
    this.#decoder = decoder
    this.#answer = answer
    this.#filler = parts.fillsFinish ? new FinishFiller() : null
  }

  data(bytes: Buffer): boolean {
    if (this.isOver || this.#done) return true
    this.#waitingBytes += bytes.length
    const keepsUp = this.#take(bytes)
    const largest = Math.min(this.parts.largestBytes, UNCOUNTED_BYTES)
    if (this.#waitingBytes > largest && !this.isOver) this.keep(this.#waitingBytes)
    return keepsUp
  }

  end(): void {
    this.#unwatchBody?.()
    if (this.isOver) return
    if (!this.#done) this.#take(null)
    if (this.isOver) return
    if (this.#done && this.#filler && !this.parts.meter.finished) this.#fillFinish(this.#filler)
    if (this.isOver) return
    if (this.#waits) this.#endWaits = true
    else this.#complete()
  }

  /**
   * Once the upstream body has ended, only promises of the steps' taps are pending: a later failure of the provider does not count.
   */
  override fail(failure: UpstreamFailure): void {
    if (!this.#endWaits) super.fail(failure)
  }

  #complete(): void {
    const { client, meter } = this.parts
    if (client.left) this.finish({ ending: 'client_left' })
    // After [DONE], one finish reason is enough; without it, every choice must have finished.
    else if (this.#done ? meter.finished : meter.complete) this.finish({ ending: 'complete' })
    else this.finish({ ending: 'failed', failure: this.#unfinished() })
  }

  /** Why a stream that ended properly is invalid. */
  #unfinished(): UpstreamFailure {
    if (!this.#anything) return { code: 'upstream_invalid', detail: 'the answer contains no stream events' }
    const detail = this.#done
      ? 'the stream sent [DONE] without a finish reason (missing_finish)'
      : 'the stream ended without a finish reason for every choice'
    return { code: 'upstream_truncated', detail }
  }

  /**
   * If a hostile stream makes the decoder or the meter throw, only this answer ends.
   * @param bytes null: the body is over
   */
  #take(bytes: Buffer | null): boolean {
    let keepsUp = true
    try {
      const items = bytes === null ? this.#decoder.end() : this.#decoder.push(bytes)
      for (let at = 0; at < items.length; at++) {
        const item = items[at]!
        this.#anything = true
        this.#waitingBytes = 0
        if (item.kind === 'chunk') keepsUp = this.#chunk(item) && keepsUp
        else if (item.kind === 'usage') this.parts.meter.reported(item.usage)
        else if (item.kind === 'done') this.#ended()
        else this.broken(item.failure)
        if (this.isOver || this.#done) return true
      }
    } catch (error) {
      this.broken({ code: 'upstream_invalid', detail: `the stream could not be read: ${error}` })
    }
    return keepsUp
  }

  /** Providers that omit the finish reason send all content before `[DONE]`. */
  #fillFinish(filler: FinishFiller): void {
    const held = filler.release()
    const finish = filler.finish(this.parts.meter.unfinished)
    if (finish === null) return
    this.#chunk(finish)
    if (held && !this.isOver && !this.parts.client.left) this.#hand(held.chunk, held.raw)
  }

  #chunk(item: ChunkItem): boolean {
    const { meter, client } = this.parts
    const { text } = item
    const isPassed = text && this.begun && this.#filler === null && !client.left && this.#answer.passesText
    if (isPassed && meter.text(text)) return this.#isBeyond() || this.#answer.text(text)
    const { chunk, raw, usage } = item
    this.#filler?.note(chunk)
    meter.chunk(chunk)
    // After its chunk: whether that was the last one decides how far the usage is trusted.
    if (usage) meter.reported(usage)
    if (this.#isBeyond()) return true
    if (client.left) {
      if (meter.complete) this.awaitUsage()
      return true
    }
    if (!this.begun && !hasContent(chunk) && !finishes(chunk) && this.#prelude.length < MAX_PRELUDE) {
      this.#prelude.push(item)
      return true
    }
    return this.#filler === null ? this.#hand(chunk, raw) : this.#handInOrder(item, this.#filler)
  }

  /** Whether the provider exceeds the output cap by far. The answer has ended then. */
  #isBeyond(): boolean {
    if (!this.parts.meter.beyondCeiling) return false
    this.broken({ code: 'upstream_invalid', detail: 'the provider ignores the output cap of the request' })
    return true
  }

  /** A chunk with usage and without content waits for the next one: the filled-in finish must precede it. */
  #handInOrder(item: ChunkItem, filler: FinishFiller): boolean {
    const before = filler.release()
    const keepsUp = before === null || this.#hand(before.chunk, before.raw)
    if (this.isOver) return true
    if (item.chunk.usage && !this.parts.meter.finished && !hasContent(item.chunk)) {
      filler.hold(item)
      return keepsUp
    }
    return this.#hand(item.chunk, item.raw) && keepsUp
  }

  #hand(chunk: Chunk, raw: Buffer | null): boolean {
    try {
      if (!this.begun) {
        this.begun = true
        this.parts.onBegun?.()
      }
      const prelude = this.#prelude
      if (prelude.length > 0) {
        this.#prelude = []
        for (const before of prelude) this.#answer.chunk(before.chunk, before.raw)
      }
      const keepsUp = this.#answer.chunk(chunk, raw)
      if (this.#answer.busy && !this.#waits) void this.#wait()
      if (this.#answer.tailTooLong) this.broken(TOO_LATE)
      return keepsUp
    } catch (error) {
      this.tapped(error)
      this.source?.abort()
      return true
    }
  }

  /** Waits for the promises of the taps. Meanwhile the upstream body is paused, and its end waits too. */
  async #wait(): Promise<void> {
    this.#waits = true
    try {
      let keepsUp = true
      while (this.#answer.busy) keepsUp = await this.#answer.busy
      this.#waits = false
      if (this.isOver) return
      if (this.#answer.tailTooLong) this.broken(TOO_LATE)
      else if (this.#endWaits) this.#complete()
      else if (keepsUp) this.source?.resume()
    } catch (error) {
      if (this.isOver) return
      this.tapped(error)
      this.source?.abort()
    }
  }

  /** `[DONE]`: the answer is over. The body gets a moment to end, so that the connection can be reused. */
  #ended(): void {
    this.#done = true
    this.end()
    const { deadlineClock } = this.parts
    const until = deadlineClock.now() + AFTER_DONE_MS
    const unwatch = deadlineClock.watch(now => {
      if (now < until) return
      unwatch()
      this.source?.abort()
    })
    this.#unwatchBody = unwatch
  }
}
