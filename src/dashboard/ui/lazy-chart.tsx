/** The chart of usage, which brings a library with it: it is loaded where it is shown, after the figures. */
import type { ComponentType, VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { UsageChartProps } from './chart.tsx'
import { Loading } from './state.tsx'

let loaded: ComponentType<UsageChartProps> | null = null

/** `UsageChart` of ui/chart.tsx, as soon as it has come. */
export function LazyChart(props: UsageChartProps): VNode {
  const [, redraw] = useState(0)
  const [failed, setFailed] = useState(false)
  useEffect(() => {
    if (loaded !== null) return
    let gone = false
    import('./chart.tsx').then(
      file => {
        loaded = file.UsageChart
        if (!gone) redraw(number => number + 1)
      },
      () => gone || setFailed(true),
    )
    return () => {
      gone = true
    }
  }, [])
  if (failed) return <p class="muted">The chart could not be loaded. Load the page again.</p>
  if (loaded === null) return <Loading lines={6} label="Loading the chart" />
  const Shown = loaded
  return <Shown {...props} />
}
