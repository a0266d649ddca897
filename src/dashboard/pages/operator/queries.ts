/** The accounts' list and its filters, which stand in the page's own address: a reload and the way back keep them. */
import type { Query } from '../../lib/api.ts'

/** What the list of accounts is narrowed by, as the form has it: empty text is no filter. */
export interface AccountFilters {
  readonly search: string
  readonly plan: string
  readonly state: '' | 'active' | 'frozen'
}

/** The filters that an address says; what it says wrongly is no filter. */
export function filtersOf(query: URLSearchParams): AccountFilters {
  const state = query.get('state')
  return {
    search: query.get('search') ?? '',
    plan: query.get('plan') ?? '',
    state: state === 'active' || state === 'frozen' ? state : '',
  }
}

/** The same as `operator/accounts` takes them. */
export function accountsQuery({ search, plan, state }: AccountFilters): Query {
  return { search: search.trim(), plan, frozen: state === '' ? null : state === 'frozen' }
}

/** Whether anything is left out. */
export function isFiltered({ search, plan, state }: AccountFilters): boolean {
  return search.trim() !== '' || plan !== '' || state !== ''
}
