/** The addresses that the operators' pages ask. */

/** What the list of accounts is narrowed by, as the page's form has it: empty text is no filter. */
export interface AccountFilters {
  readonly search: string
  readonly plan: string
  readonly state: '' | 'active' | 'frozen'
}

/** `/api/operator/accounts` with its filters, from the page after `after`. */
export function accountsPath(filters: AccountFilters, after: string | null): string {
  const frozen = filters.state === '' ? '' : String(filters.state === 'frozen')
  return withQuery('/api/operator/accounts', { search: filters.search.trim(), plan: filters.plan, frozen, after })
}

/** The address with those values that are there. */
export function withQuery(path: string, values: Readonly<Record<string, string | null>>): string {
  const query = new URLSearchParams(
    Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== null && entry[1] !== ''),
  ).toString()
  return query === '' ? path : `${path}?${query}`
}

/** The list's filters in the page's own address, so that a reload and the way back keep them. */
export function filtersOf(search: string): AccountFilters {
  const query = new URLSearchParams(search)
  const state = query.get('state')
  return {
    search: query.get('search') ?? '',
    plan: query.get('plan') ?? '',
    state: state === 'active' || state === 'frozen' ? state : '',
  }
}
