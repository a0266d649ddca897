/** The label sets of a metric and their text. */

/** Maximum number of label sets of one metric; further ones count under `other`. */
export const MAX_LABEL_SETS = 1000
/** Maximum characters of a label value; longer ones are cut. */
const MAX_LABEL_LENGTH = 200

interface Named {
  readonly name: string
  /** In the order of the values. */
  readonly labels: readonly string[]
}

interface LabelSet<Values> {
  /** As text on the metrics page. */
  readonly labels: string
  readonly values: Values
}

/** A node of the tree of label values; the last label's node has the set. */
interface Branch<Values> {
  readonly next: Map<string, Branch<Values>>
  set: LabelSet<Values> | null
}

/**
 * The label sets of one metric with their values, at most `MAX_LABEL_SETS`. Looked up label by label: joining all labels into
 * one key would cost more than the counting.
 */
export class LabelSets<Values> {
  readonly #definition: Named
  readonly #create: () => Values
  readonly #root: Branch<Values> = { next: new Map(), set: null }
  readonly #all: LabelSet<Values>[] = []
  #other: LabelSet<Values> | null = null

  constructor(definition: Named, create: () => Values) {
    this.#definition = definition
    this.#create = create
    // A metric without labels has its one set from the start, so its counter shows 0.
    if (definition.labels.length === 0) this.#root.set = this.#add('')
  }

  get(values: readonly string[]): Values {
    const { labels, name } = this.#definition
    if (values.length !== labels.length) throw new Error(`${name} has ${labels.length} labels, not ${values.length}`)
    let branch: Branch<Values> | undefined = this.#root
    for (let at = 0; at < values.length; at++) branch = branch?.next.get(shortened(values[at]!))
    return (branch?.set ?? this.#new(values.map(shortened))).values
  }

  /** In the order of creation. */
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
    branch.set = this.#add(labelText(labels, values))
    return branch.set
  }

  #add(labels: string): LabelSet<Values> {
    const set = { labels, values: this.#create() }
    this.#all.push(set)
    return set
  }
}

const ESCAPES: Record<string, string> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' }

function shortened(value: string): string {
  return value.length > MAX_LABEL_LENGTH ? value.slice(0, MAX_LABEL_LENGTH) : value
}

/** Returns labels as text on the metrics page. */
export function labelText(names: readonly string[], values: readonly string[]): string {
  return names.map((name, index) => `${name}="${escapeLabel(shortened(values[index]!))}"`).join(',')
}

function escapeLabel(value: string): string {
  return value.replace(/[\\"\n]/g, character => ESCAPES[character]!)
}

export function escapeHelp(text: string): string {
  return text.replace(/[\\\n]/g, character => ESCAPES[character]!)
}
