/** The first page: what is there, what was spent, what happened last, and what to do next. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { AccountView, KeyView, ModelView, PageView, ReceiptView, UsageView } from '../../admin/api/views.ts'
import { compact, plural } from '../lib/format.ts'
import { useSession } from '../lib/session.tsx'
import { curlSnippet, nodeSnippet, pythonSnippet } from '../lib/snippets.ts'
import { LOOK_BACK_DAYS, lookBack, spentIn, supplyOf } from '../lib/spending.ts'
import { type Resource, useNow, useResource } from '../lib/use-resource.ts'
import {
  ButtonLink,
  Card,
  type Column,
  Empty,
  ErrorBox,
  Icon,
  Loaded,
  Loading,
  Money,
  Note,
  Page,
  Snippet,
  Stat,
  Stats,
  Table,
  Tabs,
  Time,
} from '../ui/index.ts'
import { LazyChart } from '../ui/lazy-chart.tsx'
import { OutcomeBadge } from './receipt-list.tsx'

export default function Overview(): VNode {
  const { session } = useSession()
  const now = useNow(60_000)
  const [range] = useState(() => lookBack(now))
  const account = useResource<AccountView>('account')
  const usage = useResource<UsageView>('usage', { ...range, step: 'day', by: 'model' })
  const receipts = useResource<PageView<ReceiptView>>('receipts', { limit: 6 })
  const { available, posted, held, plan } = account.data ?? session.account
  const rows = usage.data?.rows
  const week = rows && spentIn(7, rows, now)
  const first = receipts.data?.items.length === 0
  // Not known yet: neither the chart nor the first steps, so that nothing jumps.
  const known = receipts.data !== undefined || receipts.error !== undefined
  return (
    <Page title="Overview" lead={`${session.account.name}, plan ${plan}`}>
      {account.error && <ErrorBox error={account.error} retry={account.reload} title="The balance could not be read" />}
      <SupplyNote available={available} week={week} />
      <Stats>
        <Stat
          label="Available credit"
          value={<Money value={available} owned />}
          hint={
            <>
              <Money value={posted} owned /> balance, <Money value={held} owned /> held
            </>
          }
        />
        <Spent label="Spent today" days={1} rows={rows} now={now} hint="since 00:00 UTC" />
        <Spent label="Last 7 days" days={7} rows={rows} now={now} hint="today included" />
        <Spent
          label={`Last ${LOOK_BACK_DAYS} days`}
          days={LOOK_BACK_DAYS}
          rows={rows}
          now={now}
          hint={usage.data ? plural(usage.data.total.requests, 'request') : undefined}
        />
      </Stats>
      {!known && (
        <Card>
          <Loading lines={8} />
        </Card>
      )}
      {first && <FirstRequest />}
      {known && !first && (
        <Card title="Spend by model" hint={`${LOOK_BACK_DAYS} days, in UTC`} actions={<a href="/usage">All usage</a>}>
          <Loaded resource={usage} title="The usage could not be read" lines={6}>
            {data => <SpendChart usage={data} />}
          </Loaded>
        </Card>
      )}
      {known && !first && (
        <Card flush title="Latest requests" actions={<a href="/receipts">All receipts</a>}>
          <Loaded resource={receipts} title="The receipts could not be read" lines={5}>
            {({ items }) => <Latest receipts={items} />}
          </Loaded>
        </Card>
      )}
    </Page>
  )
}

interface SpentProps {
  readonly label: string
  readonly days: number
  readonly rows: UsageView['rows'] | undefined
  readonly now: number
  readonly hint: string | undefined
}

function Spent({ label, days, rows, now, hint }: SpentProps): VNode {
  return <Stat label={label} value={rows ? <Money value={spentIn(days, rows, now)} /> : '\u2013'} hint={hint} />
}

function SupplyNote({
  available,
  week,
}: {
  readonly available: string
  readonly week: string | undefined
}): VNode | null {
  if (week === undefined) return null
  const supply = supplyOf(available, week)
  if (supply.state === 'enough') return null
  if (supply.state === 'none') {
    return (
      <Note tone="warn" title="There is no credit">
        Requests that cost something are refused until the operator of this gateway adds credit.
      </Note>
    )
  }
  return (
    <Note tone="warn" title="Credit is running low">
      At the pace of the last week it will do for{' '}
      {supply.days < 1 ? 'less than a day' : plural(supply.days, 'more day')}. Ask the operator of this gateway for
      more.
    </Note>
  )
}

function SpendChart({ usage: { rows, step, from, to } }: { readonly usage: UsageView }): VNode {
  if (rows.length === 0) {
    return (
      <Empty icon="usage" title={`Nothing was spent in ${LOOK_BACK_DAYS} days`}>
        Requests appear here as soon as they are answered.
      </Empty>
    )
  }
  return <LazyChart rows={rows} step={step} from={from} to={to} metric="charged" by="model" />
}

const LATEST: readonly Column<ReceiptView>[] = [
  { title: 'Model', cell: receipt => <a href={`/receipts/${encodeURIComponent(receipt.id)}`}>{receipt.model}</a> },
  { title: 'When', cell: receipt => <Time value={receipt.created_at} /> },
  { title: 'Outcome', cell: receipt => <OutcomeBadge outcome={receipt.outcome} /> },
  { title: 'Tokens', number: true, cell: receipt => compact(receipt.prompt_tokens + receipt.completion_tokens) },
  {
    title: 'Charged',
    number: true,
    cell: ({ charged }) => (charged === null ? <span class="muted">under way</span> : <Money value={charged} />),
  },
]

function Latest({ receipts }: { readonly receipts: readonly ReceiptView[] }): VNode {
  return <Table caption="The latest requests" columns={LATEST} rows={receipts} rowKey={receipt => receipt.id} />
}

/** As long as there was no request: how to make one. */
function FirstRequest(): VNode {
  const { about } = useSession()
  const keys = useResource<PageView<KeyView>>('keys')
  const models = useResource<PageView<ModelView>>('models')
  const hasKey = keys.data?.items.some(key => key.state === 'live' && key.purpose === null) ?? false
  return (
    <Card title="Make your first request" hint="It takes a minute. The charge shows up on this page.">
      <ol class="steps">
        <li class={hasKey ? 'step step-done' : 'step'}>
          <StepMark done={hasKey} number={1} />
          <div class="stack-tight">
            <h3>Create an API key</h3>
            <p class="muted">{hasKey ? 'Done: this account has a key.' : 'It is shown once; copy it then.'}</p>
            {!hasKey && (
              <div class="step-action">
                <ButtonLink href="/keys?create=1" variant="primary" icon="plus">
                  Create key
                </ButtonLink>
              </div>
            )}
          </div>
        </li>
        <li class="step">
          <StepMark done={false} number={2} />
          <div class="stack-tight grow">
            <h3>Send a request</h3>
            <p class="muted">
              Put your key in its place. Every SDK that speaks chat completions works: only the base URL changes.
            </p>
            <Snippets baseUrl={about.base_url} models={models} />
          </div>
        </li>
        <li class="step">
          <StepMark done={false} number={3} />
          <div class="stack-tight">
            <h3>Or try it right here</h3>
            <p class="muted">The playground uses a key of its own.</p>
            <div class="step-action">
              <ButtonLink href="/playground" icon="playground">
                Open the playground
              </ButtonLink>
            </div>
          </div>
        </li>
      </ol>
    </Card>
  )
}

function StepMark({ done, number }: { readonly done: boolean; readonly number: number }): VNode {
  return (
    <span class="step-mark" aria-hidden="true">
      {done ? <Icon name="check" /> : number}
    </span>
  )
}

interface SnippetsProps {
  readonly baseUrl: string
  readonly models: Resource<PageView<ModelView>>
}

function Snippets({ baseUrl, models }: SnippetsProps): VNode {
  if (models.error) return <ErrorBox error={models.error} retry={models.reload} title="The models could not be read" />
  if (models.data === undefined) return <Loading lines={4} />
  const model = models.data.items[0]?.id
  if (model === undefined) return <p>This gateway has no models yet. Its operator adds them to its configuration.</p>
  const parts = { baseUrl, model }
  return (
    <Tabs
      label="Language"
      tabs={[
        { id: 'curl', title: 'curl', content: () => <Snippet text={curlSnippet(parts)} label="curl command" /> },
        { id: 'node', title: 'Node.js', content: () => <Snippet text={nodeSnippet(parts)} label="Node.js program" /> },
        {
          id: 'python',
          title: 'Python',
          content: () => <Snippet text={pythonSnippet(parts)} label="Python program" />,
        },
      ]}
    />
  )
}
