/**
 * Runs before anything is drawn, while the rest is still loading: a page that somebody wants dark must not begin light. It
 * imports nothing, so that the browser can run it at once; from then on lib/theme.ts has the theme.
 */
{
  let kept: string | null = null
  // Where storage is forbidden, nothing was kept.
  try {
    kept = localStorage.getItem('tollgate-theme')
  } catch {}
  const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'
  document.documentElement.dataset['theme'] = kept === 'light' || kept === 'dark' ? kept : system
}
