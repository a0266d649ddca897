/** Alerts of all accounts and of the gateway, with their deliveries to webhooks. */
import type { VNode } from 'preact'
import type { AlertView, DeliveryView } from '../../../api/views.ts'
import { api } from '../../lib/api.ts'
import { dateTime } from '../../lib/format.ts'
import { setQuery, usePlace } from '../../lib/router.tsx'
import { usePages } from '../../lib/use-resource.ts'
import { Badge, Button, Code, type Column, Empty, List, Page, SelectField, Time, useQuestion } from '../../ui/index.ts'
import '../../styles/operator.css'

const EVERY_MS = 10_000

/** The titles of kinds of alerts. */
const KINDS: Readonly<Record<string, string>> = {
  budget: 'Budget',
  low_balance: 'Low balance',
  provider_down: 'Provider down',
  credential_refused: 'Credential refused',
  breaker_open: 'Target ejected',
  reload_invalid: 'Invalid configuration',
}

/** `/operator/alerts` */
export default function Alerts(): VNode {
  const kind = usePlace().query.get('kind') ?? ''
  const known = Object.hasOwn(KINDS, kind) ? kind : ''
  const alerts = usePages<AlertView>('operator/alerts', { kind: known === '' ? null : known }, { everyMs: EVERY_MS })
  const [resend, question] = useQuestion<AlertView>(({ id, text }) => ({
    title: 'Send this alert again?',
    confirm: 'Send again',
    children: <p>{text}</p>,
    onConfirm: () => api.post('operator/alerts/resend', { id }).then(alerts.reload),
    done: 'The alert will be sent again',
  }))
  return (
    <Page
      title="Alerts"
      lead="Alerts of accounts about budgets and credit, and of the gateway. Webhooks in gateway.yaml receive them too."
    >
      <List
        title="Recent alerts"
        filters={
          <div class="filters">
            <SelectField label="Kind" options={OPTIONS} value={known} onValue={value => setQuery({ kind: value })} />
          </div>
        }
        rows={alerts}
        failed="Failed to load the alerts"
        caption="Alerts, the newest first"
        columns={COLUMNS}
        rowActions={alert =>
          alert.deliveries.length > 0 && (
            <Button small aria-label={`Send again: ${alert.text}`} onClick={() => resend(alert)}>
              Send again
            </Button>
          )
        }
        empty={
          <Empty icon="warning" title={known === '' ? 'No alerts' : 'No alerts of this kind'}>
            To send alerts to other systems, add a receiver under <Code>alerts: webhooks:</Code> in gateway.yaml.
          </Empty>
        }
      />
      {question}
    </Page>
  )
}

const OPTIONS = [
  { value: '', label: 'All kinds' },
  ...Object.entries(KINDS).map(([value, label]) => ({ value, label })),
]

const COLUMNS: readonly Column<AlertView>[] = [
  { title: 'Time', cell: alert => <Time value={alert.at} /> },
  {
    title: 'Alert',
    cell: alert => alert.text,
    below: alert => KINDS[alert.kind] ?? alert.kind,
  },
  {
    title: 'Account',
    cell: ({ account_id: id, account }) =>
      id === null ? <span class="faint">{'\u2013'}</span> : <a href={`/operator/accounts/${id}`}>{account ?? id}</a>,
  },
  {
    title: 'Webhooks',
    cell: ({ deliveries }) =>
      deliveries.length === 0 ? (
        <span class="faint">none</span>
      ) : (
        deliveries.map(each => <Delivery key={each.receiver} delivery={each} />)
      ),
  },
]

const TONES = { delivered: 'good', waiting: 'warn', given_up: 'bad' } as const
const STATES = { delivered: 'delivered', waiting: 'waiting', given_up: 'given up' } as const

function Delivery({ delivery }: { readonly delivery: DeliveryView }): VNode {
  const { receiver, state, attempts, at, failure } = delivery
  const tried = `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}${failure === null ? '' : `, last: ${failure}`}`
  return (
    <div title={`${tried}; ${state === 'waiting' ? 'next ' : ''}${dateTime(at)}`}>
      <Badge tone={TONES[state]}>
        {receiver}: {STATES[state]}
      </Badge>
      {failure !== null && <div class="small muted">{failure}</div>}
    </div>
  )
}
