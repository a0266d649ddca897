/**
 * The registry of counters, gauges and histograms. Prints the Prometheus exposition format 0.0.4, or OpenMetrics 1.0, which adds
 * exemplars. The label sets of a metric are bounded; further ones are counted under the label value `other`.
 */

import { escapeHelp, LabelSets, labelText } from './label-sets.ts'

export type MetricType = 'counter' | 'gauge' | 'histogram'

export interface MetricDefinition {
  readonly name: string
  readonly type: MetricType
  /** In the order of the values. */
  readonly labels: readonly string[]
  readonly help: string
  /**
   * For metrics that are read on each scrape and that each thread has: shows their sum or the largest value. Without it, only
   * the main thread is read.
   */
  readonly ofThreads?: 'sum' | 'largest'
}

/** A value that is read on a scrape, with its labels in the order of the definition. */
export type Labelled<Value> = readonly [labels: readonly string[], value: Value]

/** The sum of one label set. */
export class Sum {
  sum = 0

  /**
   * Ignores amounts of 0 or less, and amounts above the largest safe integer, because one would corrupt the sum permanently. The page
   * shows the series nevertheless.
   */
  add(amount: number): void {
    if (amount > 0 && amount <= Number.MAX_SAFE_INTEGER) this.sum += amount
  }
}

/** The sum of one label set, for money. */
export class MoneySum {
  sum = 0n

  /** @param amount nano-dollars; ignored unless above 0 */
  add(amount: bigint): void {
    if (amount > 0n) this.sum += amount
  }
}

export interface Counter {
  /** Returns the sum of these labels. Callers that add for each exchange keep it. */
  of(...labels: readonly string[]): Sum
  add(amount: number, ...labels: readonly string[]): void
}

export interface MoneyCounter {
  of(...labels: readonly string[]): MoneySum
}

