/**
 * Refuses unknown options. Node.js runs a plugin's tests without checking types, so a misspelt option would be ignored silently, and
 * the test would test something else.
 */
import { didYouMean, listed } from '../config/yaml/problem.ts'

/** The names of options; the type checker ensures that none is missing. */
export const namesOf = <Options extends object>(names: Readonly<Record<keyof Options, true>>): readonly string[] =>
  Object.keys(names)

/** Throws a `TypeError` for an unknown option. @param where the function, such as `openBench()` */
export function refuseUnknown(where: string, given: object, known: readonly string[]): void {
  for (const name of Object.keys(given)) {
    if (known.includes(name)) continue
    throw new TypeError(
      `${where}: the option "${name}" does not exist; ${didYouMean(name, known) ?? `the options are ${listed(known, 'and')}`}`,
    )
  }
}
