/**
 * A number that all threads of the process share. Each thread adds to a word of its own, so that a dead thread's part can be subtracted.
 */
export class SharedCount {
  readonly #words: Int32Array
  readonly #own: number

  /** @param words in shared memory if there are several threads @param own the word of this thread */
  constructor(words: Int32Array = new Int32Array(1), own: number = 0) {
    this.#words = words
    this.#own = own
  }

  add(change: number): void {
    Atomics.add(this.#words, this.#own, change)
  }

  get total(): number {
    let sum = 0
    for (let at = 0; at < this.#words.length; at++) sum += Atomics.load(this.#words, at)
    return sum
  }

  /** Subtracts everything that an ended thread has added. */
  forget(thread: number): void {
    Atomics.store(this.#words, thread, 0)
  }
}
