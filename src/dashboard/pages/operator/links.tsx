/** Links that let people in, or let them choose a new password: they are made here, and shown once. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { AccountView, IssuedLinkView, PageView, PersonView } from '../../../api/views.ts'
import { api } from '../../lib/api.ts'
import { dateTime } from '../../lib/format.ts'
import { useAction, useResource } from '../../lib/use-resource.ts'
import { Choice, errorAt, FormDialog, OnceDialog, TextField } from '../../ui/index.ts'
import { FirstCreditField, PlanField } from './account-dialogs.tsx'
import { readAmount } from './credit.ts'

type Target = Pick<AccountView, 'id' | 'name'>

interface InviteProps {
  /** The account to join; without it the dialog asks. */
  readonly account?: Target | undefined
  readonly onClose: () => void
  /** Something has changed that a list shows. */
  readonly onMade: () => void
}

/** Asks whom to invite, then shows the link. */
export function InviteDialog({ account, onClose, onMade }: InviteProps): VNode {
  const [issued, setIssued] = useState<IssuedLinkView>()
  const made = (link: IssuedLinkView): void => {
    setIssued(link)
    onMade()
  }
  return issued ? (
    <LinkDialog issued={issued} onClose={onClose} />
  ) : (
    <InviteForm account={account} onClose={onClose} onMade={made} />
  )
}

interface FormProps {
  readonly account?: Target | undefined
  readonly onClose: () => void
  readonly onMade: (link: IssuedLinkView) => void
}

function InviteForm({ account, onClose, onMade }: FormProps): VNode {
  const plans = useResource<PageView<{ plan: string }>>('operator/plans')
  const [role, setRole] = useState('member')
  const [joins, setJoins] = useState(account ? 'there' : 'new')
  const [chosen, setChosen] = useState<Target | undefined>(account)
  const [email, setEmail] = useState('')
  const [plan, setPlan] = useState('')
  const [credit, setCredit] = useState('')
  const [wrong, setWrong] = useState<{ account?: string; credit?: string }>({})
  const action = useAction(async (body: object) => onMade(await api.post<IssuedLinkView>('operator/links', body)))
  const isNew = joins === 'new'
  const submit = (): void => {
    const read = !isNew || credit.trim() === '' ? null : readAmount(credit)
    const problems = {
      ...(!isNew && !chosen && { account: 'Choose one of the accounts.' }),
      ...(read !== null && 'problem' in read && { credit: read.problem }),
    }
    setWrong(problems)
    action.clear()
    if (Object.keys(problems).length > 0) return
    void action.run({
      kind: 'invitation',
      role,
      account_id: isNew ? null : chosen!.id,
      ...(email.trim() !== '' && { email: email.trim() }),
      ...(isNew && plan.trim() !== '' && { plan: plan.trim() }),
      ...(read !== null && 'amount' in read && { credit: read.amount }),
    })
  }
  return (
    <FormDialog
      title={account ? `Invite somebody to ${account.name}` : 'Invite somebody'}
      action={action}
      fields={['email', 'plan', 'credit', 'account_id']}
      submit="Create"
      onSubmit={submit}
      onClose={onClose}
    >
      <RoleField role={role} onRole={setRole} />
      {!account && <JoinsField joins={joins} onJoins={setJoins} />}
      {!account && !isNew && (
        <AccountField
          chosen={chosen}
          onChosen={setChosen}
          error={wrong.account ?? errorAt(action.error, 'account_id')}
        />
      )}
      {isNew && (
        <>
          <PlanField
            plans={plans.data?.items.map(each => each.plan) ?? []}
            optional
            value={plan}
            onValue={setPlan}
            error={errorAt(action.error, 'plan')}
          />
          <FirstCreditField
            value={credit}
            onValue={setCredit}
            error={wrong.credit ?? errorAt(action.error, 'credit')}
          />
        </>
      )}
      <TextField
        label="E-mail address"
        type="email"
        optional
        autocomplete="off"
        maxLength={254}
        value={email}
        onValue={setEmail}
        error={errorAt(action.error, 'email')}
        hint="Only this address can use the link. Without it, whoever has the link can. Nothing is sent: you pass the link on."
      />
    </FormDialog>
  )
}

interface RoleFieldProps {
  readonly role: string
  readonly onRole: (role: string) => void
}

function RoleField({ role, onRole }: RoleFieldProps): VNode {
  return (
    <Choice
      label="Role"
      value={role}
      onValue={onRole}
      options={[
        { value: 'member', label: 'Member' },
        { value: 'operator', label: 'Operator' },
      ]}
      hint={
        role === 'operator'
          ? 'An operator sees every account, grants credit and invites others.'
          : 'A member sees one account: its keys, usage and receipts.'
      }
    />
  )
}

interface JoinsFieldProps {
  readonly joins: string
  readonly onJoins: (joins: string) => void
}

function JoinsField({ joins, onJoins }: JoinsFieldProps): VNode {
  return (
    <Choice
      label="Account"
      value={joins}
      onValue={onJoins}
      options={[
        { value: 'new', label: 'New account' },
        { value: 'there', label: 'Existing account' },
      ]}
    />
  )
}

interface AccountFieldProps {
  readonly chosen: Target | undefined
  readonly onChosen: (account: Target | undefined) => void
  readonly error?: string | undefined
}

/** Found by typing: there may be thousands. */
function AccountField({ chosen, onChosen, error }: AccountFieldProps): VNode {
  const [typed, setTyped] = useState('')
  const found = useResource<PageView<AccountView>>('operator/accounts', { search: typed.trim(), limit: 8 })
  const items = found.data?.items ?? []
  const offered = chosen && !items.some(item => item.id === chosen.id) ? [chosen, ...items] : items
  return (
    <div class="stack">
      <TextField
        label="Find the account"
        type="search"
        autocomplete="off"
        placeholder="A part of the name, or an id"
        value={typed}
        onValue={setTyped}
      />
      <Choice
        label="Account to join"
        value={chosen?.id ?? ''}
        onValue={id => onChosen(offered.find(item => item.id === id))}
        options={offered.map(item => ({ value: item.id, label: item.name }))}
        error={error}
        hint={
          found.data && items.length === 0
            ? 'No account fits. Try a shorter part of the name.'
            : found.data?.next
              ? 'There are more: type to find them.'
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

/** The link, once. */
export function LinkDialog({ issued: { link, url }, onClose }: LinkProps): VNode {
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
          ? `Pass it on to ${link.email}, who chooses a new password with it. Until then the old one works.`
          : link.email === null
            ? 'Pass it on to the person you invite. Whoever opens it first can use it.'
            : `Pass it on to ${link.email}. No other address can use it.`}{' '}
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

/** Asks, then shows the link by which somebody chooses a new password. */
export function ResetDialog({ person, onClose, onMade }: ResetProps): VNode {
  const [issued, setIssued] = useState<IssuedLinkView>()
  const action = useAction(async () => {
    setIssued(await api.post<IssuedLinkView>(`operator/people/${person.id}/reset`))
    onMade?.()
  })
  if (issued) return <LinkDialog issued={issued} onClose={onClose} />
  return (
    <FormDialog
      title={`A new password for ${person.email}?`}
      action={action}
      submit="Create"
      onSubmit={action.run}
      onClose={onClose}
    >
      <div class="stack">
        <p>You get a link for them. With it they choose a new password; all their sessions end then.</p>
        <p class="muted">It works once, for 24 hours.</p>
      </div>
    </FormDialog>
  )
}
