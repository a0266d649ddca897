/** All people who can sign in, and the open links. */
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
    // An operator who becomes a member sees other pages.
    if (isSelf(person)) refresh()
  }
  const [changeRole, roleQuestion] = useQuestion<PersonView>(person => roleChange(person, isSelf(person), changed))
  const [remove, removeQuestion] = useQuestion<PersonView>(person => removal(person, changed))
  const invite = (
    <Button variant="primary" icon="plus" onClick={() => setInviting(true)}>
      Invite a person
    </Button>
  )
  return (
    <Page
      title="People"
      lead="People who can sign in to the dashboard, and open invitation and reset links."
      actions={invite}
    >
      <List
        title="All people"
        filters={
          <search class="filters">
            <SearchField placeholder="A part of the address" />
          </search>
        }
        rows={people}
        byName
        failed="Failed to load the people"
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
        empty={<NoPeople isFiltered={search !== ''} />}
      />
      <Links links={links} />
      {isInviting && <InviteDialog onClose={() => setInviting(false)} onMade={links.reload} />}
      {resetting && <ResetDialog person={resetting} onClose={() => reset(undefined)} onMade={links.reload} />}
      {roleQuestion}
      {removeQuestion}
    </Page>
  )
}

/** Without a search the list has at least the operator, unless the last person on a page was just removed. */
function NoPeople({ isFiltered }: { readonly isFiltered: boolean }): VNode {
  return isFiltered ? (
    <Empty
      icon="search"
      title="No people found"
      action={<Button onClick={() => setQuery({ search: null })}>Show all people</Button>}
    >
      Try a shorter part of the address.
    </Empty>
  ) : (
    <Empty icon="people" title="No people on this page">
      Go back to the previous page.
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
        <p>Operators see every account, grant and take credit, freeze accounts, and invite and remove people.</p>
      ) : (
        <p>
          {isSelf
            ? 'You will see only your own account. Another operator can change that.'
            : 'They will see only their own account.'}
        </p>
      ),
  }
}

function removal(person: PersonView, onChanged: (removed: PersonView) => void) {
  return {
    title: `Remove ${person.email}?`,
    confirm: 'Remove person',
    danger: true,
    removesOpener: true,
    onConfirm: () => api.delete(`operator/people/${person.id}`).then(() => onChanged(person)),
    done: `${person.email} was removed`,
    children: (
      <>
        <p>They are signed out and cannot sign in again. To give them access later, invite them again.</p>
        <p>Their account, keys and credit are kept. To stop its requests, freeze the account.</p>
      </>
    ),
  }
}

function Links({ links }: { readonly links: Pages<LinkView> }): VNode {
  const [revoke, question] = useQuestion<LinkView>(link => ({
    title: `Revoke the ${link.kind === 'reset' ? 'reset link' : 'invitation'}?`,
    confirm: 'Revoke the link',
    danger: true,
    removesOpener: true,
    onConfirm: () => api.delete(`operator/links/${link.id}`).then(links.reload),
    done: 'The link is revoked',
    children: <p>{linkWords(link)} It stops working at once. You can create another one at any time.</p>,
  }))
  return (
    <List
      title="Open links"
      hint="Each works once. A link that is used, revoked or expired is not listed."
      rows={links}
      failed="Failed to load the links"
      caption="Links that still work, the newest first"
      columns={LINKS}
      rowActions={link => (
        <Button small aria-label={`Revoke: ${linkWords(link)}`} onClick={() => revoke(link)}>
          Revoke
        </Button>
      )}
      empty={
        <Empty icon="link" title="No open links">
          Invitations and password resets appear here until they are used.
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
    below: link => `for ${link.email ?? 'anyone with the link'}`,
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
          new account
          {link.plan !== null && `, plan ${link.plan}`}
          {/[1-9]/.test(link.credit) && (
            <>
              , with <Money value={link.credit} owned />
            </>
          )}
        </span>
      ),
  },
  { title: 'Created by', cell: link => link.created_by },
  { title: 'Expires', cell: link => <Time value={link.expires_at} /> },
]

function linkWords({ kind, email }: LinkView): string {
  return `${kind === 'reset' ? 'A password reset' : 'An invitation'} for ${email ?? 'anyone with the link'}.`
}

function AccountLink({ id, name }: { readonly id: string; readonly name: string | null }): VNode {
  return <a href={`/operator/accounts/${id}`}>{name ?? id}</a>
}
