/** Asynchronous versions of reads, for a database in another thread or on another machine. */

/** The same functions, each returning a promise. */
export type Promised<Reads> = {
  readonly [Name in keyof Reads]: Reads[Name] extends (...values: infer Values) => infer Result
    ? (...values: Values) => Promise<Result>
    : Promised<Reads[Name]>
}

/** Wraps each function of `reads`, at every depth. An error that one throws rejects its promise. */
export function promised<Reads extends object>(reads: Reads): Promised<Reads> {
  const wrapped = Object.entries(reads).map(([name, read]) => {
    if (typeof read !== 'function') return [name, promised(read)]
    return [name, async (...values: unknown[]) => read(...values)]
  })
  return Object.fromEntries(wrapped)
}
