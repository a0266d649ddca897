/** What operators do to an account: make one, give credit, change the plan, freeze. */
import type { VNode } from 'preact'
import { useId, useState } from 'preact/hooks'
import type { AccountView, CreditView } from '../../../api/views.ts'
import { api } from '../../lib/api.ts'
import { exactMoney } from '../../lib/format.ts'
import { useAction } from '../../lib/use-resource.ts'
import { announce, Badge, ConfirmDialog, errorAt, FormDialog, Icon, Money, Note, TextField } from '../../ui/index.ts'
import { readAmount, suggestReference } from './credit.ts'

/** Whether requests of the account are answered. */
export function StateBadge({ frozen }: { readonly frozen: boolean }): VNode {
  return (
    <Badge tone={frozen ? 'bad' : 'good'}>
      <Icon name={frozen ? 'lock' : 'check'} />
      {frozen ? 'Frozen' : 'Active'}
    </Badge>
  )
}

interface PlanFieldProps {
  readonly value: string
  readonly onValue: (plan: string) => void
  readonly plans: readonly string[]
  readonly error?: string | undefined
  readonly optional?: boolean | undefined
}

/** Any word is a plan: those that accounts have are offered. */
export function PlanField({ value, onValue, plans, error, optional }: PlanFieldProps): VNode {
  const list = useId()
  return (
    <>
      <TextField
        label="Plan"
        list={list}
        maxLength={100}
        autocomplete="off"
        optional={optional}
        value={value}
        onValue={onValue}
        error={error}
        hint="A word that policies ask for, as in account.plan == &quot;free&quot;. Policies decide what it means."
      />
      <datalist id={list}>
        {plans.map(plan => (
          <option key={plan} value={plan} />
        ))}
      </datalist>
    </>
  )
}

/** The credit that a new account begins with. */
export function FirstCreditField(props: Pick<PlanFieldProps, 'value' | 'onValue' | 'error'>): VNode {
  return (
    <TextField
      label="First credit"
      optional
      before="$"
      inputMode="decimal"
      autocomplete="off"
      hint="More can be granted at any time."
      {...props}
    />
  )
}

interface NewAccountProps {
  readonly plans: readonly string[]
  readonly onClose: () => void
  readonly onMade: (account: AccountView) => void
}

/** An account without people: for a machine's keys, or to invite people to. */
export function NewAccountDialog({ plans, onClose, onMade }: NewAccountProps): VNode {
  const [name, setName] = useState('')
  const [plan, setPlan] = useState('')
  const [credit, setCredit] = useState('')
  const [wrong, setWrong] = useState<{ name?: string; credit?: string }>({})
  const action = useAction(async (body: object) => onMade(await api.post<AccountView>('operator/accounts', body)))
  const submit = (): void => {
    const read = credit.trim() === '' ? null : readAmount(credit)
    const problems = {
      ...(name.trim() === '' && { name: 'Give the account a name.' }),
      ...(read !== null && 'problem' in read && { credit: read.problem }),
    }
    setWrong(problems)
    action.clear()
    if (Object.keys(problems).length > 0) return
    void action.run({
      name: name.trim(),
      ...(plan.trim() !== '' && { plan: plan.trim() }),
      ...(read !== null && 'amount' in read && { credit: read.amount }),
    })
  }
  return (
    <FormDialog
      title="New account"
      action={action}
      fields={['name', 'plan', 'credit']}
      submit="Create"
      onSubmit={submit}
      onClose={onClose}
    >
      <TextField
        label="Name"
        maxLength={100}
        autocomplete="off"
        required
        value={name}
        onValue={setName}
        error={wrong.name ?? errorAt(action.error, 'name')}
        hint="Whose it is: a person, a team, a customer."
      />
      <PlanField plans={plans} optional value={plan} onValue={setPlan} error={errorAt(action.error, 'plan')} />
      <FirstCreditField value={credit} onValue={setCredit} error={wrong.credit ?? errorAt(action.error, 'credit')} />
    </FormDialog>
  )
}

interface ChangeProps {
  readonly account: AccountView
  readonly onClose: () => void
  readonly onChanged: (account: AccountView) => void
}

