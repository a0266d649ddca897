/** The width of the window, for components that CSS alone cannot change: some parts are folded on a phone. */
import { useEffect, useState } from 'preact/hooks'

/** Whether the window is at least this wide. */
export function useMinWidth(pixels: number): boolean {
  const [isWide, setWide] = useState(() => query(pixels).matches)
  useEffect(() => {
    const watched = query(pixels)
    const changed = (): void => setWide(watched.matches)
    watched.addEventListener('change', changed)
    return () => watched.removeEventListener('change', changed)
  }, [pixels])
  return isWide
}

function query(pixels: number): MediaQueryList {
  return matchMedia(`(min-width: ${pixels}px)`)
}
