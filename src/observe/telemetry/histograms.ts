/**
 * The histograms of the GenAI conventions, cumulative since the start. The SDK is not used: it builds and sorts a set of
 * attributes for each value, which takes 1 µs. Here a series is looked up by texts that exist already.
 */
import type { Clock } from '#contract'
import type { MetricsExport } from './encoding.ts'
import { hrTime } from './encoding.ts'
import type { Peer } from './peer.ts'

/** The labels of a series. Every text comes from the configuration or from a closed list, except the model of a raw route. */
export interface Labels {
  /** `gen_ai.operation.name`. */
  readonly operation: string
  readonly peer: Peer
  /** The provider's name for the model; null: unknown. */
  readonly model: string | null
  /** `error.type`; null: there was no error. */
  readonly error: string | null
}

const SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const TOKENS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]

/** Maximum number of series of a histogram. Series of models and providers that a reload removed stay until the telemetry ends. */
const MAX_SERIES = 2000

interface Series {
  readonly attributes: Readonly<Record<string, string | number>>
  readonly counts: number[]
  count: number
  sum: number
  min: number
  max: number
}

/** The series of one operation, peer, model and error. Each is created on first use, because it is exported from then on. */
interface KnownSeries {
  readonly operation: string
  readonly error: string | null
  duration?: Series
  firstChunk?: Series
  input?: Series
  output?: Series
}

type Kind = Exclude<keyof KnownSeries, 'operation' | 'error'>

const isOf = (known: KnownSeries, { operation, error }: Labels) =>
  known.operation === operation && known.error === error

class Histogram {
  readonly #descriptor: Descriptor
  readonly #bounds: readonly number[]
  readonly #series = new Map<string, Series>()

  constructor(name: string, unit: string, description: string, bounds: readonly number[]) {
    this.#descriptor = { name, unit, description }
    this.#bounds = bounds
  }

  /**
   * Finds or creates a series. Null: there are too many.
   * @param type `gen_ai.token.type`; empty: none
   */
  series(labels: Labels, type: string): Series | null {
    const { operation, peer, model, error } = labels
    // Exactly the attributes: a collector would take two series with the same attributes for one that contradicts itself.
    const key = `${operation} ${peer.provider} ${peer.address} ${peer.port} ${model} ${error} ${type}`
    let series = this.#series.get(key)
    if (series === undefined) {
      if (this.#series.size >= MAX_SERIES) return null
      series = { attributes: attributesOf(labels, type), counts: [], count: 0, sum: 0, min: Infinity, max: 0 }
      for (let bucket = 0; bucket <= this.#bounds.length; bucket++) series.counts.push(0)
      this.#series.set(key, series)
    }
    return series
  }

  add(value: number, series: Series): void {
    let bucket = 0
    while (bucket < this.#bounds.length && value > this.#bounds[bucket]!) bucket++
    series.counts[bucket]!++
    series.count++
    series.sum += value
    if (value < series.min) series.min = value
    if (value > series.max) series.max = value
  }

  data(startedAt: number, now: number): Metric | null {
    if (this.#series.size === 0) return null
    return {
      descriptor: { ...this.#descriptor, type: 'HISTOGRAM', valueType: 1, advice: {} },
      aggregationTemporality: CUMULATIVE,
      dataPointType: HISTOGRAM,
      dataPoints: [...this.#series.values()].map(({ attributes, counts, count, sum, min, max }) => ({
        startTime: hrTime(startedAt),
        endTime: hrTime(now),
        attributes,
        value: { buckets: { boundaries: [...this.#bounds], counts: [...counts] }, count, sum, min, max },
      })),
    } as unknown as Metric
  }
}

interface Descriptor {
  readonly name: string
  readonly unit: string
  readonly description: string
}

/** Values of the encoder's enums. */
const CUMULATIVE = 1
const HISTOGRAM = 0

type Metric = MetricsExport['scopeMetrics'][number]['metrics'][number]

function attributesOf({ operation, peer, model, error }: Labels, type: string): Record<string, string | number> {
  return {
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': peer.provider,
    ...(model === null ? {} : { 'gen_ai.request.model': model }),
    ...(peer.address === null ? {} : { 'server.address': peer.address, 'server.port': peer.port! }),
    ...(error === null ? {} : { 'error.type': error }),
    ...(type === '' ? {} : { 'gen_ai.token.type': type }),
  }
}

export class GenAiHistograms {
  readonly #startedAt: number
  readonly #clock: Clock
  readonly #durations = new Histogram('gen_ai.client.operation.duration', 's', 'GenAI operation duration.', SECONDS)
  readonly #firstChunks = new Histogram(
    'gen_ai.client.operation.time_to_first_chunk',
    's',
    'Time from the request to the first chunk of a streamed answer.',
    SECONDS,
  )
  readonly #tokens = new Histogram(
    'gen_ai.client.token.usage',
    '{token}',
    'Number of input and output tokens used.',
    TOKENS,
  )

  /** By the peer of a provider's entry, which a reload may replace, and by the model. */
  readonly #known = new WeakMap<Peer, Map<string | null, KnownSeries[]>>()

  constructor(clock: Clock) {
    this.#clock = clock
    this.#startedAt = clock.now()
  }

  duration(ms: number, labels: Labels): void {
    this.#observe(ms / 1000, labels, this.#durations, 'duration')
  }

  firstChunk(ms: number, labels: Labels): void {
    this.#observe(ms / 1000, labels, this.#firstChunks, 'firstChunk')
  }

  tokens(input: number, output: number, labels: Labels): void {
    this.#observe(input, labels, this.#tokens, 'input')
    this.#observe(output, labels, this.#tokens, 'output')
  }

  #observe(value: number, labels: Labels, histogram: Histogram, kind: Kind): void {
    // One absurd value would corrupt the sum permanently.
    if (!(value >= 0 && value <= Number.MAX_SAFE_INTEGER)) return
    const known = this.#known.get(labels.peer)?.get(labels.model)
    let at = 0
    while (known && at < known.length && !isOf(known[at]!, labels)) at++
    const series = known?.[at]?.[kind] ?? this.#find(labels, histogram, kind)
    if (series !== null) histogram.add(value, series)
  }

  #find(labels: Labels, histogram: Histogram, kind: Kind): Series | null {
    const { peer, model, operation, error } = labels
    const series = histogram.series(labels, kind === 'input' || kind === 'output' ? kind : '')
    // A raw route's model may be any text, so nothing is kept for a model without a series.
    if (series === null) return null
    const ofPeer = this.#known.get(peer) ?? new Map<string | null, KnownSeries[]>()
    const ofModel = ofPeer.get(model) ?? []
    this.#known.set(peer, ofPeer.set(model, ofModel))
    let known = ofModel.find(each => isOf(each, labels))
    if (known === undefined) ofModel.push((known = { operation, error }))
    known[kind] = series
    return series
  }

  /** Empty if nothing was counted yet. */
  data(): Metric[] {
    const now = this.#clock.now()
    const all = [this.#durations, this.#firstChunks, this.#tokens]
    return all.map(each => each.data(this.#startedAt, now)).filter(each => each !== null)
  }
}
