/** The width of the window, where CSS alone cannot decide: some parts are folded on a phone. */
import { useEffect, useState } from 'preact/hooks'

/** Whether the window is at least this wide. */
export function useRoom(pixels: number): boolean {
  const [roomy, setRoomy] = useState(() => query(pixels).matches)
  useEffect(() => {
    const watched = query(pixels)
    const changed = (): void => setRoomy(watched.matches)
    watched.addEventListener('change', changed)
    return () => watched.removeEventListener('change', changed)
  }, [pixels])
  return roomy
}

function query(pixels: number): MediaQueryList {
  return matchMedia(`(min-width: ${pixels}px)`)
}
