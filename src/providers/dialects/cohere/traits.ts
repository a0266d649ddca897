/**
 * Properties of Cohere's models, by their names. An unknown name is treated as the newest kind. Sources: recorded traffic, and Cohere's
 * API reference.
 */

export interface Traits {
  /** Whether it reasons. A model that does not refuses `thinking`. */
  readonly thinks: boolean
  /** Whether it supports `tool_choice`; models before Command R7B do not. */
  readonly choosesTools: boolean
}

const FIRST: Traits = { thinks: false, choosesTools: false }
const COMMAND_A: Traits = { thinks: false, choosesTools: true }
const NEWEST: Traits = { thinks: true, choosesTools: true }

/** The first matching row counts. */
const TABLE: readonly (readonly [pattern: RegExp, traits: Traits])[] = [
  [/^command(?:-light|-nightly|-light-nightly)?$/, FIRST],
  [/^command-r(?:-plus)?(?:-\d\d-\d{4})?$/, FIRST],
  [/aya-(?:expanse|vision)/, FIRST],
  [/^command-r7b/, COMMAND_A],
  [/^command-a(?:-vision|-translate)?(?:-\d\d-2025)?$/, COMMAND_A],
]

/** The traits of a model, by its name at the provider. */
export function traitsOf(model: string): Traits {
  const name = model.slice(model.lastIndexOf('/') + 1).toLowerCase()
  return TABLE.find(([pattern]) => pattern.test(name))?.[1] ?? NEWEST
}
