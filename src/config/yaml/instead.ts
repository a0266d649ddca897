/** What a schema of ours says in place of a mistake of its own. */

/** The value of the keyword `instead`: `VALUE` in `write` stands for what was written. */
export interface Instead {
  /** A regular expression. */
  readonly of: string
  readonly write: string
}
