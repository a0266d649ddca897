/**
 * Counters, gauges and histograms, and their text in the Prometheus exposition format 0.0.4. The number of label sets of
 * a metric is bounded: what comes after the bound is counted under the label value `other`, never forgotten.
 */

import { escapeHelp, LabelSets, labelText, MAX_LABEL_SETS } from './label-sets.ts'

export type MetricType = 'counter' | 'gauge' | 'histogram'

/** What a metric is called and means. */
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

export interface Counter {
  /** Amounts that are not finite and above 0 add nothing: one NaN would spoil the sum for good. They show that there is a 0. */
  add(amount: number, ...labels: readonly string[]): void
}

export interface MoneyCounter {
  /** Nano-dollars; amounts that are not above 0 add nothing. */
  add(amount: bigint, ...labels: readonly string[]): void
}

export interface Histogram {
  /** Values that are not finite, or below 0 (a clock was set back), count as 0. */
  observe(value: number, ...labels: readonly string[]): void
}

export interface Registry {
  counter(definition: MetricDefinition): Counter
  /** Sums that a float would round; `print` gives the text of one. */
  moneyCounter(definition: MetricDefinition, print: (amount: bigint) => string): MoneyCounter
  histogram(definition: MetricDefinition, buckets: readonly number[]): Histogram
  /** A number that somebody else keeps: asked whenever the metrics are read, NaN when it throws. Null: there is none here. */
  outside(definition: MetricDefinition, read: () => number | null): void
  /** Several such numbers with labels; none when it throws. */
  outsideEach(definition: MetricDefinition, read: () => Iterable<Labelled<number>>): void
  /** A histogram that somebody else keeps for all threads, with its buckets; none when it throws. */
  outsideHistogram(
    definition: MetricDefinition,
    read: () => (HistogramValues & { readonly limits: readonly number[] }) | null,
  ): void
  /** A 1 whose label is what there is to say now; null: nothing. */
  info(definition: MetricDefinition, read: () => string | null): void
  /** What a thread had counted that is gone: counters and histograms keep it, so that they never fall. */
  retire(values: MetricValues): void
  /** All metrics in the order in which they were made. @param others values of the same metrics in other threads, which are added */
  render(others?: readonly MetricValues[]): string
  /** What `render` shows, as data that can be sent to another thread. */
  values(): MetricValues
}

/** By a metric's name: its label sets, as the page shows them, each with its values. */
export type MetricValues = Readonly<Record<string, readonly (readonly [labels: string, values: unknown])[]>>

interface Metric extends Shown {
  readonly definition: MetricDefinition
}

/** What is shown of a metric. */
interface Shown {
  values(): MetricValues[string]
  print(values: MetricValues[string]): string
  /** Adds what another thread has. */
  merge(values: MetricValues[string], others: MetricValues[string]): MetricValues[string]
}

export function createRegistry(): Registry {
  const metrics: Metric[] = []
  /** What threads had counted that are gone. */
  let gone: MetricValues = {}
  const add = (definition: MetricDefinition, shown: Shown) => void metrics.push({ definition, ...shown })
  return {
    counter(definition) {
      const sums = new LabelSets(definition, () => ({ sum: 0 }))
      const print = ({ sum }: { sum: number }, labels: string) => sample(definition.name, labels, printNumber(sum))
      add(definition, ofSets(sums, print, plus))
      return {
        add(amount, ...labels) {
          const values = sums.get(labels)
          if (amount > 0 && Number.isFinite(amount)) values.sum += amount
        },
      }
    },
    moneyCounter(definition, format) {
      const sums = new LabelSets(definition, () => ({ sum: 0n }))
      const print = ({ sum }: { sum: bigint }, labels: string) => sample(definition.name, labels, format(sum))
      add(definition, ofSets(sums, print, plusMoney))
      return {
        add(amount, ...labels) {
          const values = sums.get(labels)
          if (amount > 0n) values.sum += amount
        },
      }
    },
    histogram(definition, buckets) {
      const series = new LabelSets(definition, () => ({ counts: buckets.map(() => 0), count: 0, sum: 0 }))
      add(definition, ofSets(series, printHistogram(definition, buckets), plusHistogram))
      return { observe: (value, ...labels) => observe(series.get(labels), buckets, value) }
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
      gone = Object.fromEntries(
        counted.map(({ definition: { name }, merge }) => [name, merge(gone[name] ?? [], values[name] ?? [])]),
      )
    },
    render: (others = []) =>
      metrics
        .map(({ definition: { name, help, type }, values, print, merge }) => {
          const all = [gone, ...others].reduce((sum, each) => merge(sum, each[name] ?? []), values())
          return `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n${print(all)}`
        })
        .join(''),
    values: () => Object.fromEntries(metrics.map(({ definition, values }) => [definition.name, values()])),
  }
}

const plus = (one: { readonly sum: number }, other: { readonly sum: number }) => ({ sum: one.sum + other.sum })
const plusMoney = (one: { readonly sum: bigint }, other: { readonly sum: bigint }) => ({ sum: one.sum + other.sum })
const plusHistogram = (one: HistogramValues, other: HistogramValues): HistogramValues => ({
  counts: one.counts.map((count, index) => count + other.counts[index]!),
  count: one.count + other.count,
  sum: one.sum + other.sum,
})

const ofSets = <Values>(
  sets: LabelSets<Values>,
  print: (values: Values, labels: string) => string,
  sum: (one: Values, other: Values) => Values,
) => labelled(() => sets.all(), print, sum)

/** A metric with label sets. @param sum adds the values of the same labels in another thread */
function labelled<Values>(
  values: () => MetricValues[string],
  print: (values: Values, labels: string) => string,
  sum: (one: Values, other: Values) => Values,
): Shown {
  return {
    values,
    print: values => values.map(([labels, each]) => print(each as Values, labels)).join(''),
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

/** What is asked when the page is read. */
function asked(definition: MetricDefinition, read: () => readonly Labelled<number>[]): Shown {
  const { name, labels: names, ofThreads } = definition
  const sum = (one: number, other: number) => (ofThreads === 'sum' ? one + other : Math.max(one, other))
  const values = () =>
    read()
      .slice(0, MAX_LABEL_SETS)
      .map(([labels, value]) => [labelText(names, labels), value] as const)
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
}

interface Observed extends HistogramValues {
  readonly counts: number[]
  count: number
  sum: number
}

function observe(values: Observed, buckets: readonly number[], value: number): void {
  const seen = value > 0 && Number.isFinite(value) ? value : 0
  const bucket = buckets.findIndex(limit => seen <= limit)
  if (bucket >= 0) values.counts[bucket]!++
  values.count++
  values.sum += seen
}

const printHistogram =
  ({ name }: MetricDefinition, buckets: readonly number[]) =>
  (values: HistogramValues, labels: string) =>
    histogramSamples(name, buckets, values, labels)

function histogramSamples(
  name: string,
  buckets: readonly number[],
  { counts, count, sum }: HistogramValues,
  labels: string,
): string {
  const comma = labels === '' ? '' : ','
  let below = 0
  let text = ''
  for (const [index, limit] of buckets.entries()) {
    below += counts[index]!
    text += sample(`${name}_bucket`, `${labels}${comma}le="${limit}"`, String(below))
  }
  text += sample(`${name}_bucket`, `${labels}${comma}le="+Inf"`, String(count))
  return text + sample(`${name}_sum`, labels, printNumber(sum)) + sample(`${name}_count`, labels, String(count))
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
