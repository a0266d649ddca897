/** Everybody who can sign in, and the links that are still open. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { LinkView, PersonView } from '../../../api/views.ts'
import { api } from '../../lib/api.ts'
import { setQuery, usePlace } from '../../lib/router.tsx'
import { useSession } from '../../lib/session.tsx'
import { type Pages, usePages } from '../../lib/use-resource.ts'
import {
  Badge,
  Button,
  type Column,
  Empty,
  List,
  Menu,
  Money,
  Page,
  SearchField,
  Time,
  useQuestion,
} from '../../ui/index.ts'
import { RoleBadge } from './account-parts.tsx'
import { InviteDialog, ResetDialog } from './links.tsx'
import '../../styles/operator.css'

/** `/operator/people` */
export default function People(): VNode {
  const search = usePlace().query.get('search') ?? ''
  const people = usePages<PersonView>('operator/people', { search })
  const links = usePages<LinkView>('operator/links')
  const { session, refresh } = useSession()
  const [isInviting, setInviting] = useState(false)
  const [resetting, reset] = useState<PersonView>()
  const isSelf = ({ id }: PersonView): boolean => id === session.person.id
  const changed = (person: PersonView): void => {
    people.reload()
    links.reload()
    // Whoever is no operator any more sees other pages.
    if (isSelf(person)) refresh()
  }
  const [changeRole, roleQuestion] = useQuestion<PersonView>(person => roleChange(person, isSelf(person), changed))
  const [remove, removeQuestion] = useQuestion<PersonView>(person => removal(person, changed))
  const invite = (
    <Button variant="primary" icon="plus" onClick={() => setInviting(true)}>
      Invite somebody
    </Button>
  )
  return (
    <Page title="People" lead="Who can sign in to the dashboard, and the links that let others in." actions={invite}>
      <List
        title="Everybody"
        filters={
          <search class="filters">
            <SearchField placeholder="A part of the address" />
          </search>
        }
        rows={people}
        byName
        failed="The people could not be read"
        caption="People who can sign in, by address"
        columns={personColumns(session.person.id)}
        rowActions={person => (
          <Menu
            label={`Actions for ${person.email}`}
            items={[
              {
                label: person.role === 'operator' ? 'Make a member' : 'Make an operator',
                icon: 'token',
                onChoose: () => changeRole(person),
              },
              { label: 'Password reset link', icon: 'link', onChoose: () => reset(person) },
              !isSelf(person) && { label: 'Remove', icon: 'trash', danger: true, onChoose: () => remove(person) },
            ]}
          />
        )}
        empty={<Nobody isFiltered={search !== ''} />}
      />
      <Links links={links} />
      {isInviting && <InviteDialog onClose={() => setInviting(false)} onMade={links.reload} />}
      {resetting && <ResetDialog person={resetting} onClose={() => reset(undefined)} onMade={links.reload} />}
      {roleQuestion}
      {removeQuestion}
    </Page>
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

function personColumns(self: string): readonly Column<PersonView>[] {
  return [
    {
      title: 'E-mail',
      cell: person => (
        <span>
          {person.email} {person.id === self && <Badge>You</Badge>}
        </span>
      ),
    },
    { title: 'Role', cell: person => <RoleBadge role={person.role} /> },
    { title: 'Account', cell: person => <AccountLink id={person.account_id} name={person.account} /> },
    { title: 'Joined', cell: person => <Time value={person.created_at} /> },
  ]
}

function roleChange({ id, email, role: now }: PersonView, isSelf: boolean, onChanged: (to: PersonView) => void) {
  const role = now === 'operator' ? 'member' : 'operator'
  const named = role === 'operator' ? 'an operator' : 'a member'
  return {
    title: `Make ${email} ${named}?`,
    confirm: `Make ${named}`,
    danger: role === 'member',
    onConfirm: () => api.patch<PersonView>(`operator/people/${id}`, { role }).then(onChanged),
    done: `${email} is ${named} now`,
    children:
      role === 'operator' ? (
        <p>Operators see every account, grant credit, freeze accounts, and invite and remove people.</p>
      ) : (
        <p>
          {isSelf
            ? 'You see only your own account then. Another operator can change that.'
            : 'They see only their own account then.'}
        </p>
      ),
  }
}

function removal(person: PersonView, onChanged: (removed: PersonView) => void) {
  return {
    title: `Remove ${person.email}?`,
    confirm: 'Remove this person',
    danger: true,
    openerGoes: true,
    onConfirm: () => api.delete(`operator/people/${person.id}`).then(() => onChanged(person)),
    done: `${person.email} was removed`,
    children: (
      <>
        <p>
          They are signed out at once and cannot sign in again. This cannot be undone, but they can be invited again.
        </p>
        <p>Their account, its keys and its credit stay. To stop its requests too, freeze the account.</p>
      </>
    ),
  }
}

function Links({ links }: { readonly links: Pages<LinkView> }): VNode {
  const [revoke, question] = useQuestion<LinkView>(link => ({
    title: `Revoke the ${link.kind === 'reset' ? 'reset link' : 'invitation'}?`,
    confirm: 'Revoke the link',
    danger: true,
    openerGoes: true,
    onConfirm: () => api.delete(`operator/links/${link.id}`).then(links.reload),
    done: 'The link is revoked',
    children: <p>{linkWords(link)} It stops working at once. Another one can be made at any time.</p>,
  }))
  return (
    <List
      title="Open links"
      hint="Each works once. A link that is used, revoked or expired is not listed."
      rows={links}
      failed="The links could not be read"
      caption="Links that still work, the newest first"
      columns={LINKS}
      rowActions={link => (
        <Button small aria-label={`Revoke: ${linkWords(link)}`} onClick={() => revoke(link)}>
          Revoke
        </Button>
      )}
      empty={
        <Empty icon="link" title="No open links">
          Invitations and password resets stand here until they are used.
        </Empty>
      }
    >
      {question}
    </List>
  )
}

const LINKS: readonly Column<LinkView>[] = [
  {
    title: 'Link',
    cell: link => (link.kind === 'reset' ? 'Password reset' : 'Invitation'),
    below: link => `for ${link.email ?? 'whoever has it'}`,
  },
  {
    title: 'Role',
    cell: link => (link.kind === 'reset' ? <span class="faint">{'\u2013'}</span> : <RoleBadge role={link.role} />),
  },
  {
    title: 'Account',
    cell: link =>
      link.kind === 'reset' ? (
        <span class="faint">{'\u2013'}</span>
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
]

function linkWords({ kind, email }: LinkView): string {
  return `${kind === 'reset' ? 'A password reset' : 'An invitation'} for ${email ?? 'whoever has it'}.`
}

function AccountLink({ id, name }: { readonly id: string; readonly name: string | null }): VNode {
  return <a href={`/operator/accounts/${id}`}>{name ?? id}</a>
}
