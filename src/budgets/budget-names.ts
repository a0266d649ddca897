/** The names of budgets in the ledger. Separate from periods, so that commands load no library with this file. */

/** Escapes a part of a name, which may contain the separator. */
export const escaped = (part: string): string => part.replaceAll('%', '%25').replaceAll('/', '%2F')
const unescaped = (part: string): string => part.replaceAll('%2F', '/').replaceAll('%25', '%')

export interface BudgetParts {
  /** `account`, `key`, `plan NAME` or `policy NAME/STEP`. */
  readonly place: string
  readonly name: string
  readonly every: string
  /** The id of a key, the value of a tag, or empty. */
  readonly subject: string
}

/** Parses a name in the ledger, `PLACE/NAME/PERIOD/SUBJECT`. Missing parts are empty. */
export function partsOf(budget: string): BudgetParts {
  const [place = '', name = '', every = '', subject = ''] = budget.split('/').map(unescaped)
  return { place, name, every, subject }
}
