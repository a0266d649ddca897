/** Loads the chart of usage with its library when a chart is shown. */
import type { ComponentType, VNode } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { ModelView, PageView } from '../../api/views.ts'
import { useResource } from '../lib/use-resource.ts'
import type { UsageChartProps } from './chart.tsx'
import { Loading } from './state.tsx'

let loaded: ComponentType<UsageChartProps> | null = null

/** `UsageChart` of ui/chart.tsx, once it is loaded. */
export function LazyChart(props: UsageChartProps): VNode {
  const [, redraw] = useState(0)
  const [failed, setFailed] = useState(false)
  useEffect(() => {
    if (loaded !== null) return
    let unmounted = false
    import('./chart.tsx').then(
      file => {
        loaded = file.UsageChart
        if (!unmounted) redraw(number => number + 1)
      },
      () => unmounted || setFailed(true),
    )
    return () => {
      unmounted = true
    }
  }, [])
  const order = useOrder(props)
  if (failed) return <p class="muted">The chart could not be loaded. Load the page again.</p>
  if (loaded === null || order === null) return <Loading lines={6} label="Loading the chart" />
  const Shown = loaded
  return <Shown {...props} order={order} />
}

/** Model ids in the gateway's order, or key ids by creation; null: not loaded. */
function useOrder({ by, names = {} }: UsageChartProps): readonly string[] | null {
  const models = useResource<PageView<ModelView>>(by === 'model' ? 'models' : null)
  const ids = models.data?.items.map(({ id }) => id).join('\n')
  const keys = Object.keys(names).sort().join('\n')
  return useMemo(() => {
    if (by !== 'model') return keys.split('\n')
    return ids === undefined ? (models.error ? [] : null) : ids.split('\n')
  }, [by, ids, keys, models.error])
}
