/** A search field of a list. Its text is in the page's address, so that a reload and Back keep it. */
import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { setQuery, usePlace } from '../lib/router.tsx'
import { TextField } from './field.tsx'

/** Delay between the last letter and the request. */
const TYPING_MS = 250

/** Sets `?search=` when the typing pauses. */
export function SearchField({ placeholder }: { readonly placeholder: string }): VNode {
  const search = usePlace().query.get('search') ?? ''
  const [typed, setTyped] = useState(search)
  // Back, or a button that shows all, can change the address too.
  useEffect(() => setTyped(before => (before.trim() === search ? before : search)), [search])
  useEffect(() => {
    if (typed.trim() === search) return
    const timer = setTimeout(() => setQuery({ search: typed.trim() }), TYPING_MS)
    return () => clearTimeout(timer)
  }, [typed, search])
  return (
    <TextField
      label="Search"
      type="search"
      placeholder={placeholder}
      spellcheck={false}
      maxLength={200}
      value={typed}
      onValue={setTyped}
    />
  )
}
