/** An account's usage of the last 30 days. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { KeyView, UsageView } from '../../../api/views.ts'
import { compact, count, plural } from '../../lib/format.ts'
import { type By, keyNames, METRIC_NAMES, type Metric } from '../../lib/usage.ts'
import { useResource } from '../../lib/use-resource.ts'
import { Card, Empty, Loaded, Money, Segments } from '../../ui/index.ts'
import { LazyChart } from '../../ui/lazy-chart.tsx'

const METRICS = Object.entries(METRIC_NAMES).map(([value, label]) => ({ value, label }))
const DIVISIONS = [
  { value: 'model', label: 'By model' },
  { value: 'key', label: 'By key' },
]

interface UsageProps {
  readonly accountId: string
  readonly keys: readonly KeyView[]
}

/** A chart by model or key. */
export function Usage({ accountId, keys }: UsageProps): VNode {
  const [metric, setMetric] = useState<Metric>('charged')
  const [by, setBy] = useState<By>('model')
  const resource = useResource<UsageView>(`operator/accounts/${accountId}/usage`, { by })
  return (
    <Card
      title="Usage"
      hint="The last 30 days"
      actions={
        <>
          <Segments label="Show" value={metric} onValue={value => setMetric(value as Metric)} options={METRICS} />
          <Segments label="Divide" value={by} onValue={value => setBy(value as By)} options={DIVISIONS} />
        </>
      }
    >
      <Loaded resource={resource} title="Failed to load the usage" lines={6}>
        {usage =>
          usage.rows.length === 0 ? (
            <Empty icon="usage" title="No usage in the last 30 days">
              Usage appears after the first request of this account.
            </Empty>
          ) : (
            <div class="stack">
              <p class="muted">
                {plural(usage.total.requests, 'request')},{' '}
                {usage.total.failed === 0 ? 'none failed' : `${count(usage.total.failed)} failed`};{' '}
                {compact(usage.total.prompt_tokens + usage.total.completion_tokens)} tokens;{' '}
                <Money value={usage.total.charged} /> charged.
              </p>
              <LazyChart
                rows={usage.rows}
                step={usage.step}
                from={usage.from}
                to={usage.to}
                metric={metric}
                by={by}
                names={keyNames(keys)}
              />
            </div>
          )
        }
      </Loaded>
    </Card>
  )
}
