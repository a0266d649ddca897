/** Providers and the health of their targets. */
import type { VNode } from 'preact'
import type { PageView, ProviderView, TargetHealthView } from '../../../api/views.ts'
import { count, dateTime, duration, plural } from '../../lib/format.ts'
import { useNow, useResource } from '../../lib/use-resource.ts'
import {
  Badge,
  Button,
  Card,
  Code,
  type Column,
  Empty,
  Icon,
  Loaded,
  Page,
  Stat,
  Stats,
  Table,
} from '../../ui/index.ts'
import { credentialWords, failureWords, providerWords, STATES, type StateWords } from './health.ts'
import '../../styles/operator.css'

const EVERY_MS = 5000

/** `/operator/providers` */
export default function Providers(): VNode {
  const resource = useResource<PageView<ProviderView>>('operator/providers', undefined, { everyMs: EVERY_MS })
  return (
    <Page
      title="Providers"
      lead="The health of each provider and its targets. Updates every few seconds."
      actions={
        <Button icon="reload" onClick={resource.reload} busy={resource.loading && resource.data === undefined}>
          Refresh
        </Button>
      }
    >
      <Loaded resource={resource} title="Failed to load the providers" lines={8}>
        {({ items }) =>
          items.length === 0 ? (
            <Card>
              <Empty icon="providers" title="No providers">
                Add one under <Code>providers</Code> in gateway.yaml, and a model with a target that uses it.
              </Empty>
            </Card>
          ) : (
            <>
              <Figures providers={items} />
              {items.map(provider => (
                <Provider key={provider.name} provider={provider} />
              ))}
              <Meanings />
            </>
          )
        }
      </Loaded>
    </Page>
  )
}

function Figures({ providers }: { readonly providers: readonly ProviderView[] }): VNode {
  const targets = providers.flatMap(provider => provider.targets)
  const well = targets.filter(target => target.state === 'well').length
  const attempts = targets.reduce((sum, target) => sum + target.attempts, 0)
  const failed = targets.reduce((sum, target) => sum + target.failed, 0)
  return (
    <Stats>
      <Stat label="Providers" value={count(providers.length)} />
      <Stat label="Healthy targets" value={`${count(well)} of ${count(targets.length)}`} />
      <Stat label="Attempts in progress" value={count(targets.reduce((sum, target) => sum + target.inflight, 0))} />
      <Stat label="Failed in 30 s" value={count(failed)} hint={`of ${plural(attempts, 'attempt')}`} />
    </Stats>
  )
}

function Provider({ provider }: { readonly provider: ProviderView }): VNode {
  const words = providerWords(provider)
  return (
    <Card
      title={provider.name}
      flush
      hint={
        <>
          {provider.dialect} dialect
          {provider.base_url !== null && (
            <>
              {', '}
              <span class="mono">{provider.base_url}</span>
            </>
          )}
          {', credentials: '}
          {credentialWords(provider.credentials)}
        </>
      }
      actions={<State words={words} />}
    >
      <Table
        caption={`Targets of ${provider.name}`}
        columns={COLUMNS}
        rows={provider.targets.map(target => ({ id: target.target, ...target }))}
        empty={
          <Empty icon="providers" title="No model uses this provider">
            A model sends requests here when one of its targets names {provider.name}.
          </Empty>
        }
      />
    </Card>
  )
}

const COLUMNS: readonly Column<TargetHealthView>[] = [
  { title: 'Target', cell: target => target.target, below: target => `for ${target.models.join(', ')}` },
  {
    title: 'State',
    cell: target => <State words={STATES[target.state]} />,
    below: target => target.until !== null && <Until value={target.until} />,
  },
  { title: 'In progress', number: true, cell: target => count(target.inflight) },
  { title: 'Failures in a row', number: true, cell: target => count(target.failures_in_a_row) },
  { title: 'Failed in 30 s', number: true, cell: failureWords },
  {
    title: 'First token',
    number: true,
    cell: target =>
      target.latency_ms === null ? <span class="faint">not measured</span> : duration(target.latency_ms),
  },
]

/** The remaining time of a state; nothing once it is over, as the next reading has the new state. */
function Until({ value }: { readonly value: string }): VNode | null {
  const now = useNow(1000)
  if (Date.parse(value) <= now) return null
  return (
    <span class="small muted" title={dateTime(value)}>
      for {duration(Date.parse(value) - now)}
    </span>
  )
}

const ICONS = { good: 'check', info: 'clock', warn: 'warning', bad: 'error' } as const

function State({ words }: { readonly words: StateWords }): VNode {
  return (
    <span title={words.meaning}>
      <Badge tone={words.tone}>
        <Icon name={ICONS[words.tone]} />
        {words.label}
      </Badge>
    </span>
  )
}

function Meanings(): VNode {
  return (
    <Card title="States">
      <dl class="details">
        {Object.entries(STATES).map(([state, words]) => (
          <div key={state}>
            <dt>
              <State words={words} />
            </dt>
            <dd class="muted">{words.meaning}</dd>
          </div>
        ))}
      </dl>
    </Card>
  )
}
