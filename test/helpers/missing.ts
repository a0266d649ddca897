/** Tests of programs and packages that a machine may not have. */
import { describe, test } from 'vitest'

/**
 * A suite that needs something.
 * @param missing why it cannot run here; one test then says so in its place. Null: everything is there.
 */
export function describeWith(missing: string | null, name: string, tests: () => void): void {
  if (missing === null) describe(name, tests)
  else test(name, context => context.skip(missing))
}
