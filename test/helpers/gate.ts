/** A gate, at which code waits until the test opens it. So tests order events without sleeping. */
export class Gate {
  private credits = 0
  private free = false
  private over = false
  private waiting: (() => void)[] = []
  private readonly stepped: { left: number; resolve: () => void }[] = []

  /** Lets the next `count` waiters pass. Resolves when their actions are done, or when the gate is closed. */
  step(count = 1): Promise<void> {
    if (this.over) return Promise.resolve()
    return new Promise(resolve => {
      this.stepped.push({ left: count, resolve })
      this.credits += count
      this.admit()
    })
  }

  /** Lets all waiters pass from now on. */
  release(): void {
    this.free = true
    this.admit()
  }

  /** Waits until the gate lets it pass. Call `done()` after the action. */
  pass(): Promise<void> {
    return new Promise(resolve => {
      this.waiting.push(resolve)
      this.admit()
    })
  }

  /** See `pass`. */
  done(): void {
    const first = this.stepped[0]
    if (!first || --first.left > 0) return
    this.stepped.shift()
    first.resolve()
  }

  /** Closes the gate: all calls of `step` resolve, because no further waiter comes. */
  close(): void {
    this.over = true
    this.release()
    for (const { resolve } of this.stepped.splice(0)) resolve()
  }

  private admit(): void {
    while (this.waiting.length > 0 && (this.free || this.credits > 0)) {
      if (!this.free) this.credits--
      this.waiting.shift()!()
    }
  }
}
