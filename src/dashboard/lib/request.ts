/** The ids of requests, as people type and paste them. */

/** The request that is looked for, when what was typed is the id of one; null: it is something else. */
export function requestIn(search: string): string | null {
  return /^req_\w*$/.exec(search.trim())?.[0] ?? null
}
