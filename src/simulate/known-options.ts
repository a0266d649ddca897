/**
 * Options that there are. Node.js runs a plugin's test without looking at its types, so a misspelt option would be left out
 * in silence, and the test would try something else than it says.
 */
import { didYouMean, listed } from '../config/yaml/problem.ts'

/** The names of options, of which the type checker knows that none is missing. */
export const namesOf = <Options extends object>(names: Readonly<Record<keyof Options, true>>): readonly string[] =>
  Object.keys(names)

/** Throws a `TypeError` for an option that there is not. @param where whose options these are, as `openBench()` */
export function refuseUnknown(where: string, given: object, known: readonly string[]): void {
  for (const name of Object.keys(given)) {
    if (known.includes(name)) continue
    throw new TypeError(
      `${where}: there is no "${name}"; ${didYouMean(name, known) ?? `there are ${listed(known, 'and')}`}`,
    )
  }
}
