/** The budgets, the people and the keys of an account. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { AccountView, BudgetView, KeyView, PageView, PersonView } from '../../../api/views.ts'
import { api } from '../../lib/api.ts'
import { type Pages, useResource } from '../../lib/use-resource.ts'
import {
  Badge,
  Button,
  type Column,
  Empty,
  List,
  Loaded,
  MoneyMeter,
  Pager,
  Time,
  useQuestion,
} from '../../ui/index.ts'
import { BUDGET_COLUMNS, budgetRows, KeyBudgetsDialog, useBudgetEditor } from '../budgets.tsx'
import { InviteDialog, ResetDialog } from './links.tsx'

interface BudgetsProps {
  readonly account: AccountView
  readonly budgets: Pages<BudgetView>
}

/** The budgets of the account and its keys. The list of keys has a button for those of a key. */
export function Budgets({ account, budgets }: BudgetsProps): VNode {
  const items = budgets.data ?? []
  const editor = useBudgetEditor({
    whose: account.name,
    path: `operator/accounts/${account.id}/budgets`,
    budgets: items,
    isOwn: ({ place }) => place === 'account',
    models: 'operator/models',
    onChanged: budgets.reload,
  })
  return (
    <List
      title="Budgets"
      // The account's own budgets are on the first page.
      actions={items.length > 0 && budgets.page === 1 && editor.add}
      rows={budgetRows(items)}
      instead={
        budgets.data === undefined && (
          <Loaded resource={budgets} title="Failed to load the budgets">
            {() => null}
          </Loaded>
        )
      }
      caption={`Budgets of ${account.name}`}
      columns={BUDGET_COLUMNS}
      rowActions={editor.rowActions}
      empty={
        <Empty icon="clock" title="No budgets" action={editor.add}>
          Without a budget, the account and its keys may spend all of the credit at any time.
        </Empty>
      }
    >
      <Pager pages={budgets} byName />
      {editor.dialogs}
    </List>
  )
}

interface PeopleProps {
  readonly account: AccountView
  readonly people: readonly PersonView[]
  readonly onChanged: () => void
}

/** The people of the account, and the button to invite one. */
export function People({ account, people, onChanged }: PeopleProps): VNode {
  const [isInviting, setInviting] = useState(false)
  const [resetting, setResetting] = useState<PersonView>()
  const invite = (
    <Button small icon="plus" onClick={() => setInviting(true)}>
      Invite
    </Button>
  )
  return (
    <List
      title="People"
      actions={people.length > 0 && invite}
      rows={people}
      caption={`People of ${account.name}`}
      columns={PEOPLE}
      rowActions={person => (
        <Button small aria-label={`Reset link for ${person.email}`} icon="link" onClick={() => setResetting(person)}>
          Reset link
        </Button>
      )}
      empty={
        <Empty icon="people" title="No members" action={invite}>
          Invite a person to create keys and see usage.
        </Empty>
      }
    >
      {isInviting && <InviteDialog account={account} onClose={() => setInviting(false)} onMade={onChanged} />}
      {resetting && <ResetDialog person={resetting} onClose={() => setResetting(undefined)} />}
    </List>
  )
}

const PEOPLE: readonly Column<PersonView>[] = [
  { title: 'E-mail', cell: person => person.email },
  { title: 'Role', cell: person => <RoleBadge role={person.role} /> },
]

/** A person's role. */
export function RoleBadge({ role }: { readonly role: PersonView['role'] }): VNode {
  return <Badge tone={role === 'operator' ? 'accent' : 'plain'}>{role === 'operator' ? 'Operator' : 'Member'}</Badge>
}

interface KeysProps {
  readonly account: AccountView
  readonly keys: readonly KeyView[]
  readonly onChanged: () => void
  readonly onBudgetsChanged: () => void
}

/** The account's keys. Operators can revoke keys and set their budgets; only the account's people create them. */
export function Keys({ account, keys, onChanged, onBudgetsChanged }: KeysProps): VNode {
  const path = `operator/accounts/${account.id}`
  const [limited, setLimited] = useState<KeyView>()
  // Not the list of the account: it may be at a later page, and the budgets of keys are on the first one.
  const budgets = useResource<PageView<BudgetView>>(limited ? `${path}/budgets` : null)
  const [revoke, question] = useQuestion<KeyView>(({ id, name, last_used_at }) => ({
    title: `Revoke the key ${name}?`,
    confirm: 'Revoke the key',
    danger: true,
    removesOpener: true,
    onConfirm: () => api.post(`${path}/keys/${id}/revoke`).then(onChanged),
    done: `The key ${name} is revoked`,
    children: (
      <>
        <p>The next request with it is refused. This cannot be undone.</p>
        <p class="muted">
          Last used: <Time value={last_used_at} none="never" />. Account: {account.name}.
        </p>
      </>
    ),
  }))
  return (
    <List
      title="Keys"
      rows={keys}
      caption={`Keys of ${account.name}`}
      columns={KEYS}
      rowActions={key =>
        key.state === 'live' && (
          <span class="row">
            <Button small aria-label={`Budgets of the key ${key.name}`} onClick={() => setLimited(key)}>
              Budgets
            </Button>
            <Button small aria-label={`Revoke the key ${key.name}`} onClick={() => revoke(key)}>
              Revoke
            </Button>
          </span>
        )
      }
      empty={
        <Empty icon="key" title="No keys">
          The people of the account create keys on their own page. For an account without people:{' '}
          <code class="code">tollgate key create</code>
        </Empty>
      }
    >
      {question}
      {limited && (
        <KeyBudgetsDialog
          keyView={limited}
          keysPath={`${path}/keys`}
          resource={budgets}
          models="operator/models"
          onClose={() => {
            setLimited(undefined)
            onBudgetsChanged()
          }}
        />
      )}
    </List>
  )
}

const KEYS: readonly Column<KeyView>[] = [
  {
    title: 'Name',
    cell: key => key.name,
    below: ({ secrets: [newest] }) => newest && <code>{`\u2026${newest.last4}`}</code>,
  },
  {
    title: 'State',
    cell: ({ state }) => <Badge tone={KEY_STATES[state][0]}>{KEY_STATES[state][1]}</Badge>,
    below: ({ state, expires_at }) =>
      state === 'live' &&
      expires_at !== null && (
        <>
          ends <Time value={expires_at} />
        </>
      ),
  },
  {
    title: 'Spent',
    money: { of: key => key.spent },
    below: ({ name, spent, spending_cap: cap }) =>
      cap !== null && <MoneyMeter label={`Spent of the cap of ${name}`} part={spent} whole={cap} />,
  },
  { title: 'Last used', cell: key => <Time value={key.last_used_at} none="never" /> },
]

const KEY_STATES = { live: ['good', 'Live'], expired: ['warn', 'Expired'], revoked: ['plain', 'Revoked'] } as const
