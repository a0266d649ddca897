/**
 * The theme before the first paint: a dark page must not flash light. It imports nothing, so the browser can run it at once;
 * lib/theme.ts takes over later.
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