/** A sampled trace, which the collector receives. */
export interface TraceReference {
  readonly traceId: string
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** A trace with its value; each bucket keeps the last one. */
interface Exemplar extends TraceReference {
  readonly value: number
}

export interface Histogram {
  of(...labels: readonly string[]): Series
  observe(value: number, traced: TraceReference | null, ...labels: readonly string[]): void
}

export type MetricFormat = 'text' | 'openmetrics'

export interface Registry {
  counter(definition: MetricDefinition): Counter
  /** A counter of sums that a float would round. `print` formats a sum. */
  moneyCounter(definition: MetricDefinition, print: (amount: bigint) => string): MoneyCounter
  histogram(definition: MetricDefinition, buckets: readonly number[]): Histogram
  /** A number that is read on each scrape; NaN if `read` throws. Null: this thread has no value. */
  source(definition: MetricDefinition, read: () => number | null): void
  /** Several such numbers with labels; none if `read` throws. */
  labelledSource(definition: MetricDefinition, read: () => Iterable<Labelled<number>>): void
  /** A histogram for all threads that is read on each scrape, with its buckets; none if `read` throws. */
  histogramSource(
    definition: MetricDefinition,
    read: () => (HistogramValues & { readonly limits: readonly number[] }) | null,
  ): void
  /** A constant 1 whose label is read on each scrape; null: not shown. */
  info(definition: MetricDefinition, read: () => string | null): void
  /** Keeps the counters and histograms of a thread that ended, so that their sums never decrease. */
  retire(values: MetricValues): void
  /** Prints all metrics in the order of definition. @param others values of other threads, which are added */
  render(others?: readonly MetricValues[], format?: MetricFormat): string
  /** Returns the values of `render` as data that can be sent to another thread. */
  values(): MetricValues
}

/** Label sets (as text on the page) and their values, by the name of the metric. */
export type MetricValues = Readonly<Record<string, readonly (readonly [labels: string, values: unknown])[]>>

interface Metric extends MetricParts {
  readonly definition: MetricDefinition
}

interface MetricParts {
  values(): MetricValues[string]
  print(values: MetricValues[string], format: MetricFormat): string
  /** Adds the values of another thread. */
  merge(values: MetricValues[string], others: MetricValues[string]): MetricValues[string]
}

export function createRegistry(): Registry {
  const metrics: Metric[] = []
  /** The values of threads that ended. */
  let retired: MetricValues = {}
  const add = (definition: MetricDefinition, parts: MetricParts) => void metrics.push({ definition, ...parts })
  return {
    counter(definition) {
      const sums = new LabelSets(definition, () => new Sum())
      const print = ({ sum }: { sum: number }, labels: string) => sample(definition.name, labels, printNumber(sum))
      add(definition, ofSets(sums, print, plus))
      return {
        of: (...labels) => sums.get(labels),
        add: (amount, ...labels) => sums.get(labels).add(amount),
      }
    },
    moneyCounter(definition, format) {
      const sums = new LabelSets(definition, () => new MoneySum())
      const print = ({ sum }: { sum: bigint }, labels: string) => sample(definition.name, labels, format(sum))
      add(definition, ofSets(sums, print, plusMoney))
      return { of: (...labels) => sums.get(labels) }
    },
    histogram(definition, buckets) {
      const series = new LabelSets(definition, () => new Series(buckets))
      add(definition, ofSets(series, printHistogram(definition, buckets), plusHistogram))
      return {
        of: (...labels) => series.get(labels),
        observe: (value, traced, ...labels) => series.get(labels).observe(value, traced),
      }
    },
    source: (definition, read) =>
      add(
        definition,
        readOnScrape(definition, () => oneOf(safely(read, Number.NaN))),
      ),
    labelledSource: (definition, read) =>
      add(
        definition,
        readOnScrape(definition, () => safely(() => [...read()], [])),
      ),
    histogramSource(definition, read) {
      const values = () => oneOf(safely(read, null)).map(([, value]) => ['', value] as const)
      const print = (value: HistogramValues & { readonly limits: readonly number[] }, labels: string) =>
        histogramSamples(definition.name, value.limits, value, labels)
      const parts = labelled(values, print, one => one)
      add(definition, { ...parts, merge: one => one })
    },
    info(definition, read) {
      const values = () => oneOf(read()).map(([, value]) => [labelText(definition.labels, [value]), '1'] as const)
      const print = (one: string, labels: string) => sample(definition.name, labels, one)
      add(
        definition,
        labelled(values, print, one => one),
      )
    },
    retire(values) {
      const counted = metrics.filter(({ definition }) => definition.type !== 'gauge')
      retired = Object.fromEntries(
        counted.map(({ definition: { name }, merge }) => [name, merge(retired[name] ?? [], values[name] ?? [])]),
      )
    },
    render(others = [], format = 'text') {
      const isOpen = format === 'openmetrics'
      const texts = metrics.map(({ definition: { name, help, type }, values, print, merge }) => {
        const all = [retired, ...others].reduce((sum, each) => merge(sum, each[name] ?? []), values())
        // OpenMetrics names a counter without the `_total` of its samples.
        const family = isOpen && type === 'counter' ? name.replace(/_total$/, '') : name
        const words = isOpen ? escapeHelp(help).replaceAll('"', '\\"') : escapeHelp(help)
        return `# HELP ${family} ${words}\n# TYPE ${family} ${type}\n${print(all, format)}`
      })
      return texts.join('') + (isOpen ? '# EOF\n' : '')
    },
    values: () => Object.fromEntries(metrics.map(({ definition, values }) => [definition.name, values()])),
  }
}

const plus = (one: { readonly sum: number }, other: { readonly sum: number }) => ({ sum: one.sum + other.sum })
const plusMoney = (one: { readonly sum: bigint }, other: { readonly sum: bigint }) => ({ sum: one.sum + other.sum })
const plusHistogram = (one: HistogramValues, other: HistogramValues): HistogramValues => ({
  counts: one.counts.map((count, index) => count + other.counts[index]!),
  count: one.count + other.count,
  sum: one.sum + other.sum,
  exemplars: newest(one.exemplars ?? [], other.exemplars ?? []),
})

/** Returns the newest exemplar of each bucket. A sparse list: most buckets have none. */
function newest(one: Exemplars, other: Exemplars): Exemplars {
  const all = [...one]
  other.forEach((exemplar, bucket) => {
    if (exemplar && (all[bucket]?.at ?? 0) < exemplar.at) all[bucket] = exemplar
  })
  return all
}

const ofSets = <Values>(
  sets: LabelSets<Values>,
  print: (values: Values, labels: string, format: MetricFormat) => string,
  sum: (one: Values, other: Values) => Values,
) => labelled(() => sets.all(), print, sum)

/** A metric with label sets. @param sum adds the values of the same labels in another thread */
function labelled<Values>(
  values: () => MetricValues[string],
  print: (values: Values, labels: string, format: MetricFormat) => string,
  sum: (one: Values, other: Values) => Values,
): MetricParts {
  return {
    values,
    print: (values, format) => values.map(([labels, each]) => print(each as Values, labels, format)).join(''),
    merge(values, others) {
      const merged = new Map(values)
      for (const [labels, other] of others) {
        const one = merged.get(labels)
        merged.set(labels, one === undefined ? other : sum(one as Values, other as Values))
      }
      return [...merged]
    },
  }
}

/** Metrics that are read on each scrape. Their label sets are bounded by the configuration. */
function readOnScrape(definition: MetricDefinition, read: () => readonly Labelled<number>[]): MetricParts {
  const { name, labels: names, ofThreads } = definition
  const sum = (one: number, other: number) => (ofThreads === 'sum' ? one + other : Math.max(one, other))
  const values = () => read().map(([labels, value]) => [labelText(names, labels), value] as const)
  const each = labelled<number>(values, (value, labels) => sample(name, labels, printNumber(value)), sum)
  return ofThreads === undefined ? { ...each, merge: one => one } : each
}

const oneOf = <Value>(value: Value | null): Labelled<Value>[] => (value === null ? [] : [[[], value]])

/** The values of a histogram for one label set. */
export interface HistogramValues {
  /** Per bucket, not cumulative. */
  readonly counts: readonly number[]
  readonly count: number
  readonly sum: number
  readonly exemplars?: Exemplars
}

/** By bucket; one more than the buckets, for larger values. */
type Exemplars = readonly (Exemplar | undefined)[]

export class Series implements HistogramValues {
  readonly #buckets: readonly number[]
  readonly counts: number[]
  count = 0
  sum = 0
  readonly exemplars: (Exemplar | undefined)[] = []

