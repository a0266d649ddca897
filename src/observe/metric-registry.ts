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
  /** A gauge that each thread keeps for itself: their sum is shown, or the largest. Others are asked of the main thread alone. */
  readonly ofThreads?: 'sum' | 'largest'
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
export const MAX_LABEL_SETS = 500
/** Characters of a label value; the rest is cut. */
const MAX_LABEL_LENGTH = 200

export interface Registry {
  counter(definition: MetricDefinition): Counter
  /** Sums that a float would round; `print` gives the text of one. */
  moneyCounter(definition: MetricDefinition, print: (amount: bigint) => string): MoneyCounter
  histogram(definition: MetricDefinition, buckets: readonly number[]): Histogram
  /** A number that somebody else keeps: asked whenever the metrics are read, NaN when it throws. */
  outside(definition: MetricDefinition, read: () => number): void
  /** A 1 whose label is what there is to say now; null: nothing. */
  info(definition: MetricDefinition, read: () => string | null): void
  /** All metrics in the order in which they were made. @param others values of the same metrics in other threads, which are added */
  render(others?: readonly MetricValues[]): string
  /** What `render` shows, as data that can be sent to another thread. */
  values(): MetricValues
}

/** By a metric's name: its label sets, as the page shows them, each with its values. */
export type MetricValues = Readonly<Record<string, readonly (readonly [labels: string, values: unknown])[]>>

interface Metric {
  readonly head: string
  readonly name: string
  values(): MetricValues[string]
  print(values: MetricValues[string]): string
  /** Adds what another thread has. */
  merge(values: MetricValues[string], others: MetricValues[string]): MetricValues[string]
}

export function createRegistry(): Registry {
  const metrics: Metric[] = []
  const add = ({ name, type, help }: MetricDefinition, metric: Omit<Metric, 'head' | 'name'>) => {
    metrics.push({ name, head: `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`, ...metric })
  }
  return {
    counter(definition) {
      const sums = new LabelSets(definition, () => ({ sum: 0 }))
      const print = ({ sum }: { sum: number }, labels: string) => sample(definition.name, labels, printNumber(sum))
      add(
        definition,
        labelled(sums, print, (one, other) => ({ sum: one.sum + other.sum })),
      )
      return {
        add(amount, ...labels) {
          if (amount > 0 && Number.isFinite(amount)) sums.get(labels).sum += amount
        },
      }
    },
    moneyCounter(definition, format) {
      const sums = new LabelSets(definition, () => ({ sum: 0n }))
      const print = ({ sum }: { sum: bigint }, labels: string) => sample(definition.name, labels, format(sum))
      add(
        definition,
        labelled(sums, print, (one, other) => ({ sum: one.sum + other.sum })),
      )
      return {
        add(amount, ...labels) {
          if (amount > 0n) sums.get(labels).sum += amount
        },
      }
    },
    histogram(definition, buckets) {
      const series = new LabelSets(definition, () => ({ counts: buckets.map(() => 0), count: 0, sum: 0 }))
      const print = (values: HistogramValues, labels: string) =>
        histogramSamples(definition.name, buckets, values, labels)
      add(
        definition,
        labelled(series, print, (one, other) => ({
          counts: one.counts.map((count, index) => count + other.counts[index]!),
          count: one.count + other.count,
          sum: one.sum + other.sum,
        })),
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
    outside(definition, read) {
      const { name, ofThreads } = definition
      add(definition, {
        values: () => [['', readSafely(read)]],
        print: ([[, value] = ['', Number.NaN]]) => sample(name, '', printNumber(value as number)),
        merge([[, one] = ['', 0]], [[, other] = ['', 0]]) {
          if (ofThreads === undefined) return [['', one]]
          const [here, there] = [one as number, other as number]
          return [['', ofThreads === 'sum' ? here + there : Math.max(here, there)]]
        },
      })
    },
    info(definition, read) {
      const print = (one: string, labels: string) => sample(definition.name, labels, one)
      const ones = new LabelSets(definition, () => '1')
      add(definition, {
        ...labelled(ones, print, one => one),
        values() {
          const value = read()
          const now = new LabelSets(definition, () => '1')
          if (value !== null) now.get([value])
          return now.all()
        },
      })
    },
    render: (others = []) =>
      metrics
        .map(({ name, head, values, print, merge }) => {
          const all = others.reduce((sum, each) => merge(sum, each[name] ?? []), values())
          return head + print(all)
        })
        .join(''),
    values: () => Object.fromEntries(metrics.map(({ name, values }) => [name, values()])),
  }
}

/** A metric with label sets. @param sum adds the values of the same labels in another thread */
function labelled<Values>(
  sets: LabelSets<Values>,
  print: (values: Values, labels: string) => string,
  sum: (one: Values, other: Values) => Values,
): Omit<Metric, 'head' | 'name'> {
  return {
    values: () => sets.all(),
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

interface LabelSet<Values> {
  /** As the page shows them. */
  readonly labels: string
  readonly values: Values
}

/** From one label's value to the next label's; after the last one, to the set. */
interface Branch<Values> {
  readonly next: Map<string, Branch<Values>>
  set: LabelSet<Values> | null
}

/**
 * The label sets of one metric, each with its values; bounded. Found label by label: this is done several times in each
 * exchange, and building one key of all labels would cost more than the counting.
 */
class LabelSets<Values> {
  readonly #definition: MetricDefinition
  readonly #create: () => Values
  readonly #root: Branch<Values> = { next: new Map(), set: null }
  readonly #all: LabelSet<Values>[] = []
  #other: LabelSet<Values> | null = null

  constructor(definition: MetricDefinition, create: () => Values) {
    this.#definition = definition
    this.#create = create
    // Without labels there is one set, and it is there from the start: a counter at 0 says more than none.
    if (definition.labels.length === 0) this.#root.set = this.#add('')
  }

  get(values: readonly string[]): Values {
    const { labels, name } = this.#definition
    if (values.length !== labels.length) throw new Error(`${name} has ${labels.length} labels, not ${values.length}`)
    let branch: Branch<Values> | undefined = this.#root
    for (let at = 0; at < values.length; at++) branch = branch?.next.get(shortened(values[at]!))
    return (branch?.set ?? this.#new(values.map(shortened))).values
  }

  /** In the order in which they came. */
  all(): (readonly [labels: string, values: Values])[] {
    return this.#all.map(({ labels, values }) => [labels, values] as const)
  }

  #new(values: readonly string[]): LabelSet<Values> {
    const { labels } = this.#definition
    if (this.#all.length >= MAX_LABEL_SETS) {
      this.#other ??= this.#add(labels.map(label => `${label}="other"`).join(','))
      return this.#other
    }
    let branch = this.#root
    for (const value of values) {
      const next: Branch<Values> = branch.next.get(value) ?? { next: new Map(), set: null }
      branch.next.set(value, next)
      branch = next
    }
    branch.set = this.#add(labels.map((label, index) => `${label}="${escapeLabel(values[index]!)}"`).join(','))
    return branch.set
  }

  #add(labels: string): LabelSet<Values> {
    const set = { labels, values: this.#create() }
    this.#all.push(set)
    return set
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

function shortened(value: string): string {
  return value.length > MAX_LABEL_LENGTH ? value.slice(0, MAX_LABEL_LENGTH) : value
}

function escapeLabel(value: string): string {
  return value.replace(/[\\"\n]/g, character => ESCAPES[character]!)
}

function escapeHelp(text: string): string {
  return text.replace(/[\\\n]/g, character => ESCAPES[character]!)
}
