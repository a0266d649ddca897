/** The label sets of a metric and their text. */

/** Distinct label sets of one metric; the next goes to `other`. */
export const MAX_LABEL_SETS = 1000
/** Characters of a label value; the rest is cut. */
const MAX_LABEL_LENGTH = 200

/** Whose they are. */
interface Named {
  readonly name: string
  /** In the order in which values are given. */
  readonly labels: readonly string[]
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
 * The label sets of one metric, each with its values; bounded. Found label by label: building one key of all labels would
 * cost more than the counting.
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

/** As the page shows them. */
export function labelText(names: readonly string[], values: readonly string[]): string {
  return names.map((name, index) => `${name}="${escapeLabel(shortened(values[index]!))}"`).join(',')
}

function escapeLabel(value: string): string {
  return value.replace(/[\\"\n]/g, character => ESCAPES[character]!)
}

export function escapeHelp(text: string): string {
  return text.replace(/[\\\n]/g, character => ESCAPES[character]!)
}
