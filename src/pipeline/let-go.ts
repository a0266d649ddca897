/** Letting go of what was made: one that fails to go must not keep the others. */

/** Calls each, one after the other, whatever becomes of those before. Throws what went wrong when all have been called. */
export async function letGoOfAll(disposers: readonly (() => unknown)[]): Promise<void> {
  const errors: Error[] = []
  for (const dispose of disposers) {
    try {
      await dispose()
    } catch (error) {
      errors.push(error instanceof Error ? error : new Error(String(error)))
    }
  }
  if (errors.length > 1) throw new AggregateError(errors, errors.map(({ message }) => message).join('; '))
  if (errors.length > 0) throw errors[0]
}
