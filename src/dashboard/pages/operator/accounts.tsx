/** All accounts: a summary of the gateway, and the list of accounts. */
import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { AccountView, FoundReceiptView, PageView, PlanView } from '../../../api/views.ts'
import { requestIn } from '../../lib/request.ts'
import { navigate, setQuery, usePlace } from '../../lib/router.tsx'
import { usePages, useResource } from '../../lib/use-resource.ts'
import {
  Button,
  type Column,
  Empty,
  ErrorBox,
  List,
  Loading,
  Page,
  SearchField,
  SelectField,
  Time,
} from '../../ui/index.ts'
import { NewAccountDialog, StateBadge } from './account-dialogs.tsx'
import { accountsQuery, filtersOf, isFiltered } from './queries.ts'
import { Summary } from './summary.tsx'
import '../../styles/operator.css'

/** `/operator/accounts` */
export default function Accounts(): VNode {
  const filters = filtersOf(usePlace().query)
  const request = requestIn(filters.search)
  const pages = usePages<AccountView>(request === null ? 'operator/accounts' : null, accountsQuery(filters))
  const plans = useResource<PageView<PlanView>>('operator/plans')
  const [isMaking, setMaking] = useState(false)
  const planNames = plans.data?.items.map(({ plan }) => plan) ?? []
  return (
    <Page
      title="Accounts"
      lead="Every account with its plan and credit."
      actions={
        <Button variant="primary" icon="plus" onClick={() => setMaking(true)}>
          New account
        </Button>
      }
    >
      <Summary />
      <List
        rows={pages}
        byName
        failed="Failed to load the accounts"
        filters={<Filters plans={planNames} />}
        instead={request !== null && <Request id={request} />}
        caption="Accounts by name"
        columns={COLUMNS}
        empty={<Nothing isFiltered={isFiltered(filters)} onNew={() => setMaking(true)} />}
      />
      {isMaking && (
        <NewAccountDialog
          plans={plans.data?.items ?? []}
          onClose={() => setMaking(false)}
          onMade={account => navigate(`/operator/accounts/${account.id}`)}
        />
      )}
    </Page>
  )
}

const COLUMNS: readonly Column<AccountView>[] = [
  {
    title: 'Name',
    cell: account => <a href={`/operator/accounts/${account.id}`}>{account.name}</a>,
  },
  { title: 'Plan', cell: account => <span class="operator-word">{account.plan}</span> },
  { title: 'Available', money: { of: account => account.available, owned: true } },
  { title: 'Held', money: { of: account => account.held, owned: true } },
  { title: 'State', cell: account => <StateBadge frozen={account.frozen} /> },
  { title: 'Created', cell: account => <Time value={account.created_at} /> },
]

/** Opens the receipt of a request, in any account. */
function Request({ id }: { readonly id: string }): VNode {
  const { data, error, reload } = useResource<FoundReceiptView>(`operator/receipts/${id}`)
  useEffect(() => {
    if (!data) return
    // Replaces the search in the history: going back to it would lead here again.
    setQuery({ search: null })
    navigate(`/operator/accounts/${data.account.id}?receipt=${data.receipt.id}`)
  }, [data])
  if (!error) return <Loading lines={6} label="Looking for the request" />
  if (error.code !== 'not_found') return <ErrorBox error={error} retry={reload} title="The search failed" />
  return (
    <Empty
      icon="receipt"
      title="No receipt with this id"
      action={<Button onClick={() => setQuery({ search: null })}>Show all accounts</Button>}
    >
      Check the id. Requests rejected before a hold have no receipt and appear only in the gateway's log.
    </Empty>
  )
}

function Filters({ plans }: { readonly plans: readonly string[] }): VNode {
  const filters = filtersOf(usePlace().query)
  const known = filters.plan === '' || plans.includes(filters.plan) ? plans : [...plans, filters.plan]
  return (
    <search class="filters">
      <SearchField placeholder="Name, account id or request id" />
      <SelectField
        label="Plan"
        value={filters.plan}
        onValue={plan => setQuery({ plan })}
        options={[{ value: '', label: 'All plans' }, ...known.map(plan => ({ value: plan, label: plan }))]}
      />
      <SelectField
        label="State"
        value={filters.state}
        onValue={state => setQuery({ state })}
        options={[
          { value: '', label: 'All states' },
          { value: 'active', label: 'Active' },
          { value: 'frozen', label: 'Frozen' },
        ]}
      />
    </search>
  )
}

function Nothing({ isFiltered, onNew }: { readonly isFiltered: boolean; readonly onNew: () => void }): VNode {
  if (isFiltered) {
    return (
      <Empty
        icon="search"
        title="No accounts found"
        action={<Button onClick={() => setQuery({ search: null, plan: null, state: null })}>Show all accounts</Button>}
      >
        Try a shorter part of the name, or another plan or state.
      </Empty>
    )
  }
  return (
    <Empty
      icon="accounts"
      title="No accounts yet"
      action={
        <Button variant="primary" icon="plus" onClick={onNew}>
          New account
        </Button>
      }
    >
      An account has members, keys and credit. You can also create one by inviting a person.
    </Empty>
  )
}
