/** The dialogs of an account for operators: create, credit, plan, freeze. */
import type { VNode } from 'preact'
import { useId, useState } from 'preact/hooks'
import type { AccountView, CreditView, PlanView } from '../../../api/views.ts'
import { api } from '../../lib/api.ts'
import { exactMoney } from '../../lib/format.ts'
import { filled, useForm } from '../../lib/use-form.ts'
import {
  announce,
  Badge,
  ConfirmDialog,
  FormDialog,
  Icon,
  Money,
  Note,
  SelectField,
  TextField,
} from '../../ui/index.ts'
import { availableAfter, creditOf, creditProblem, isTaken, readChange, suggestReference } from './credit.ts'

/** Whether the gateway serves the account. */
export function StateBadge({ frozen }: { readonly frozen: boolean }): VNode {
  return (
    <Badge tone={frozen ? 'bad' : 'good'}>
      <Icon name={frozen ? 'lock' : 'check'} />
      {frozen ? 'Frozen' : 'Active'}
    </Badge>
  )
}

interface FieldProps {
  readonly value: string
  readonly onValue: (value: string) => void
  readonly error: string | undefined
}

interface PlanFieldProps extends FieldProps {
  readonly plans: readonly PlanView[]
  readonly optional?: boolean | undefined
}

/** A field of declared plans. If gateway.yaml declares none, it is a text field that suggests the accounts' plans. */
export function PlanField({ plans, optional, ...field }: PlanFieldProps): VNode {
  const list = useId()
  const declared = plans.filter(each => each.declared === true)
  if (declared.length > 0) {
    const { value } = field
    const kept =
      value === '' || declared.some(({ plan }) => plan === value) ? [] : [{ value, label: `${value} (not declared)` }]
    const none = optional ? [{ value: '', label: 'The standard plan' }] : []
    const options = [...none, ...kept, ...declared.map(({ plan }) => ({ value: plan, label: plan }))]
    return <SelectField label="Plan" hint="The plans of gateway.yaml." options={options} {...field} />
  }
  return (
    <>
      <TextField
        label="Plan"
        list={list}
        maxLength={100}
        hint="A name that policies test, for example account.plan == &quot;free&quot;."
        optional={optional}
        {...field}
      />
      <datalist id={list}>
        {plans.map(({ plan }) => (
          <option key={plan} value={plan} />
        ))}
      </datalist>
    </>
  )
}

/** The initial credit of a new account. */
export function FirstCreditField(field: FieldProps): VNode {
  return <TextField label="First credit" optional dollars hint="You can grant more at any time." {...field} />
}

interface NewAccountProps {
  readonly plans: readonly PlanView[]
  readonly onClose: () => void
  readonly onMade: (account: AccountView) => void
}

/** Creates an account without people: for a machine's keys, or to invite people to. */
export function NewAccountDialog({ plans, onClose, onMade }: NewAccountProps): VNode {
  const form = useForm({
    initial: { name: '', plan: '', credit: '' },
    check: ({ name, credit }) => ({
      name: name.trim() === '' ? 'Give the account a name.' : '',
      credit: creditProblem(credit),
    }),
    send: async ({ credit, ...words }) =>
      onMade(await api.post<AccountView>('operator/accounts', filled({ ...words, credit: creditOf(credit) }))),
  })
  return (
    <FormDialog title="New account" form={form} submit="Create" onClose={onClose}>
      <TextField
        label="Name"
        maxLength={100}
        required
        hint="The owner: a person, a team or a customer."
        {...form.field('name')}
      />
      <PlanField plans={plans} optional {...form.field('plan')} />
      <FirstCreditField {...form.field('credit')} />
    </FormDialog>
  )
}

interface ChangeProps {
  readonly account: AccountView
  readonly onClose: () => void
  readonly onChanged: (account: AccountView) => void
}

