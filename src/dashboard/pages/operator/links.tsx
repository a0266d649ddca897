/** Invitation and reset links: created here, and shown once. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { AccountView, IssuedLinkView, PageView, PersonView, PlanView } from '../../../api/views.ts'
import { api } from '../../lib/api.ts'
import { dateTime } from '../../lib/format.ts'
import { filled, useForm } from '../../lib/use-form.ts'
import { useResource } from '../../lib/use-resource.ts'
import { Choice, FormDialog, OnceDialog, TextField } from '../../ui/index.ts'
import { FirstCreditField, PlanField } from './account-dialogs.tsx'
import { creditOf, creditProblem } from './credit.ts'

type Target = Pick<AccountView, 'id' | 'name'>

interface InviteProps {
  /** The account to join; without it the dialog asks. */
  readonly account?: Target | undefined
  readonly onClose: () => void
  /** A listed object has changed. */
  readonly onMade: () => void
}

/** Asks for the person to invite, then shows the link. */
export function InviteDialog({ account, onClose, onMade }: InviteProps): VNode {
  const plans = useResource<PageView<PlanView>>('operator/plans')
  const [issued, setIssued] = useState<IssuedLinkView>()
  const form = useForm({
    initial: { role: 'member', joins: account ? 'there' : 'new', account_id: account, email: '', plan: '', credit: '' },
    check: ({ joins, account_id, credit }) => ({
      account_id: joins === 'there' && !account_id ? 'Choose an account.' : '',
      credit: joins === 'new' ? creditProblem(credit) : '',
    }),
    send: async ({ role, joins, account_id, email, plan, credit }) => {
      const where =
        joins === 'new'
          ? { account_id: null, ...filled({ email, plan, credit: creditOf(credit) }) }
          : { account_id: account_id!.id, ...filled({ email }) }
      setIssued(await api.post<IssuedLinkView>('operator/links', { kind: 'invitation', role, ...where }))
      onMade()
    },
  })
  if (issued) return <LinkDialog issued={issued} onClose={onClose} />
  const { role, joins } = form.values
  return (
    <FormDialog
      title={account ? `Invite a person to ${account.name}` : 'Invite a person'}
      form={form}
      submit="Create"
      onClose={onClose}
    >
      <Choice
        label="Role"
        options={ROLES}
        hint={
          role === 'operator'
            ? 'An operator sees every account, grants credit and invites others.'
            : 'A member sees one account: its keys, usage and receipts.'
        }
        {...form.field('role')}
      />
      {!account && <Choice label="Account" options={WHERE} {...form.field('joins')} />}
      {!account && joins === 'there' && <AccountField {...form.field('account_id')} />}
      {joins === 'new' && (
        <>
          <PlanField plans={plans.data?.items ?? []} optional {...form.field('plan')} />
          <FirstCreditField {...form.field('credit')} />
        </>
      )}
      <TextField
        label="E-mail address"
        type="email"
        optional
        maxLength={254}
        hint="Only this address can use the link. If empty, anyone with the link can use it. Tollgate sends no e-mail: share the link yourself."
        {...form.field('email')}
      />
    </FormDialog>
  )
}

const ROLES = [
  { value: 'member', label: 'Member' },
  { value: 'operator', label: 'Operator' },
]
const WHERE = [
  { value: 'new', label: 'New account' },
  { value: 'there', label: 'Existing account' },
]

interface AccountFieldProps {
  readonly value: Target | undefined
  readonly onValue: (account: Target | undefined) => void
  readonly error: string | undefined
}

/** A choice of account with a search: there may be thousands. */
function AccountField({ value: chosen, onValue, error }: AccountFieldProps): VNode {
  const [typed, setTyped] = useState('')
  const found = useResource<PageView<AccountView>>('operator/accounts', { search: typed.trim(), limit: 8 })
  const items = found.data?.items ?? []
  const offered = chosen && !items.some(item => item.id === chosen.id) ? [chosen, ...items] : items
  return (
    <div class="stack">
      <TextField
        label="Find the account"
        type="search"
        placeholder="A part of the name, or an id"
        value={typed}
        onValue={setTyped}
      />
      <Choice
        label="Account to join"
        value={chosen?.id ?? ''}
        onValue={id => onValue(offered.find(item => item.id === id))}
        options={offered.map(item => ({ value: item.id, label: item.name }))}
        error={error}
        hint={
          found.data && items.length === 0
            ? 'No matching accounts. Try a shorter part of the name.'
            : found.data?.next
              ? 'More accounts match. Type more of the name.'
              : undefined
        }
      />
    </div>
  )
}

interface LinkProps {
  readonly issued: IssuedLinkView
  readonly onClose: () => void
}

/** Shows the link once. */
function LinkDialog({ issued: { link, url }, onClose }: LinkProps): VNode {
  const isReset = link.kind === 'reset'
  return (
    <OnceDialog
      title={isReset ? 'The reset link' : 'The invitation'}
      label={isReset ? 'Reset link' : 'Invitation link'}
      secret={url}
      onClose={onClose}
    >
      <p>
        {isReset
          ? `Send it to ${link.email} to set a new password. The current password works until then.`
          : link.email === null
            ? 'Send it to the person you invite. The first person who uses it joins.'
            : `Send it to ${link.email}. No other address can use it.`}{' '}
        It works once, until {dateTime(link.expires_at)}.
      </p>
    </OnceDialog>
  )
}

interface ResetProps {
  readonly person: PersonView
  readonly onClose: () => void
  readonly onMade?: (() => void) | undefined
}

/** Asks, then shows the link that sets a person's password. */
export function ResetDialog({ person, onClose, onMade }: ResetProps): VNode {
  const [issued, setIssued] = useState<IssuedLinkView>()
  const form = useForm({
    initial: {},
    send: async () => {
      setIssued(await api.post<IssuedLinkView>(`operator/people/${person.id}/reset`))
      onMade?.()
    },
  })
  if (issued) return <LinkDialog issued={issued} onClose={onClose} />
  return (
    <FormDialog title={`A new password for ${person.email}?`} form={form} submit="Create" onClose={onClose}>
      <div class="stack">
        <p>Creates a link to set a new password. Using it ends all sessions of this person.</p>
        <p class="muted">The link works once and expires after 24 hours.</p>
      </div>
    </FormDialog>
  )
}
