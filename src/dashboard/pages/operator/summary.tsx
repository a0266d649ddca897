/** The gateway at a glance, for operators. */
import type { VNode } from 'preact'
import type { SummaryView } from '../../../api/views.ts'
import { count, plural } from '../../lib/format.ts'
import { useResource } from '../../lib/use-resource.ts'
import { Badge, Icon, Loaded, Money, Note, Stat, Stats, Time } from '../../ui/index.ts'
import { sentence } from './health.ts'

const EVERY_MS = 10_000

/** The total credit, the requests in progress, and whether the gateway is ready. */
export function Summary(): VNode {
  const summary = useResource<SummaryView>('operator/summary', undefined, { everyMs: EVERY_MS })
  return (
    <Loaded resource={summary} lines={2} title="Failed to load the summary">
      {data => <Figures summary={data} />}
    </Loaded>
  )
}

function Figures({ summary }: { readonly summary: SummaryView }): VNode {
  const { accounts, posted, held, inflight, open_holds: openHolds, ready, reason } = summary
  return (
    <>
      {!ready && (
        <Note tone="bad" title="The gateway is not ready">
          {reason === null ? 'The gateway gave no reason.' : sentence(reason)} Load balancers send it no new requests.
        </Note>
      )}
      <Stats>
        <Stat label="Accounts" value={count(accounts)} />
        <Stat label="Total credit" value={<Money value={posted} owned />} hint="not spent" />
        <Stat
          label="Held"
          value={<Money value={held} owned />}
          hint={`for ${plural(openHolds, 'request')} in progress`}
        />
        <Stat label="In progress" value={count(inflight)} hint={<a href="/operator/exchanges">View</a>} />
        <Stat
          label="Gateway"
          value={
            <Badge tone={ready ? 'good' : 'bad'}>
              <Icon name={ready ? 'check' : 'error'} />
              {ready ? 'Ready' : 'Not ready'}
            </Badge>
          }
          hint={
            <>
              {summary.version}, started <Time value={summary.started_at} />
            </>
          }
        />
      </Stats>
    </>
  )
}
