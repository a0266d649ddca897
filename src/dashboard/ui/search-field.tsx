/** A field to search a list with, whose words stand in the page's own address: a reload and the way back keep them. */
import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { setQuery, usePlace } from '../lib/router.tsx'
import { TextField } from './field.tsx'

/** So long after the last letter the list is asked for. */
const TYPING_MS = 250

/** Sets `?search=` when somebody stops typing. */
export function SearchField({ placeholder }: { readonly placeholder: string }): VNode {
  const search = usePlace().query.get('search') ?? ''
  const [typed, setTyped] = useState(search)
  // The address may change without anybody typing: by the way back, or by a button that shows all.
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
