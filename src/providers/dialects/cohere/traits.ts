/**
 * What differs between Cohere's models, by their names. A name that nobody knows yet is taken for one of the newest kind.
 * Sources: the recorded traffic and the notes of Cohere's API reference.
 */

export interface Traits {
  /** Whether it takes a word on thinking: a model that does not think refuses `thinking`. */
  readonly thinks: boolean
  /** Whether it takes `tool_choice`; models before Command R7B do not. */
  readonly choosesTools: boolean
}

const FIRST: Traits = { thinks: false, choosesTools: false }
const COMMAND_A: Traits = { thinks: false, choosesTools: true }
const NEWEST: Traits = { thinks: true, choosesTools: true }

/** The first row that matches counts. */
const TABLE: readonly (readonly [pattern: RegExp, traits: Traits])[] = [
  [/^command(?:-light|-nightly|-light-nightly)?$/, FIRST],
  [/^command-r(?:-plus)?(?:-\d\d-\d{4})?$/, FIRST],
  [/aya-(?:expanse|vision)/, FIRST],
  [/^command-r7b/, COMMAND_A],
  [/^command-a(?:-vision|-translate)?(?:-\d\d-2025)?$/, COMMAND_A],
]

/** What a model takes, by its name at the provider. */
export function traitsOf(model: string): Traits {
  const name = model.slice(model.lastIndexOf('/') + 1).toLowerCase()
  return TABLE.find(([pattern]) => pattern.test(name))?.[1] ?? NEWEST
}
