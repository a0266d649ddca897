/** Request ids, as people type and paste them. */

/** The request id in a search, or null. */
export function requestIn(search: string): string | null {
  return /^req_\w*$/.exec(search.trim())?.[0] ?? null
}
