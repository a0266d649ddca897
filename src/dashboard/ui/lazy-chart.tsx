/** The chart of usage, which brings a library with it: it is loaded where it is shown, after the figures. */
import type { ComponentType, VNode } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { ModelView, PageView } from '../../api/views.ts'
import { useResource } from '../lib/use-resource.ts'
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
  const order = useOrder(props)
  if (failed) return <p class="muted">The chart could not be loaded. Load the page again.</p>
  if (loaded === null || order === null) return <Loading lines={6} label="Loading the chart" />
  const Shown = loaded
  return <Shown {...props} order={order} />
}

/** The models as the gateway lists them, or the keys in the order in which they were made; null: not known yet. */
function useOrder({ by, names = {} }: UsageChartProps): readonly string[] | null {
  const models = useResource<PageView<ModelView>>(by === 'model' ? 'models' : null)
  const ids = models.data?.items.map(({ id }) => id).join('\n')
  const keys = Object.keys(names).sort().join('\n')
  return useMemo(() => {
    if (by !== 'model') return keys.split('\n')
    return ids === undefined ? (models.error ? [] : null) : ids.split('\n')
  }, [by, ids, keys, models.error])
}
