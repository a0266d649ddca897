/**
 * A list in the order of insertion, with removal in constant time: for objects that live as long as a request.
 *
 * A `Set` would do the same. But when its members come and go, V8 allocates new tables again and again. An old table still refers to the
 * new one and to its former members. When it is promoted to the old objects, all of them live until the next full collection. This
 * affected every request, and took a third of its CPU.
 */
export class Chain<Value> {
  readonly #ends: Link<Value> = new Link<Value>(null)
  size = 0
  /** The node with which `forEach` continues. */
  #next: Link<Value> | null = null

  constructor() {
    this.#ends.before = this.#ends.after = this.#ends
  }

  add(value: Value): Link<Value> {
    const link = new Link(value)
    const last = this.#ends.before!
    link.before = last
    link.after = this.#ends
    last.after = this.#ends.before = link
    this.size++
    return link
  }

  /** A second removal does nothing. */
  remove(link: Link<Value>): void {
    if (link.before === null) return
    if (link === this.#next) this.#next = link.after
    link.before.after = link.after
    link.after!.before = link.before
    // Clears all references, so that a holder of the node keeps nothing else alive.
    link.before = link.after = null
    link.value = null
    this.size--
  }

  /**
   * Visits all values without an allocation. Only one `forEach` may run on a chain at a time. Values that are removed meanwhile are
   * skipped.
   */
  forEach(visit: (value: Value) => void): void {
    for (let at = this.#ends.after!; at !== this.#ends; at = this.#next!) {
      this.#next = at.after
      visit(at.value as Value)
    }
    this.#next = null
  }

  clear(): void {
    for (const link of this.#links()) this.remove(link)
  }

  /** Iterates over the present values. Values that are removed meanwhile are skipped. */
  *[Symbol.iterator](): Generator<Value> {
    for (const link of this.#links()) if (link.before !== null) yield link.value as Value
  }

  #links(): Link<Value>[] {
    const links: Link<Value>[] = []
    for (let at = this.#ends.after!; at !== this.#ends; at = at.after!) links.push(at)
    return links
  }
}

/** A node of a chain. */
export class Link<Value> {
  value: Value | null
  before: Link<Value> | null = null
  after: Link<Value> | null = null

  constructor(value: Value | null) {
    this.value = value
  }
}
