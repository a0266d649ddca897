/**
 * The router. Every link is a real `<a href>`; clicks on links to this page are handled here. After a navigation the new
 * page's heading gets the focus, so that keyboards and screen readers follow.
 */
import type { ComponentChildren, VNode } from 'preact'
import { createContext } from 'preact'
import { useContext, useEffect, useState } from 'preact/hooks'

export interface Place {
  readonly path: string
  readonly query: URLSearchParams
}

const Here = createContext<Place>({ path: '/', query: new URLSearchParams() })
const MOVED = 'tollgate:moved'
let moves = 0

/** Provides the address to its content, and handles clicks on links. */
export function Router({ children }: { readonly children: ComponentChildren }): VNode {
  const [place, setPlace] = useState(placeNow)
  useEffect(() => {
    const moved = (): void => setPlace(placeNow())
    const back = (): void => {
      moves += 1
      moved()
    }
    addEventListener('popstate', back)
    document.addEventListener(MOVED, moved)
    document.addEventListener('click', followLink)
    return () => {
      removeEventListener('popstate', back)
      document.removeEventListener(MOVED, moved)
      document.removeEventListener('click', followLink)
    }
  }, [])
  return <Here.Provider value={place}>{children}</Here.Provider>
}

/** The current address. */
export function usePlace(): Place {
  return useContext(Here)
}

/** Navigates to an address of this page. */
export function navigate(href: string, options: { readonly replace?: boolean } = {}): void {
  moves += 1
  if (options.replace) history.replaceState(null, '', href)
  else history.pushState(null, '', href)
  document.dispatchEvent(new Event(MOVED))
  if (!options.replace) scrollTo(0, 0)
}

/** Changes the query of the address, for filters; null removes a parameter. Adds no history entry and leaves the focus. */
export function setQuery(changes: Readonly<Record<string, string | null>>): void {
  const url = new URL(location.href)
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') url.searchParams.delete(name)
    else url.searchParams.set(name, value)
  }
  history.replaceState(null, '', url)
  document.dispatchEvent(new Event(MOVED))
}

/** The number of navigations since the page was loaded; 0 on the first page, whose heading must not take the focus. */
export function movesSoFar(): number {
  return moves
}

/** Moves the focus to the heading when the focused element is removed: otherwise the keyboard would begin at the top. */
export function focusHeading(): void {
  const dialog = [...document.querySelectorAll('dialog[open]')].at(-1)
  document.querySelector<HTMLElement>('main h1')?.focus()
  dialog?.querySelector<HTMLElement>('h2')?.focus()
}

function placeNow(): Place {
  return { path: location.pathname.replace(/(.)\/+$/, '$1'), query: new URLSearchParams(location.search) }
}

function followLink(event: MouseEvent): void {
  if (
    event.defaultPrevented ||
    event.button !== 0 ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  ) {
    return
  }
  const link = event.target instanceof Element ? event.target.closest('a') : null
  if (link === null || link.target !== '' || link.hasAttribute('download') || link.origin !== location.origin) return
  // The browser handles files, API answers and links within the page (#content).
  if (link.pathname.startsWith('/api/') || link.getAttribute('href')?.startsWith('#')) return
  event.preventDefault()
  navigate(link.pathname + link.search + link.hash)
}
