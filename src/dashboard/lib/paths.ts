/** Finds the route of an address. */

/** One row of the route table: `/receipts/:id`. */
export interface Route<Page> {
  readonly path: string
  readonly page: Page
}

/** The named parts of an address. */
export type Params = Readonly<Record<string, string>>

/** The first route that matches, with its parameters; null: none does. */
export function match<Row extends Route<unknown>>(
  routes: readonly Row[],
  path: string,
): { readonly route: Row; readonly params: Params } | null {
  for (const route of routes) {
    const params = partsOf(route.path, path)
    if (params !== null) return { route, params }
  }
  return null
}

/** The page to show after sign-in: only a path of this dashboard, never another origin. */
export function placeAfter(wanted: string | null): string {
  if (wanted === null || !wanted.startsWith('/')) return '/'
  try {
    const url = new URL(wanted, NOWHERE)
    return url.origin === NOWHERE ? url.pathname + url.search : '/'
  } catch {
    return '/'
  }
}

/** Takes the place of this page's own origin when a path is parsed. No real address has it. */
const NOWHERE = 'http://nowhere.invalid'

function partsOf(pattern: string, path: string): Params | null {
  const wanted = pattern.split('/')
  const given = path.split('/')
  if (wanted.length !== given.length) return null
  const params: Record<string, string> = {}
  for (const [index, part] of wanted.entries()) {
    const text = given[index]!
    if (!part.startsWith(':')) {
      if (part !== text) return null
      continue
    }
    if (text === '') return null
    try {
      params[part.slice(1)] = decodeURIComponent(text)
    } catch {
      return null
    }
  }
  return params
}

/** The props of a page: the named parts of its address. */
export interface PageProps {
  readonly params: Params
}
