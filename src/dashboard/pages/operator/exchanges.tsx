/** Requests in progress, read every two seconds while the page is visible. */
import type { VNode } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import type { ExchangeView, PageView } from '../../../api/views.ts'
import { count, dateTime, duration, plural } from '../../lib/format.ts'
import { useResource } from '../../lib/use-resource.ts'
import { announce, Badge, Button, type Column, Empty, List, Loaded, Page, Stat, Stats } from '../../ui/index.ts'
import '../../styles/operator.css'

const EVERY_MS = 2000
/** The most rows: a table of thousands is slow, and changes too fast to read. */
const SHOWN = 200

/** `/operator/exchanges` */
export default function Exchanges(): VNode {
  const [paused, setPaused] = useState(false)
  const resource = useResource<PageView<ExchangeView>>('operator/exchanges', undefined, {
    everyMs: paused ? undefined : EVERY_MS,
  })
  // Ages are relative to the last reading, so a paused list does not age.
  const readAt = useMemo(() => Date.now(), [resource.data])
  const pause = (): void => {
    announce(paused ? 'Live updates resumed' : 'Live updates paused')
    setPaused(!paused)
    if (paused) resource.reload()
  }
  return (
    <Page
      title="Live exchanges"
      lead={
        paused ? 'Live updates are paused.' : 'Requests in progress now, the oldest first. Updates every 2 seconds.'
      }
      actions={
        <Button icon={paused ? 'play' : 'pause'} onClick={pause}>
          {paused ? 'Resume' : 'Pause'}
        </Button>
      }
    >
      <Loaded resource={resource} title="Failed to load the exchanges">
        {({ items }) => (
          <>
            <Figures items={items} readAt={readAt} />
            <InProgress items={items} readAt={readAt} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

interface ListProps {
  readonly items: readonly ExchangeView[]
  readonly readAt: number
}

function Figures({ items, readAt }: ListProps): VNode {
  const oldestMs = Math.max(0, ...items.map(item => age(item, readAt)))
  const accounts = new Set(items.map(item => item.account_id).filter(id => id !== null))
  return (
    <Stats>
      <Stat label="In progress" value={count(items.length)} />
      <Stat label="Streams" value={count(items.filter(item => item.stream === true).length)} />
      <Stat label="Accounts" value={count(accounts.size)} />
      <Stat label="Oldest" value={items.length === 0 ? '\u2013' : duration(oldestMs)} />
    </Stats>
  )
}

function InProgress({ items, readAt }: ListProps): VNode {
  const hidden = items.length - SHOWN
  return (
    <List
      title="Exchanges"
      hint={
        hidden > 0 ? `The oldest ${SHOWN} are shown; ${plural(hidden, 'more is', 'more are')} in progress.` : undefined
      }
      rows={items.slice(0, SHOWN)}
      caption="Exchanges in progress"
      columns={columnsOf(items, readAt)}
      empty={
        <Empty icon="exchanges" title="No requests in progress">
          Requests appear here while they are in progress. Completed requests have receipts in their account.
        </Empty>
      }
    />
  )
}

function columnsOf(items: readonly ExchangeView[], readAt: number): readonly Column<ExchangeView>[] {
  const replica: Column<ExchangeView> = { title: 'Replica', cell: item => item.replica }
  return items.some(item => item.replica !== null) ? [...columns(readAt), replica] : columns(readAt)
}

function columns(readAt: number): readonly Column<ExchangeView>[] {
  return [
    {
      title: 'Exchange',
      cell: item => <code class="small nowrap">{item.id}</code>,
      below: item => `${item.route}, policy ${item.policy}`,
    },
    {
      title: 'Account',
      cell: item =>
        item.account_id === null ? (
          <span class="faint">not known yet</span>
        ) : (
          <a href={`/operator/accounts/${item.account_id}`}>{item.account ?? item.account_id}</a>
        ),
      below: item => `from ${item.address}`,
    },
    {
      title: 'Model',
      cell: item => item.model ?? <span class="faint">not known yet</span>,
      below: ({ target, attempts }) => target && `to ${target}${attempts > 1 ? `, attempt ${attempts}` : ''}`,
    },
    {
      title: 'Answer',
      cell: item =>
        item.stream === null ? (
          <span class="faint">{'\u2013'}</span>
        ) : (
          <Badge tone={item.stream ? 'accent' : 'plain'}>{item.stream ? 'Stream' : 'Whole'}</Badge>
        ),
    },
    { title: 'Tokens', number: true, cell: item => count(item.tokens) },
    {
      title: 'Running for',
      number: true,
      cell: item => (
        <time dateTime={item.started_at} title={dateTime(item.started_at)}>
          {duration(age(item, readAt))}
        </time>
      ),
    },
  ]
}

/** The clocks of the gateway and the browser may differ. */
function age(item: ExchangeView, readAt: number): number {
  return Math.max(0, readAt - Date.parse(item.started_at))
}