/** Gives credit, once for each reference. */
export function CreditDialog({ account, onClose, onChanged }: ChangeProps): VNode {
  const [amount, setAmount] = useState('')
  const [reference, setReference] = useState(freshReference)
  const [note, setNote] = useState('')
  const [wrong, setWrong] = useState<{ amount?: string; reference?: string }>({})
  const [before, setBefore] = useState<CreditView>()
  const action = useAction(async (body: { amount: string; reference: string; note?: string }) => {
    const view = await api.post<CreditView>(`operator/accounts/${account.id}/credit`, body)
    onChanged(view.account)
    if (!view.granted) return setBefore(view)
    announce(`${exactMoney(body.amount)} granted to ${account.name}`)
    onClose()
  })
  const submit = (): void => {
    const read = readAmount(amount)
    const problems = {
      ...('problem' in read && { amount: read.problem }),
      ...(reference.trim() === '' && { reference: 'Without a reference the same payment could be credited twice.' }),
    }
    setWrong(problems)
    setBefore(undefined)
    action.clear()
    if (!('amount' in read) || Object.keys(problems).length > 0) return
    const words = note.trim()
    void action.run({ amount: read.amount, reference: reference.trim(), ...(words !== '' && { note: words }) })
  }
  return (
    <FormDialog
      title={`Grant credit to ${account.name}`}
      action={action}
      fields={['amount', 'reference', 'note']}
      submit="Grant the credit"
      note={before && <GrantedBefore view={before} />}
      onSubmit={submit}
      onClose={onClose}
    >
      <TextField
        label="Amount"
        before="$"
        inputMode="decimal"
        autocomplete="off"
        required
        value={amount}
        onValue={setAmount}
        error={wrong.amount ?? errorAt(action.error, 'amount')}
        hint={
          <>
            Available now: <Money value={account.available} owned />
          </>
        }
      />
      <TextField
        label="Reference"
        maxLength={200}
        autocomplete="off"
        spellcheck={false}
        required
        value={reference}
        onValue={setReference}
        error={wrong.reference ?? errorAt(action.error, 'reference')}
        hint="The same reference is never credited twice, so trying again is safe. For a payment, take the payment's own id; this one is made up for you."
      />
      <TextField
        label="Note"
        optional
        maxLength={200}
        autocomplete="off"
        value={note}
        onValue={setNote}
        error={errorAt(action.error, 'note')}
        hint="Shown in the ledger. The people of the account can read it."
      />
    </FormDialog>
  )
}

function GrantedBefore({ view }: { readonly view: CreditView }): VNode {
  return (
    <Note tone="warn" title="Nothing was granted">
      The reference {view.reference} was credited before, so nothing was added now.{' '}
      <Money value={view.account.available} owned /> is available. For another payment, take another reference.
    </Note>
  )
}

/** Another plan takes effect with the next request. */
export function PlanDialog({ account, plans, onClose, onChanged }: ChangeProps & { plans: readonly string[] }): VNode {
  const [plan, setPlan] = useState(account.plan)
  const [wrong, setWrong] = useState<string>()
  const action = useAction(async (body: { plan: string }) => {
    onChanged(await api.patch<AccountView>(`operator/accounts/${account.id}`, body))
    announce(`${account.name} is on the plan ${body.plan} now`)
    onClose()
  })
  const submit = (): void => {
    const word = plan.trim()
    setWrong(word === '' ? 'Name a plan.' : undefined)
    action.clear()
    if (word === account.plan) onClose()
    else if (word !== '') void action.run({ plan: word })
  }
  return (
    <FormDialog
      title={`Plan of ${account.name}`}
      action={action}
      fields={['plan']}
      submit="Change the plan"
      onSubmit={submit}
      onClose={onClose}
    >
      <PlanField plans={plans} value={plan} onValue={setPlan} error={wrong ?? errorAt(action.error, 'plan')} />
      <p class="muted">It takes effect with the next request.</p>
    </FormDialog>
  )
}

/** Stops an account, or lets it go on. */
export function FreezeDialog({ account, onClose, onChanged }: ChangeProps): VNode {
  const frozen = !account.frozen
  const change = async (): Promise<void> => {
    onChanged(await api.patch<AccountView>(`operator/accounts/${account.id}`, { frozen }))
    announce(frozen ? `${account.name} is frozen` : `${account.name} is active again`)
  }
  return (
    <ConfirmDialog
      title={frozen ? `Freeze ${account.name}?` : `Unfreeze ${account.name}?`}
      confirm={frozen ? 'Freeze the account' : 'Unfreeze the account'}
      danger={frozen}
      onConfirm={change}
      onClose={onClose}
    >
      {frozen ? (
        <>
          <p>
            From the next request on, every key of this account is refused. Answers in progress are finished and
            charged.
          </p>
          <p>Its people can still sign in, and its credit stays. You can unfreeze it at any time.</p>
        </>
      ) : (
        <p>Its keys work again from the next request on.</p>
      )}
    </ConfirmDialog>
  )
}

function freshReference(): string {
  return suggestReference(new Date(), crypto.getRandomValues(new Uint8Array(8)))
}