/** Grants or takes credit, once for each reference. */
export function CreditDialog({ account, onClose, onChanged }: ChangeProps): VNode {
  const [before, setBefore] = useState<CreditView>()
  const form = useForm({
    initial: () => ({ amount: '', reference: freshReference(), note: '' }),
    check: ({ amount, reference, note }) => ({
      amount: readChange(amount).problem,
      reference: reference.trim() === '' ? 'Without a reference the same payment could be credited twice.' : '',
      note: isTaken(amount) && note.trim() === '' ? 'Enter the reason for taking credit.' : '',
    }),
    send: async values => {
      const amount = readChange(values.amount).amount ?? ''
      const body = filled({ ...values, amount })
      setBefore(undefined)
      const view = await api.post<CreditView>(`operator/accounts/${account.id}/credit`, body)
      onChanged(view.account)
      if (!view.granted) return setBefore(view)
      announce(
        isTaken(amount)
          ? `${exactMoney(amount.slice(1))} taken from ${account.name}`
          : `${exactMoney(amount)} granted to ${account.name}`,
      )
      onClose()
    },
  })
  const takes = isTaken(form.values.amount)
  return (
    <FormDialog
      title={`Credit of ${account.name}`}
      form={form}
      submit={takes ? 'Take the credit' : 'Grant the credit'}
      danger={takes}
      note={before && <GrantedBefore view={before} />}
      onClose={onClose}
    >
      <TextField
        label="Amount"
        dollars
        required
        hint={<Preview account={account} typed={form.values.amount} />}
        {...form.field('amount')}
      />
      <TextField
        label="Reference"
        maxLength={200}
        spellcheck={false}
        required
        hint="The same reference is never credited twice, so trying again is safe. For a payment, use the payment's id; otherwise keep the generated one."
        {...form.field('reference')}
      />
      <TextField
        label="Note"
        optional={!takes}
        required={takes}
        maxLength={200}
        hint="Shown in the ledger. Members of the account can read it."
        {...form.field('note')}
      />
    </FormDialog>
  )
}

/** The balance after the change, as an estimate: the figures of the page may be old. */
function Preview({ account, typed }: { readonly account: AccountView; readonly typed: string }): VNode {
  const after = availableAfter(account, typed)
  return (
    <>
      Available now: <Money value={account.available} owned />
      {after === null ? (
        '. A negative amount takes credit.'
      ) : after.startsWith('-') ? (
        <>
          . At most this can be taken; <Money value={account.held} /> is held for requests in progress.
        </>
      ) : (
        <>
          , afterwards: <Money value={after} owned />
        </>
      )}
    </>
  )
}

function GrantedBefore({ view }: { readonly view: CreditView }): VNode {
  return (
    <Note tone="warn" title="Nothing was changed">
      The reference {view.reference} was used before, so no credit was granted or taken now.{' '}
      <Money value={view.account.available} owned /> is available. For another payment, use another reference.
    </Note>
  )
}

/** Changes the plan, from the next request on. */
export function PlanDialog({
  account,
  plans,
  onClose,
  onChanged,
}: ChangeProps & { plans: readonly PlanView[] }): VNode {
  const form = useForm({
    initial: { plan: account.plan },
    check: ({ plan }) => ({ plan: plan.trim() === '' ? 'Enter a plan.' : '' }),
    send: async ({ plan: typed }) => {
      const plan = typed.trim()
      if (plan !== account.plan) {
        onChanged(await api.patch<AccountView>(`operator/accounts/${account.id}`, { plan }))
        announce(`${account.name} is on the plan ${plan} now`)
      }
      onClose()
    },
  })
  return (
    <FormDialog title={`Plan of ${account.name}`} form={form} submit="Change the plan" onClose={onClose}>
      <PlanField plans={plans} {...form.field('plan')} />
      <p class="muted">It takes effect with the next request.</p>
    </FormDialog>
  )
}

/** Freezes or unfreezes an account. */
export function FreezeDialog({ account, onClose, onChanged }: ChangeProps): VNode {
  const frozen = !account.frozen
  return (
    <ConfirmDialog
      title={frozen ? `Freeze ${account.name}?` : `Unfreeze ${account.name}?`}
      confirm={frozen ? 'Freeze the account' : 'Unfreeze the account'}
      danger={frozen}
      onConfirm={async () => onChanged(await api.patch<AccountView>(`operator/accounts/${account.id}`, { frozen }))}
      done={frozen ? `${account.name} is frozen` : `${account.name} is active again`}
      onClose={onClose}
    >
      {frozen ? (
        <>
          <p>
            From the next request on, every key of this account is refused. Answers in progress are finished and
            charged.
          </p>
          <p>Its members can still sign in, and its credit is kept. You can unfreeze it at any time.</p>
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
