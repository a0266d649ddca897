/** Everybody who can sign in, and the links that are still open. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { LinkView, PageView, PersonView } from '../../../api/views.ts'
import { api } from '../../lib/api.ts'
import { setQuery, usePlace } from '../../lib/router.tsx'
import { useSession } from '../../lib/session.tsx'
import { usePages, useResource } from '../../lib/use-resource.ts'
import {
  announce,
  Badge,
  Button,
  Card,
  type Column,
  ConfirmDialog,
  Empty,
  Loaded,
  Menu,
  Money,
  Page,
  Pager,
  SearchField,
  Table,
  Time,
} from '../../ui/index.ts'
import { RoleBadge } from './account-parts.tsx'
import { InviteDialog, ResetDialog } from './links.tsx'
import '../../styles/operator.css'

/** `/operator/people` */
export default function People(): VNode {
  const search = usePlace().query.get('search') ?? ''
  const people = usePages<PersonView>('operator/people', { search })
  const links = useResource<PageView<LinkView>>('operator/links')
  const [isInviting, setInviting] = useState(false)
  const invite = (
    <Button variant="primary" icon="plus" onClick={() => setInviting(true)}>
      Invite somebody
    </Button>
  )
  const changed = (): void => {
    people.reload()
    links.reload()
  }
  return (
    <Page title="People" lead="Who can sign in to the dashboard, and the links that let others in." actions={invite}>
      <Card title="Everybody" flush>
        <search class="operator-filters">
          <SearchField placeholder="A part of the address" />
        </search>
        <Loaded resource={{ ...people, data: people.items }} title="The people could not be read" lines={6}>
          {items => <Everybody people={items} isBusy={people.loading} isFiltered={search !== ''} onChanged={changed} />}
        </Loaded>
        <Pager pages={people} previous="Previous" next="Next" />
      </Card>
      <Card title="Open links" flush hint="Each works once. A link that is used, revoked or expired is not listed.">
        <Loaded resource={links} title="The links could not be read">
          {({ items }) => <Links links={items} onChanged={links.reload} />}
        </Loaded>
      </Card>
      {isInviting && <InviteDialog onClose={() => setInviting(false)} onMade={links.reload} />}
    </Page>
  )
}

interface EverybodyProps {
  readonly people: readonly PersonView[]
  readonly isBusy: boolean
  readonly isFiltered: boolean
  readonly onChanged: () => void
}

type Asked = { readonly what: 'role' | 'remove' | 'reset'; readonly person: PersonView } | null

function Everybody({ people, isBusy, isFiltered, onChanged }: EverybodyProps): VNode {
  const { session, refresh } = useSession()
  const [asked, ask] = useState<Asked>(null)
  const close = (): void => ask(null)
  const changed = (person: PersonView): void => {
    onChanged()
    // Whoever is no operator any more sees other pages.
    if (person.id === session.person.id) refresh()
  }
  return (
    <>
      <Table
        caption="People who can sign in, by address"
        columns={personColumns(session.person.id, ask)}
        rows={people}
        rowKey={person => person.id}
        busy={isBusy}
        empty={<Nobody isFiltered={isFiltered} />}
      />
      {asked?.what === 'role' && (
        <RoleDialog
          person={asked.person}
          isSelf={asked.person.id === session.person.id}
          onClose={close}
          onChanged={changed}
        />
      )}
      {asked?.what === 'remove' && <RemoveDialog person={asked.person} onClose={close} onChanged={changed} />}
      {asked?.what === 'reset' && <ResetDialog person={asked.person} onClose={close} onMade={onChanged} />}
    </>
  )
}

/** Without a search there is at least the one who looks, unless the last one on a page has just been removed. */
function Nobody({ isFiltered }: { readonly isFiltered: boolean }): VNode {
  return isFiltered ? (
    <Empty
      icon="search"
      title="Nobody fits"
      action={<Button onClick={() => setQuery({ search: null })}>Show everybody</Button>}
    >
      Try a shorter part of the address.
    </Empty>
  ) : (
    <Empty icon="people" title="Nobody else is on this page">
      The pages before it have the others.
    </Empty>
  )
}

function personColumns(self: string, ask: (asked: Asked) => void): readonly Column<PersonView>[] {
  return [
    {
      title: 'E-mail',
      heading: true,
      cell: person => (
        <span>
          {person.email} {person.id === self && <Badge>You</Badge>}
        </span>
      ),
    },
    { title: 'Role', cell: person => <RoleBadge role={person.role} /> },
    { title: 'Account', cell: person => <AccountLink id={person.account_id} name={person.account} /> },
    { title: 'Joined', cell: person => <Time value={person.created_at} /> },
    {
      title: 'Actions',
      actions: true,
      cell: person => (
        <Menu
          label={`Actions for ${person.email}`}
          items={[
            {
              label: person.role === 'operator' ? 'Make a member' : 'Make an operator',
              icon: 'token',
              onChoose: () => ask({ what: 'role', person }),
            },
            { label: 'Password reset link', icon: 'link', onChoose: () => ask({ what: 'reset', person }) },
            person.id !== self && {
              label: 'Remove',
              icon: 'trash',
              danger: true,
              onChoose: () => ask({ what: 'remove', person }),
            },
          ]}
        />
      ),
    },
  ]
}

