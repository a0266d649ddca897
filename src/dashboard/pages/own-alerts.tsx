/** Recent alerts about an account's budgets and credit. */
import type { VNode } from 'preact'
import type { AlertView, PageView } from '../../api/views.ts'
import { useResource } from '../lib/use-resource.ts'
import { Note, Time } from '../ui/index.ts'

const SHOWN = 3
const FOR_MS = 7 * 86_400_000

/** Renders nothing without alerts, or after an error: the overview works without them. */
export function OwnAlerts({ now }: { readonly now: number }): VNode | null {
  const alerts = useResource<PageView<AlertView>>('alerts', { limit: SHOWN })
  const recent = alerts.data?.items.filter(({ at }) => now - Date.parse(at) < FOR_MS) ?? []
  if (recent.length === 0) return null
  return (
    <Note tone="warn">
      {recent.map(({ id, text, at }) => (
        <p key={id}>
          {text}{' '}
          <span class="small muted">
            <Time value={at} />
          </span>
        </p>
      ))}
    </Note>
  )
}
