/**
 * Sets the theme before the first paint, so that a dark page does not flash light. It imports nothing, so the browser can run it
 * at once. Later changes of the theme are in lib/theme.ts.
 */
{
  let kept: string | null = null
  // Reading throws where storage is forbidden.
  try {
    kept = localStorage.getItem('tollgate-theme')
  } catch {}
  const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'
  document.documentElement.dataset['theme'] = kept === 'light' || kept === 'dark' ? kept : system
}