interface PersonDialogProps {
  readonly person: PersonView
  readonly onClose: () => void
  readonly onChanged: (person: PersonView) => void
}

function RoleDialog({ person, isSelf, onClose, onChanged }: PersonDialogProps & { readonly isSelf: boolean }): VNode {
  const role = person.role === 'operator' ? 'member' : 'operator'
  const change = async (): Promise<void> => {
    onChanged(await api.patch<PersonView>(`operator/people/${person.id}`, { role }))
    announce(`${person.email} is ${role === 'operator' ? 'an operator' : 'a member'} now`)
  }
  return (
    <ConfirmDialog
      title={role === 'operator' ? `Make ${person.email} an operator?` : `Make ${person.email} a member?`}
      confirm={role === 'operator' ? 'Make an operator' : 'Make a member'}
      danger={role === 'member'}
      onConfirm={change}
      onClose={onClose}
    >
      {role === 'operator' ? (
        <p>Operators see every account, grant credit, freeze accounts, and invite and remove people.</p>
      ) : (
        <p>
          {isSelf
            ? 'You see only your own account then. Another operator can change that.'
            : 'They see only their own account then.'}
        </p>
      )}
    </ConfirmDialog>
  )
}

function RemoveDialog({ person, onClose, onChanged }: PersonDialogProps): VNode {
  const remove = async (): Promise<void> => {
    await api.delete(`operator/people/${person.id}`)
    announce(`${person.email} was removed`)
    onChanged(person)
  }
  return (
    <ConfirmDialog
      title={`Remove ${person.email}?`}
      confirm="Remove this person"
      danger
      openerGoes
      onConfirm={remove}
      onClose={onClose}
    >
      <p>They are signed out at once and cannot sign in again. This cannot be undone, but they can be invited again.</p>
      <p>Their account, its keys and its credit stay. To stop its requests too, freeze the account.</p>
    </ConfirmDialog>
  )
}

interface LinksProps {
  readonly links: readonly LinkView[]
  readonly onChanged: () => void
}

function Links({ links, onChanged }: LinksProps): VNode {
  const [revoking, setRevoking] = useState<LinkView>()
  const revoke = async (link: LinkView): Promise<void> => {
    await api.delete(`operator/links/${link.id}`)
    announce('The link is revoked')
    onChanged()
  }
  return (
    <>
      <Table
        caption="Links that still work, the newest first"
        columns={linkColumns(setRevoking)}
        rows={links}
        rowKey={link => link.id}
        empty={
          <Empty icon="link" title="No open links">
            Invitations and password resets stand here until they are used.
          </Empty>
        }
      />
      {revoking && (
        <ConfirmDialog
          title={`Revoke the ${revoking.kind === 'reset' ? 'reset link' : 'invitation'}?`}
          confirm="Revoke the link"
          danger
          openerGoes
          onConfirm={() => revoke(revoking)}
          onClose={() => setRevoking(undefined)}
        >
          <p>{linkWords(revoking)} It stops working at once. Another one can be made at any time.</p>
        </ConfirmDialog>
      )}
    </>
  )
}

function linkColumns(revoke: (link: LinkView) => void): readonly Column<LinkView>[] {
  return [
    {
      title: 'Link',
      heading: true,
      cell: link => (
        <span class="stack-tight">
          <span>{link.kind === 'reset' ? 'Password reset' : 'Invitation'}</span>
          <span class="cell-sub">for {link.email ?? 'whoever has it'}</span>
        </span>
      ),
    },
    { title: 'Role', cell: link => (link.kind === 'reset' ? <Dash /> : <RoleBadge role={link.role} />) },
    {
      title: 'Account',
      cell: link =>
        link.kind === 'reset' ? (
          <Dash />
        ) : link.account_id !== null ? (
          <AccountLink id={link.account_id} name={link.account} />
        ) : (
          <span>
            a new one
            {link.plan !== null && `, plan ${link.plan}`}
            {/[1-9]/.test(link.credit) && (
              <>
                , with <Money value={link.credit} owned />
              </>
            )}
          </span>
        ),
    },
    { title: 'Made by', cell: link => link.created_by },
    { title: 'Ends', cell: link => <Time value={link.expires_at} /> },
    {
      title: 'Actions',
      actions: true,
      cell: link => (
        <Button small aria-label={`Revoke: ${linkWords(link)}`} onClick={() => revoke(link)}>
          Revoke
        </Button>
      ),
    },
  ]
}

function linkWords({ kind, email }: LinkView): string {
  return `${kind === 'reset' ? 'A password reset' : 'An invitation'} for ${email ?? 'whoever has it'}.`
}

function AccountLink({ id, name }: { readonly id: string; readonly name: string | null }): VNode {
  return <a href={`/operator/accounts/${id}`}>{name ?? id}</a>
}

function Dash(): VNode {
  return <span class="faint">{'\u2013'}</span>
}
