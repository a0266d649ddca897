/** The people and the keys of an account. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { AccountView, KeyView, PersonView } from '../../../api/views.ts'
import { api } from '../../lib/api.ts'
import {
  announce,
  Badge,
  Button,
  Card,
  type Column,
  ConfirmDialog,
  Empty,
  MoneyMeter,
  Table,
  Time,
} from '../../ui/index.ts'
import { InviteDialog, ResetDialog } from './links.tsx'

interface PeopleProps {
  readonly account: AccountView
  readonly people: readonly PersonView[]
  readonly onChanged: () => void
}

/** Who signs in to the account, and the way for others to. */
export function People({ account, people, onChanged }: PeopleProps): VNode {
  const [isInviting, setInviting] = useState(false)
  const [resetting, setResetting] = useState<PersonView>()
  const invite = (
    <Button small icon="plus" onClick={() => setInviting(true)}>
      Invite
    </Button>
  )
  const columns: readonly Column<PersonView>[] = [
    { title: 'E-mail', heading: true, cell: person => person.email },
    { title: 'Role', cell: person => <RoleBadge role={person.role} /> },
    {
      title: 'Actions',
      actions: true,
      cell: person => (
        <Button small aria-label={`Reset link for ${person.email}`} icon="link" onClick={() => setResetting(person)}>
          Reset link
        </Button>
      ),
    },
  ]
  return (
    <Card title="People" flush actions={people.length > 0 && invite}>
      <Table
        caption={`People of ${account.name}`}
        columns={columns}
        rows={people}
        rowKey={person => person.id}
        empty={
          <Empty icon="people" title="Nobody signs in to this account" action={invite}>
            Invite somebody: they make keys and see what is spent.
          </Empty>
        }
      />
      {isInviting && <InviteDialog account={account} onClose={() => setInviting(false)} onMade={onChanged} />}
      {resetting && <ResetDialog person={resetting} onClose={() => setResetting(undefined)} />}
    </Card>
  )
}

/** What somebody may do here. */
export function RoleBadge({ role }: { readonly role: PersonView['role'] }): VNode {
  return <Badge tone={role === 'operator' ? 'accent' : 'plain'}>{role === 'operator' ? 'Operator' : 'Member'}</Badge>
}

interface KeysProps {
  readonly account: AccountView
  readonly keys: readonly KeyView[]
  readonly onChanged: () => void
}

/** The account's keys. Operators can revoke one; making them is for the account's people. */
export function Keys({ account, keys, onChanged }: KeysProps): VNode {
  const [revoking, setRevoking] = useState<KeyView>()
  const revoke = async (key: KeyView): Promise<void> => {
    await api.post(`operator/accounts/${account.id}/keys/${key.id}/revoke`)
    announce(`The key ${key.name} is revoked`)
    onChanged()
  }
  const columns: readonly Column<KeyView>[] = [
    {
      title: 'Name',
      heading: true,
      cell: key => (
        <span class="stack-tight">
          <span>{key.name}</span>
          {key.secrets[0] && <code class="cell-sub">{`\u2026${key.secrets[0].last4}`}</code>}
        </span>
      ),
    },
    { title: 'State', cell: key => <KeyState keyView={key} /> },
    {
      title: 'Spent',
      money: {
        of: key => key.spent,
        below: ({ name, spent, spending_cap: cap }) =>
          cap !== null && <MoneyMeter label={`Spent of the cap of ${name}`} part={spent} whole={cap} />,
      },
    },
    { title: 'Last used', cell: key => <Time value={key.last_used_at} none="never" /> },
    {
      title: 'Actions',
      actions: true,
      cell: key =>
        key.state === 'live' && (
          <Button small aria-label={`Revoke the key ${key.name}`} onClick={() => setRevoking(key)}>
            Revoke
          </Button>
        ),
    },
  ]
  return (
    <Card title="Keys" flush>
      <Table
        caption={`Keys of ${account.name}`}
        columns={columns}
        rows={keys}
        rowKey={key => key.id}
        empty={
          <Empty icon="key" title="No keys">
            The people of the account make keys on their own page. For an account without people:{' '}
            <code class="code">tollgate key create</code>
          </Empty>
        }
      />
      {revoking && (
        <ConfirmDialog
          title={`Revoke the key ${revoking.name}?`}
          confirm="Revoke the key"
          danger
          openerGoes
          onConfirm={() => revoke(revoking)}
          onClose={() => setRevoking(undefined)}
        >
          <p>The next request with it is refused. This cannot be undone.</p>
          <p class="muted">
            Last used: <Time value={revoking.last_used_at} none="never" />. Account: {account.name}.
          </p>
        </ConfirmDialog>
      )}
    </Card>
  )
}

const KEY_STATES = { live: ['good', 'Live'], expired: ['warn', 'Expired'], revoked: ['plain', 'Revoked'] } as const

function KeyState({ keyView }: { readonly keyView: KeyView }): VNode {
  const [tone, label] = KEY_STATES[keyView.state]
  return (
    <span class="stack-tight cell-state">
      <Badge tone={tone}>{label}</Badge>
      {keyView.state === 'live' && keyView.expires_at !== null && (
        <span class="small muted">
          ends <Time value={keyView.expires_at} />
        </span>
      )}
    </span>
  )
}
