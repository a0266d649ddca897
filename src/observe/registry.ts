/**
 * Counters, gauges and histograms, and their text in the Prometheus exposition format 0.0.4. The number of label sets of
 * a metric is bounded: what comes after the bound is counted under the label value `other`, never forgotten.
 */

export type MetricType = 'counter' | 'gauge' | 'histogram'

/** What a metric is called and means. */
export interface MetricDefinition {
  readonly name: string
  readonly type: MetricType
  /** In the order in which values are given. */
  readonly labels: readonly string[]
  readonly help: string
}

export interface Counter {
  /** Amounts that are not finite and above 0 change nothing: one NaN would spoil the sum for good. */
  add(amount: number, ...labels: readonly string[]): void
}

export interface MoneyCounter {
  /** Nano-dollars; amounts that are not above 0 change nothing. */
  add(amount: bigint, ...labels: readonly string[]): void
}

export interface Histogram {
  /** Values that are not finite, or below 0 (a clock was set back), count as 0. */
  observe(value: number, ...labels: readonly string[]): void
}

/** Distinct label sets of one metric; the next goes to `other`. */
export const MOST_LABEL_SETS = 500
/** Characters of a label value; the rest is cut. */
const LONGEST_LABEL = 200

export interface Registry {
  counter(definition: MetricDefinition): Counter
  /** Sums that a float would round; `print` gives the text of one. */
  moneyCounter(definition: MetricDefinition, print: (amount: bigint) => string): MoneyCounter
  histogram(definition: MetricDefinition, buckets: readonly number[]): Histogram
  /** Asked whenever the metrics are read; NaN when it throws. */
  gauge(definition: MetricDefinition, read: () => number): void
  /** As a gauge, for a number that somebody else keeps and that only grows. */
  counterFrom(definition: MetricDefinition, read: () => number): void
  /** A 1 whose label is what there is to say. */
  info(definition: MetricDefinition, value: string): void
  /** All metrics in the order in which they were made. */
  render(): string
}

export function createRegistry(): Registry {
  const metrics: (() => string)[] = []
  const add = (definition: MetricDefinition, samples: () => string) => {
    const head = `# HELP ${definition.name} ${escapeHelp(definition.help)}\n# TYPE ${definition.name} ${definition.type}\n`
    metrics.push(() => head + samples())
  }
  const fromOutside = (definition: MetricDefinition, read: () => number) =>
    add(definition, () => `${definition.name} ${printNumber(readSafely(read))}\n`)
  return {
    counter(definition) {
      const sums = new LabelSets(definition, () => ({ sum: 0 }))
      add(definition, () => sums.render(({ sum }, labels) => sample(definition.name, labels, printNumber(sum))))
      return {
        add(amount, ...labels) {
          if (amount > 0 && Number.isFinite(amount)) sums.get(labels).sum += amount
        },
      }
    },
    moneyCounter(definition, print) {
      const sums = new LabelSets(definition, () => ({ sum: 0n }))
      add(definition, () => sums.render(({ sum }, labels) => sample(definition.name, labels, print(sum))))
      return {
        add(amount, ...labels) {
          if (amount > 0n) sums.get(labels).sum += amount
        },
      }
    },
    histogram(definition, buckets) {
      const series = new LabelSets(definition, () => ({ counts: buckets.map(() => 0), count: 0, sum: 0 }))
      add(definition, () =>
        series.render((values, labels) => histogramSamples(definition.name, buckets, values, labels)),
      )
      return {
        observe(value, ...labels) {
          const seen = value > 0 && Number.isFinite(value) ? value : 0
          const values = series.get(labels)
          const bucket = buckets.findIndex(limit => seen <= limit)
          if (bucket >= 0) values.counts[bucket]!++
          values.count++
          values.sum += seen
        },
      }
    },
    gauge: fromOutside,
    counterFrom: fromOutside,
    info(definition, value) {
      const ones = new LabelSets(definition, () => '1')
      ones.get([value])
      add(definition, () => ones.render((one, labels) => sample(definition.name, labels, one)))
    },
    render: () => metrics.map(samples => samples()).join(''),
  }
}

/** The label sets of one metric, each with its values; bounded. Keyed by their text, which escaping makes unambiguous. */
class LabelSets<Values> {
  readonly #definition: MetricDefinition
  readonly #create: () => Values
  readonly #sets = new Map<string, Values>()

  constructor(definition: MetricDefinition, create: () => Values) {
    this.#definition = definition
    this.#create = create
    // Without labels there is one set, and it is there from the start: a counter at 0 says more than none.
    if (definition.labels.length === 0) this.#sets.set('', create())
  }

  get(values: readonly string[]): Values {
    const { labels, name } = this.#definition
    if (values.length !== labels.length) throw new Error(`${name} has ${labels.length} labels, not ${values.length}`)
    const text = labels.map((label, index) => `${label}="${escapeLabel(values[index]!)}"`).join(',')
    const known = this.#sets.get(text)
    if (known !== undefined) return known
    return this.#add(this.#sets.size < MOST_LABEL_SETS ? text : labels.map(label => `${label}="other"`).join(','))
  }

  render(print: (values: Values, labels: string) => string): string {
    let text = ''
    for (const [labels, values] of this.#sets) text += print(values, labels)
    return text
  }

  #add(text: string): Values {
    const values = this.#sets.get(text) ?? this.#create()
    this.#sets.set(text, values)
    return values
  }
}

interface HistogramValues {
  /** Per bucket, not yet cumulated. */
  readonly counts: readonly number[]
  readonly count: number
  readonly sum: number
}

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

function readSafely(read: () => number): number {
  try {
    return read()
  } catch {
    // The value is unknown, and NaN says so; the other metrics are still worth reading.
    return Number.NaN
  }
}

function printNumber(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  return value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value)
}

const ESCAPES: Record<string, string> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' }

function escapeLabel(value: string): string {
  const text = value.length > LONGEST_LABEL ? value.slice(0, LONGEST_LABEL) : value
  return /[\\"\n]/.test(text) ? text.replace(/[\\"\n]/g, character => ESCAPES[character]!) : text
}

function escapeHelp(text: string): string {
  return text.replace(/[\\\n]/g, character => ESCAPES[character]!)
}
