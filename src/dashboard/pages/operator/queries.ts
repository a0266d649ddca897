/** The filters of the list of accounts. They are in the page's address, so that a reload and Back keep them. */
import type { Query } from '../../lib/api.ts'

/** The filters as the form has them: an empty text means no filter. */
export interface AccountFilters {
  readonly search: string
  readonly plan: string
  readonly state: '' | 'active' | 'frozen'
}

/** The filters in an address; invalid values are no filter. */
export function filtersOf(query: URLSearchParams): AccountFilters {
  const state = query.get('state')
  return {
    search: query.get('search') ?? '',
    plan: query.get('plan') ?? '',
    state: state === 'active' || state === 'frozen' ? state : '',
  }
}

/** The filters as parameters of `operator/accounts`. */
export function accountsQuery({ search, plan, state }: AccountFilters): Query {
  return { search: search.trim(), plan, frozen: state === '' ? null : state === 'frozen' }
}

/** Whether a filter is set. */
export function isFiltered({ search, plan, state }: AccountFilters): boolean {
  return search.trim() !== '' || plan !== '' || state !== ''
}
