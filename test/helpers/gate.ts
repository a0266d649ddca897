/** A gate: code waits at it until the test opens it, so tests order events without sleeping. */
export class Gate {
  private credits = 0
  private free = false
  private over = false
  private waiting: (() => void)[] = []
  private readonly stepped: { left: number; resolve: () => void }[] = []

  /** Lets the next `count` through. Resolves when they are done, or when nothing more will come to this gate. */
  step(count = 1): Promise<void> {
    if (this.over) return Promise.resolve()
    return new Promise(resolve => {
      this.stepped.push({ left: count, resolve })
      this.credits += count
      this.admit()
    })
  }

  /** Lets everything through from now on. */
  release(): void {
    this.free = true
    this.admit()
  }

  /** Waits to be let through. Call `done()` after the action that it allows. */
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

  /** Nothing more will come: resolves all who wait for a step. */
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
