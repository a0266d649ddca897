/**
 * Things in the order in which they came, each of which leaves in constant time: what is in progress.
 *
 * A `Set` does the same. But V8 gives a set that members enter and leave a new table again and again, and the old table still
 * names the new one and the members of its time. Once such a table is among the old objects, all of them live until the
 * next full collection: every request did, and a third of a request's CPU was that.
 */
export class Chain<Value> {
  readonly #ends: Link<Value> = new Link<Value>(null)
  size = 0
  /** Where `forEach` goes on. */
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

  /** What has left already does not leave again. */
  remove(link: Link<Value>): void {
    if (link.before === null) return
    if (link === this.#next) this.#next = link.after
    link.before.after = link.after
    link.after!.before = link.before
    // It leads nowhere: who still has it keeps nobody else.
    link.before = link.after = null
    link.value = null
    this.size--
  }

  /** Calls it with each, makes nothing for it, and may be called for one chain at a time only. Who leaves meanwhile is left out. */
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

  /** Those that are there now; who leaves meanwhile is left out. */
  *[Symbol.iterator](): Generator<Value> {
    for (const link of this.#links()) if (link.before !== null) yield link.value as Value
  }

  #links(): Link<Value>[] {
    const links: Link<Value>[] = []
    for (let at = this.#ends.after!; at !== this.#ends; at = at.after!) links.push(at)
    return links
  }
}

/** A place in a chain. */
export class Link<Value> {
  value: Value | null
  before: Link<Value> | null = null
  after: Link<Value> | null = null

  constructor(value: Value | null) {
    this.value = value
  }
}
