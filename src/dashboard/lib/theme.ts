/**
 * The theme: the person's choice, otherwise the system's. The choice is stored in this browser. The attribute `data-theme` of the
 * root element is the shown theme, on which styles/tokens.css depends.
 */
import { useEffect, useState } from 'preact/hooks'

export type ThemeChoice = 'auto' | 'light' | 'dark'

const KEPT_AS = 'tollgate-theme'
const CHANGED = 'tollgate:theme'
const system = matchMedia('(prefers-color-scheme: dark)')

/** Called once, before anything is drawn. */
export function startTheme(): void {
  system.addEventListener('change', show)
  // Changed in another tab.
  addEventListener('storage', event => event.key === KEPT_AS && show())
  show()
}

export interface Theme {
  readonly choice: ThemeChoice
  readonly shown: 'light' | 'dark'
  readonly choose: (choice: ThemeChoice) => void
}

/** Renders the component again when the theme changes: charts on a canvas need it. */
export function useTheme(): Theme {
  const [theme, setTheme] = useState(() => ({ choice: choiceKept(), shown: shownNow() }))
  useEffect(() => {
    const changed = (): void => setTheme({ choice: choiceKept(), shown: shownNow() })
    document.addEventListener(CHANGED, changed)
    return () => document.removeEventListener(CHANGED, changed)
  }, [])
  return { ...theme, choose }
}

// If the browser forbids storage, the choice lasts until the page is closed.
let choiceInMemory: ThemeChoice = 'auto'

function choose(choice: ThemeChoice): void {
  choiceInMemory = choice
  try {
    localStorage.setItem(KEPT_AS, choice)
  } catch {}
  show()
}

function choiceKept(): ThemeChoice {
  try {
    const kept = localStorage.getItem(KEPT_AS)
    return kept === 'light' || kept === 'dark' ? kept : 'auto'
  } catch {
    return choiceInMemory
  }
}

function shownNow(): 'light' | 'dark' {
  const choice = choiceKept()
  return choice === 'auto' ? (system.matches ? 'dark' : 'light') : choice
}

function show(): void {
  document.documentElement.dataset['theme'] = shownNow()
  document.dispatchEvent(new Event(CHANGED))
}
