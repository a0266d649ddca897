/** The overview: the credit, the spending, the latest requests, and the first steps. */
import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { AccountView, BudgetView, KeyView, PageView, ReceiptView, UsageView } from '../../api/views.ts'
import { compact, exactMoney, moneyAtLeast, nano, plural } from '../lib/format.ts'
import { useSession } from '../lib/session.tsx'
import { LOOK_BACK_DAYS, lookBack, spentIn, supplyOf } from '../lib/spending.ts'
import { type Pages, useNow, usePages, useResource } from '../lib/use-resource.ts'
import {
  ButtonLink,
  Card,
  type Column,
  Empty,
  ErrorBox,
  Icon,
  List,
  Loaded,
  Loading,
  Money,
  Note,
  Page,
  Pager,
  Stat,
  Stats,
  Table,
  Time,
} from '../ui/index.ts'
import { LazyChart } from '../ui/lazy-chart.tsx'
import { BUDGET_COLUMNS, budgetRows } from './budgets.tsx'
import { ExamplesOfModels } from './examples.tsx'
import { OwnAlerts } from './own-alerts.tsx'
import { OutcomeBadge } from './receipt-list.tsx'

export default function Overview(): VNode {
  const { session, refresh } = useSession()
  const now = useNow(60_000)
  const [range] = useState(() => lookBack(now))
  const account = useResource<AccountView>('account', undefined, BACK)
  const usage = useResource<UsageView>('usage', { ...range, step: 'day', by: 'model' }, BACK)
  const budgets = usePages<BudgetView>('budgets', undefined, BACK)
  const [waiting, setWaiting] = useState(false)
  const receipts = useResource<PageView<ReceiptView>>(
    'receipts',
    { limit: 6 },
    { ...BACK, everyMs: waiting ? FIRST_EVERY_MS : undefined },
  )
  const { available, posted, held, plan } = account.data ?? session.account
  const rows = usage.data?.rows
  const week = rows && spentIn(7, rows, now)
  const first = receipts.data?.items.length === 0
  // Polls until the first request is charged, then reads the balance and the usage again.
  const unpaid = receipts.data?.items.every(({ charged }) => charged === null) ?? false
  useEffect(() => {
    if (waiting && !unpaid) {
      account.reload()
      usage.reload()
      refresh()
    }
    setWaiting(unpaid)
  }, [unpaid])
  // Until the receipts are loaded, neither the chart nor the first steps are shown, so that the page does not jump.
  const known = receipts.data !== undefined || receipts.error !== undefined
  return (
    <Page title="Overview" lead={`${session.account.name}, plan ${plan}`}>
      {account.error && <ErrorBox error={account.error} retry={account.reload} title="Failed to load the balance" />}
      <SupplyNote available={available} week={week} />
      <Stats>
        <Stat
          label="Available credit"
          value={<Money value={available} owned />}
          hint={<Supply available={available} posted={posted} held={held} />}
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
      <OwnAlerts now={now} />
      <AccountBudgets pages={budgets} />
      {!known && (
        <Card>
          <Loading lines={8} />
        </Card>
      )}
      {first && <FirstRequest />}
      {known && !first && (
        <Card title="Spend by model" hint={`${LOOK_BACK_DAYS} days, in UTC`} actions={<a href="/usage">All usage</a>}>
          <Loaded resource={usage} title="Failed to load the usage" lines={6}>
            {data => <SpendChart usage={data} />}
          </Loaded>
        </Card>
      )}
      {known && !first && (
        <Card flush title="Latest requests" actions={<a href="/receipts">All receipts</a>}>
          <Loaded resource={receipts} title="Failed to load the receipts" lines={5}>
            {({ items }) => <Latest receipts={items} />}
          </Loaded>
        </Card>
      )}
    </Page>
  )
}

/** Reads again on return: programs and other windows change the data. */
const BACK = { onReturn: true } as const
/** The interval of the poll for the first request. */
const FIRST_EVERY_MS = 3000

/** The exact credit, and the holds of requests in progress. */
function Supply({ available, posted, held }: Pick<AccountView, 'available' | 'posted' | 'held'>): VNode {
  const isShort = exactMoney(available) !== moneyAtLeast(available)
  return (
    <>
      {isShort && (
        <>
          exactly <Money value={available} exact />
          <br />
        </>
      )}
      {nano(held) === 0n ? (
        'nothing is held'
      ) : (
        <>
          <Money value={posted} owned /> balance, <Money value={held} owned /> held
        </>
      )}
    </>
  )
}

/** The budgets of the whole account; nothing without any. Those of keys are on the keys page. */
function AccountBudgets({ pages }: { readonly pages: Pages<BudgetView> }): VNode | null {
  const { data, error, reload } = pages
  if (error) return <ErrorBox error={error} retry={reload} title="Failed to load the budgets" />
  const budgets = data?.filter(({ key_id }) => key_id === null) ?? []
  if (budgets.length === 0 && pages.single) return null
  return (
    <List title="Budgets" caption="Budgets of the account" columns={BUDGET_COLUMNS} rows={budgetRows(budgets)}>
      <Pager pages={pages} byName />
    </List>
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
      <Note tone="warn" title="The account has no credit">
        Requests that cost something are refused until the operator of this gateway adds credit.
      </Note>
    )
  }
  return (
    <Note tone="warn" title="Credit is running low">
      At last week's rate, the credit lasts {supply.days < 1 ? 'less than a day' : plural(supply.days, 'more day')}. Ask
      the operator of this gateway for more.
    </Note>
  )
}

function SpendChart({ usage: { rows, step, from, to } }: { readonly usage: UsageView }): VNode {
  if (rows.length === 0) {
    return (
      <Empty icon="usage" title={`No spending in ${LOOK_BACK_DAYS} days`}>
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
    money: { of: ({ charged }) => charged, none: 'in progress' },
  },
]

function Latest({ receipts }: { readonly receipts: readonly ReceiptView[] }): VNode {
  return <Table caption="The latest requests" columns={LATEST} rows={receipts} />
}

/** The first steps, until the first request. */
function FirstRequest(): VNode {
  const keys = useResource<PageView<KeyView>>('keys', undefined, BACK)
  const hasKey = keys.data?.items.some(key => key.state === 'live' && key.purpose === null) ?? false
  return (
    <Card title="Make your first request" hint="It takes a minute. The charge shows up on this page.">
      <ol class="stack-loose">
        <li class={hasKey ? 'step tone-good' : 'step'}>
          <StepMark done={hasKey} number={1} />
          <div class="stack-tight">
            <h3>Create an API key</h3>
            <p class="muted">{hasKey ? 'Done: this account has a key.' : 'It is shown only once.'}</p>
            {!hasKey && (
              <div class="row">
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
            <p class="muted">Replace YOUR_KEY by your key. Any SDK for chat completions works: change its base URL.</p>
            <ExamplesOfModels />
          </div>
        </li>
        <li class="step">
          <StepMark done={false} number={3} />
          <div class="stack-tight">
            <h3>Or try it right here</h3>
            <p class="muted">The playground creates its own key.</p>
            <div class="row">
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
    <span class="mark" aria-hidden="true">
      {done ? <Icon name="check" /> : number}
    </span>
  )
}
