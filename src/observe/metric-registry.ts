/**
 * Counters, gauges and histograms, and their text: in the Prometheus exposition format 0.0.4, or in OpenMetrics 1.0, which has
 * exemplars too. The number of label sets of a metric is bounded: what comes after the bound is counted under the label value
 * `other`, never forgotten.
 */

import { escapeHelp, LabelSets, labelText } from './label-sets.ts'

export type MetricType = 'counter' | 'gauge' | 'histogram'

/** The name and meaning of a metric. */
export interface MetricDefinition {
  readonly name: string
  readonly type: MetricType
  /** In the order in which values are given. */
  readonly labels: readonly string[]
  readonly help: string
  /**
   * Of what is asked when the page is read, and each thread keeps for itself: their sum is shown, or the largest. Others are
   * asked of the main thread alone.
   */
  readonly ofThreads?: 'sum' | 'largest'
}

/** One value of several that are asked when the page is read: the labels in the order of the definition. */
export type Labelled<Value> = readonly [labels: readonly string[], value: Value]

/** The sum of one label set. */
export class Sum {
  sum = 0

  /**
   * Amounts that are not above 0, or beyond all whole numbers that are exact, add nothing: one would spoil the sum for good. They
   * show that there is a 0.
   */
  add(amount: number): void {
    if (amount > 0 && amount <= Number.MAX_SAFE_INTEGER) this.sum += amount
  }
}

/** The same of money. */
export class MoneySum {
  sum = 0n

  /** Nano-dollars; amounts that are not above 0 add nothing. */
  add(amount: bigint): void {
    if (amount > 0n) this.sum += amount
  }
}

export interface Counter {
  /** That of these labels: who adds in each exchange keeps it. */
  of(...labels: readonly string[]): Sum
  add(amount: number, ...labels: readonly string[]): void
}

export interface MoneyCounter {
  of(...labels: readonly string[]): MoneySum
}

/** A trace that a collector has. */
export interface Traced {
  readonly traceId: string
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** A trace in which a value was seen: of each bucket the last one is kept. */
interface Exemplar extends Traced {
  readonly value: number
}

export interface Histogram {
  of(...labels: readonly string[]): Series
  observe(value: number, traced: Traced | null, ...labels: readonly string[]): void
}

/** The format that a scraper understands. */
export type MetricFormat = 'text' | 'openmetrics'

export interface Registry {
  counter(definition: MetricDefinition): Counter
  /** Sums that a float would round; `print` gives the text of one. */
  moneyCounter(definition: MetricDefinition, print: (amount: bigint) => string): MoneyCounter
  histogram(definition: MetricDefinition, buckets: readonly number[]): Histogram
  /** A number of another part, read whenever the metrics are read; NaN if `read` throws. Null: this thread has no value. */
  outside(definition: MetricDefinition, read: () => number | null): void
  /** Several such numbers with labels; none when it throws. */
  outsideEach(definition: MetricDefinition, read: () => Iterable<Labelled<number>>): void
  /** A histogram of another part for all threads, with its buckets; none if `read` throws. */
  outsideHistogram(
    definition: MetricDefinition,
    read: () => (HistogramValues & { readonly limits: readonly number[] }) | null,
  ): void
  /** A 1 whose label is what there is to say now; null: nothing. */
  info(definition: MetricDefinition, read: () => string | null): void
  /** Adds the last values of an ended thread to counters and histograms, so that they never fall. */
  retire(values: MetricValues): void
  /** All metrics in the order in which they were made. @param others values of the same metrics in other threads, which are added */
  render(others?: readonly MetricValues[], format?: MetricFormat): string
  /** The values of `render`, as data that can be sent to another thread. */
  values(): MetricValues
}

/** By a metric's name: its label sets, as the page shows them, each with its values. */
export type MetricValues = Readonly<Record<string, readonly (readonly [labels: string, values: unknown])[]>>

interface Metric extends Shown {
  readonly definition: MetricDefinition
}

/** The values of a metric, to be rendered. */
interface Shown {
  values(): MetricValues[string]
  print(values: MetricValues[string], format: MetricFormat): string
  /** Adds what another thread has. */
  merge(values: MetricValues[string], others: MetricValues[string]): MetricValues[string]
}

export function createRegistry(): Registry {
  const metrics: Metric[] = []
  /** The last values of threads that have ended. */
  let retired: MetricValues = {}
  const add = (definition: MetricDefinition, shown: Shown) => void metrics.push({ definition, ...shown })
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
    outside: (definition, read) =>
      add(
        definition,
        asked(definition, () => oneOf(safely(read, Number.NaN))),
      ),
    outsideEach: (definition, read) =>
      add(
        definition,
        asked(definition, () => safely(() => [...read()], [])),
      ),
    outsideHistogram(definition, read) {
      const values = () => oneOf(safely(read, null)).map(([, value]) => ['', value] as const)
      const print = (value: HistogramValues & { readonly limits: readonly number[] }, labels: string) =>
        histogramSamples(definition.name, value.limits, value, labels)
      const shown = labelled(values, print, one => one)
      add(definition, { ...shown, merge: one => one })
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
        // OpenMetrics names a counter without the end of its samples.
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

/** For each bucket. A list with holes: most have none. */
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
): Shown {
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

/** A metric that is read when the page is read, with one value for each entry of the configuration. */
function asked(definition: MetricDefinition, read: () => readonly Labelled<number>[]): Shown {
  const { name, labels: names, ofThreads } = definition
  const sum = (one: number, other: number) => (ofThreads === 'sum' ? one + other : Math.max(one, other))
  const values = () => read().map(([labels, value]) => [labelText(names, labels), value] as const)
  const each = labelled<number>(values, (value, labels) => sample(name, labels, printNumber(value)), sum)
  return ofThreads === undefined ? { ...each, merge: one => one } : each
}

const oneOf = <Value>(value: Value | null): Labelled<Value>[] => (value === null ? [] : [[[], value]])

/** Of a histogram with one label set. */
export interface HistogramValues {
  /** Per bucket, not yet cumulated. */
  readonly counts: readonly number[]
  readonly count: number
  readonly sum: number
  readonly exemplars?: Exemplars
}

/** By bucket; the one behind the last is that of all larger values. */
type Exemplars = readonly (Exemplar | undefined)[]

/** The values of a histogram for one label set. */
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
   * Values below 0 (a clock was set back), or beyond all whole numbers that are exact, count as 0.
   *
   * @param traced the trace in which it was seen; null: none that can be looked up
   */
  observe(value: number, traced: Traced | null): void {
    const seen = value > 0 && value <= Number.MAX_SAFE_INTEGER ? value : 0
    let bucket = 0
    while (bucket < this.#buckets.length && seen > this.#buckets[bucket]!) bucket++
    if (bucket < this.#buckets.length) this.counts[bucket]!++
    this.count++
    this.sum += seen
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

/** One that throws is not known; the other metrics are still worth reading. */
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