  constructor(buckets: readonly number[]) {
    this.#buckets = buckets
    this.counts = buckets.map(() => 0)
  }

  /**
   * Counts values below 0 (a clock was set back) or above the largest safe integer as 0.
   *
   * @param traced the trace of the value; null: none was sampled
   */
  observe(value: number, traced: TraceReference | null): void {
    const counted = value > 0 && value <= Number.MAX_SAFE_INTEGER ? value : 0
    let bucket = 0
    while (bucket < this.#buckets.length && counted > this.#buckets[bucket]!) bucket++
    if (bucket < this.#buckets.length) this.counts[bucket]!++
    this.count++
    this.sum += counted
    if (traced !== null) this.exemplars[bucket] = { ...traced, value }
  }
}

const printHistogram =
  ({ name }: MetricDefinition, buckets: readonly number[]) =>
  (values: HistogramValues, labels: string, format: MetricFormat) =>
    histogramSamples(name, buckets, format === 'text' ? { ...values, exemplars: [] } : values, labels)

function histogramSamples(
  name: string,
  buckets: readonly number[],
  { counts, count, sum, exemplars = [] }: HistogramValues,
  labels: string,
): string {
  const comma = labels === '' ? '' : ','
  let below = 0
  let text = ''
  for (const [index, limit] of buckets.entries()) {
    below += counts[index]!
    text += sample(`${name}_bucket`, `${labels}${comma}le="${limit}"`, below + exemplarText(exemplars[index]))
  }
  text += sample(`${name}_bucket`, `${labels}${comma}le="+Inf"`, count + exemplarText(exemplars[buckets.length]))
  return text + sample(`${name}_sum`, labels, printNumber(sum)) + sample(`${name}_count`, labels, String(count))
}

function exemplarText(exemplar: Exemplar | undefined): string {
  if (exemplar === undefined) return ''
  return ` # {trace_id="${exemplar.traceId}"} ${printNumber(exemplar.value)} ${exemplar.at / 1000}`
}

function sample(name: string, labels: string, value: string): string {
  return labels === '' ? `${name} ${value}\n` : `${name}{${labels}} ${value}\n`
}

/** Returns `otherwise` if `read` throws, so that one failure does not hide the other metrics. */
function safely<Value>(read: () => Value, otherwise: Value): Value {
  try {
    return read()
  } catch {
    return otherwise
  }
}

function printNumber(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  return value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value)
}
