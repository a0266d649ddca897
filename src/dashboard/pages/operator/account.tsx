/** An account for operators: credit, plan, people, keys, ledger, usage, receipts. */

import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { AccountDetailView, AccountView, BudgetView, PageView, PlanView } from '../../../api/views.ts'
import type { PageProps } from '../../lib/paths.ts'
import { setQuery, usePlace } from '../../lib/router.tsx'
import { useSession } from '../../lib/session.tsx'
import { type Resource, usePages, useResource } from '../../lib/use-resource.ts'
import {
  Button,
  Card,
  Copy,
  Empty,
  ErrorBox,
  Loading,
  Money,
  Note,
  Page,
  Segments,
  Stat,
  Stats,
  Time,
} from '../../ui/index.ts'
import { CreditDialog, FreezeDialog, PlanDialog, StateBadge } from './account-dialogs.tsx'
import { Ledger, Receipts } from './account-ledger.tsx'
import { Budgets, Keys, People } from './account-parts.tsx'
import { AccountReceipt } from './account-receipt.tsx'
import { Usage } from './account-usage.tsx'
import '../../styles/operator.css'

const BACK = { href: '/operator/accounts', label: 'Accounts' }

/** `/operator/accounts/ID` */
export default function Account({ params }: PageProps): VNode {
  const receipt = usePlace().query.get('receipt')
  const accountId = params['id'] ?? ''
  return receipt === null ? <Overview accountId={accountId} /> : <AccountReceipt id={receipt} accountId={accountId} />
}

function Overview({ accountId }: { readonly accountId: string }): VNode {
  const path = `operator/accounts/${encodeURIComponent(accountId)}`
  const detail = useResource<AccountDetailView>(path)
  if (detail.data) return <Detail resource={detail} detail={detail.data} />
  if (detail.error?.code === 'not_found') return <Missing />
  return (
    <Page title="Account" back={BACK}>
      {detail.error ? (
        <ErrorBox error={detail.error} retry={detail.reload} title="Failed to load the account" />
      ) : (
        <Loading lines={8} />
      )}
    </Page>
  )
}

function Missing(): VNode {
  return (
    <Page title="No such account" back={BACK}>
      <Card>
        <Empty icon="accounts" title="No account has this id">
          Search the list of accounts by a part of the name.
        </Empty>
      </Card>
    </Page>
  )
}

interface DetailProps {
  readonly resource: Resource<AccountDetailView>
  readonly detail: AccountDetailView
}

type OpenDialog = 'credit' | 'plan' | 'freeze' | null

function Detail({ resource, detail }: DetailProps): VNode {
  const { account, people, keys } = detail
  const [opened, open] = useState<OpenDialog>(null)
  // A new number reads the ledger again.
  const [changes, setChanges] = useState(0)
  const plans = useResource<PageView<PlanView>>('operator/plans')
  const budgets = usePages<BudgetView>(`operator/accounts/${account.id}/budgets`, undefined, { onReturn: true })
  const { session, refresh } = useSession()
  const close = (): void => open(null)
  const changed = (account: AccountView): void => {
    resource.replace({ ...detail, account })
    setChanges(number => number + 1)
    // The sidebar shows the balance of the operator's own account.
    if (account.id === session.account.id) refresh()
    plans.reload()
    // Another plan has other budgets.
    budgets.reload()
  }
  const dialog = { account, onClose: close, onChanged: changed }
  return (
    <Page
      title={account.name}
      back={BACK}
      lead={
        <span class="line">
          <code class="small">{account.id}</code>
          <Copy text={account.id} label="Copy the account's id" iconOnly variant="quiet" />
        </span>
      }
      actions={
        <>
          <Button icon="lock" onClick={() => open('freeze')}>
            {account.frozen ? 'Unfreeze' : 'Freeze'}
          </Button>
          <Button onClick={() => open('plan')}>Change plan</Button>
          <Button variant="primary" icon="plus" onClick={() => open('credit')}>
            Grant credit
          </Button>
        </>
      }
    >
      {resource.error && (
        <ErrorBox error={resource.error} retry={resource.reload} title="Failed to load the account again" />
      )}
      {account.frozen && (
        <Note tone="bad" title="This account is frozen">
          Requests with its keys are refused. Its people can sign in and see why.
        </Note>
      )}
      <Figures account={account} />
      <Usage accountId={account.id} keys={keys} />
      <Budgets account={account} budgets={budgets} />
      <People account={account} people={people} onChanged={resource.reload} />
      <Keys account={account} keys={keys} onChanged={resource.reload} onBudgetsChanged={budgets.reload} />
      <Lists account={account} keys={keys} changes={changes} onGrant={() => open('credit')} />
      {opened === 'credit' && <CreditDialog {...dialog} />}
      {opened === 'plan' && <PlanDialog {...dialog} plans={plans.data?.items ?? []} />}
      {opened === 'freeze' && <FreezeDialog {...dialog} />}
    </Page>
  )
}

interface ListsProps {
  readonly account: AccountView
  readonly keys: AccountDetailView['keys']
  readonly changes: number
  readonly onGrant: () => void
}

/** The ledger or the receipts. The choice is in the address, so that Back from a receipt returns to it. */
function Lists({ account, keys, changes, onGrant }: ListsProps): VNode {
  const list = usePlace().query.get('list') === 'receipts' ? 'receipts' : 'ledger'
  const choice = (
    <Segments
      label="List"
      value={list}
      onValue={value => setQuery({ list: value === 'ledger' ? null : value })}
      options={[
        { value: 'ledger', label: 'Ledger' },
        { value: 'receipts', label: 'Receipts' },
      ]}
    />
  )
  return list === 'ledger' ? (
    <Ledger accountId={account.id} keys={keys} changes={changes} onGrant={onGrant} choice={choice} />
  ) : (
    <Receipts accountId={account.id} keys={keys} choice={choice} />
  )
}

function Figures({ account }: { readonly account: AccountView }): VNode {
  return (
    <Stats>
      <Stat label="Available" value={<Money value={account.available} owned />} hint="balance minus holds" />
      <Stat label="Balance" value={<Money value={account.posted} owned />} hint="credit minus charges" />
      <Stat label="Held" value={<Money value={account.held} owned />} hint="for requests in progress" />
      <Stat label="Plan" value={account.plan} />
      <Stat
        label="State"
        value={<StateBadge frozen={account.frozen} />}
        hint={
          <>
            created <Time value={account.created_at} />
          </>
        }
      />
    </Stats>
  )
}
