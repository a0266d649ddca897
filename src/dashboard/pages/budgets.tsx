/** The table of budgets, with their remainders and resets, and the dialogs that set and remove one. */
import type { ComponentChildren, VNode } from 'preact'
import { useId, useState } from 'preact/hooks'
import type { BudgetView, KeyView, PageView } from '../../api/views.ts'
import { api } from '../lib/api.ts'
import { budgetOf, draftOf, limitOf, PERIODS, periodOf, resetOf, sourceOf, usedOf } from '../lib/budget-draft.ts'
import { nano, relative } from '../lib/format.ts'
import { useForm } from '../lib/use-form.ts'
import { type Resource, useNow, useResource } from '../lib/use-resource.ts'
import {
  announce,
  Button,
  type Column,
  Dialog,
  Empty,
  FormDialog,
  Loaded,
  Money,
  MoneyMeter,
  SelectField,
  Table,
  TextField,
  useQuestion,
} from '../ui/index.ts'

/** A row of a budget. */
export interface BudgetRow extends BudgetView {
  readonly id: string
}

/** The rows of budgets. Within a period, place, name and subject are unique. */
export function budgetRows(budgets: readonly BudgetView[]): BudgetRow[] {
  return budgets.map(budget => {
    const { place, name, every, key_id, value, start } = budget
    return { ...budget, id: JSON.stringify([place, name, every, key_id, value, start]) }
  })
}

/** The columns of a budget: its limit, its remainder and its reset. */
export const BUDGET_COLUMNS: readonly Column<BudgetRow>[] = [
  { title: 'Budget', cell: budget => limitOf(budget), below: budget => `${budget.name}, ${sourceOf(budget)}` },
  {
    title: 'Used',
    money: { of: usedOf },
    below: budget => (
      <>
        <MoneyMeter label={`Used of ${limitOf(budget)}`} part={usedOf(budget)} whole={budget.amount} />
        <Held budget={budget} />
      </>
    ),
  },
  { title: 'Left', money: { of: ({ left }) => left, owned: true } },
  { title: 'Resets', cell: budget => <Reset budget={budget} /> },
  { title: 'Then', cell: ({ then }) => (then === null ? '\u2013' : then === 'refuse' ? 'Requests are refused' : then) },
]

function Held({ budget: { held } }: { readonly budget: BudgetView }): VNode | null {
  if (nano(held) === 0n) return null
  return (
    <span class="small muted nowrap">
      <Money value={held} /> is held
    </span>
  )
}

function Reset({ budget }: { readonly budget: BudgetView }): VNode {
  const now = useNow(60_000)
  const { resets_at: at } = budget
  if (at === null) return <span class="muted">Never</span>
  return (
    <span class="stack-tight">
      <time dateTime={at}>{resetOf(budget)}</time>
      <span class="cell-sub">{relative(at, now)}</span>
    </span>
  )
}

/** The budgets of a key in its row of a list. */
export function BudgetMeters({ budgets }: { readonly budgets: readonly BudgetView[] }): VNode {
  if (budgets.length === 0) return <span class="muted">None</span>
  return (
    <span class="stack">
      {budgetRows(budgets).map(budget => (
        <span key={budget.id} class="stack-tight">
          <span class="nowrap">
            {periodOf(budget)}: <Money value={budget.left} owned /> left
          </span>
          <MoneyMeter label={`Used of ${limitOf(budget)}`} part={usedOf(budget)} whole={budget.amount} />
          {budget.resets_at !== null && <span class="cell-sub">resets {resetOf(budget)}</span>}
        </span>
      ))}
    </span>
  )
}

interface EditorProps {
  /** The owner in words: `the key app`. */
  readonly whose: string
  /** The API path: `keys/ID/budgets`. */
  readonly path: string
  /** The existing budgets. Those of a plan are included and cannot be changed here. */
  readonly budgets: readonly BudgetView[]
  readonly isOwn: (budget: BudgetView) => boolean
  /** The API path of the models for the field `then`. */
  readonly models: 'models' | 'operator/models'
  readonly onChanged: () => void
}

interface Editor {
  /** The button that adds a budget; nothing if each period has one. */
  readonly add: ComponentChildren
  readonly rowActions: (budget: BudgetRow) => ComponentChildren
  readonly dialogs: ComponentChildren
}

/** The buttons and dialogs that set and remove the budgets of one owner. */
export function useBudgetEditor({ whose, path, budgets, isOwn, models, onChanged }: EditorProps): Editor {
  const [open, setOpen] = useState<{ readonly budget?: BudgetView } | null>(null)
  const [remove, question] = useQuestion<BudgetView>(budget => ({
    title: `Remove the budget of ${limitOf(budget)}?`,
    confirm: 'Remove the budget',
    danger: true,
    removesOpener: true,
    onConfirm: () => api.delete(`${path}/${budget.every}`).then(onChanged),
    done: 'The budget is removed',
    children: (
      <p>From the next request on, this budget no longer limits {whose}. Other budgets and the credit still do.</p>
    ),
  }))
  const taken = budgets.filter(isOwn).map(({ every }) => every)
  const free = PERIODS.filter(({ value }) => !taken.includes(value))
  return {
    add: free.length > 0 && (
      <Button small icon="plus" onClick={() => setOpen({})}>
        Add a budget
      </Button>
    ),
    rowActions: budget =>
      isOwn(budget) && (
        <span class="row">
          <Button small aria-label={`Change the budget of ${limitOf(budget)}`} onClick={() => setOpen({ budget })}>
            Change
          </Button>
          <Button small aria-label={`Remove the budget of ${limitOf(budget)}`} onClick={() => remove(budget)}>
            Remove
          </Button>
        </span>
      ),
    dialogs: (
      <>
        {open && (
          <BudgetDialog
            whose={whose}
            path={path}
            budget={open.budget}
            periods={free}
            models={models}
            onClose={() => setOpen(null)}
            onChanged={onChanged}
          />
        )}
        {question}
      </>
    ),
  }
}

interface BudgetDialogProps extends Pick<EditorProps, 'whose' | 'path' | 'models' | 'onChanged'> {
  /** Undefined: a new one. */
  readonly budget: BudgetView | undefined
  /** The periods without a budget. */
  readonly periods: readonly { readonly value: string; readonly label: string }[]
  readonly onClose: () => void
}

function BudgetDialog({ whose, path, budget, periods, models, onClose, onChanged }: BudgetDialogProps): VNode {
  const zones = useId()
  const known = useResource<PageView<{ readonly id: string }>>(models)
  const form = useForm({
    initial: () =>
      draftOf(
        budget,
        periods.map(({ value }) => value),
      ),
    check: draft => budgetOf(draft).wrong ?? {},
    send: async draft => {
      await api.put(`${path}/${draft.every}`, budgetOf(draft).body ?? {})
      onChanged()
      announce(budget === undefined ? 'The budget is added' : 'The budget is changed')
      onClose()
    },
  })
  const { then } = form.values
  const ids = new Set(['refuse', then, ...(known.data?.items ?? []).map(({ id }) => id)])
  return (
    <FormDialog
      title={budget === undefined ? `Add a budget for ${whose}` : `Change the budget of ${limitOf(budget)}`}
      form={form}
      submit="Save the budget"
      onClose={onClose}
    >
      {budget === undefined && (
        <SelectField label="Period" options={periods} hint="Weeks begin on Monday." {...form.field('every')} />
      )}
      <TextField
        label="Amount"
        dollars
        required
        hint="The most that may be spent in a period, with the holds of requests in progress."
        {...form.field('amount')}
      />
      <TextField
        label="Time zone"
        list={zones}
        required
        spellcheck={false}
        hint="Where days begin, for example Europe/Berlin."
        {...form.field('zone')}
      />
      <datalist id={zones}>
        {Intl.supportedValuesOf('timeZone').map(zone => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
      <TextField
        label="Alerts"
        optional
        hint="Parts of the amount that send an alert, for example 80%, 100%."
        {...form.field('at')}
      />
      <SelectField
        label="When it is exhausted"
        options={[...ids].map(id => ({ value: id, label: id === 'refuse' ? 'Refuse requests' : `Answer with ${id}` }))}
        {...form.field('then')}
      />
    </FormDialog>
  )
}

interface KeyBudgetsProps extends Pick<EditorProps, 'models'> {
  readonly keyView: KeyView
  /** The API path of the keys: `keys`. */
  readonly keysPath: string
  /** The budgets of the account and its keys. */
  readonly resource: Pick<Resource<PageView<BudgetView>>, 'data' | 'error' | 'reload'>
  readonly onClose: () => void
}

/** The budgets of one key, each with its remainder. Only the key's own budgets can be changed. */
export function KeyBudgetsDialog({ keyView, keysPath, resource, models, onClose }: KeyBudgetsProps): VNode {
  const { id, name } = keyView
  const budgets = resource.data?.items.filter(({ key_id }) => key_id === id) ?? []
  const editor = useBudgetEditor({
    whose: `the key ${name}`,
    path: `${keysPath}/${encodeURIComponent(id)}/budgets`,
    budgets,
    isOwn: ({ place }) => place === 'key',
    models,
    onChanged: resource.reload,
  })
  return (
    <Dialog title={`Budgets of ${name}`} wide onClose={onClose}>
      <div class="stack">
        <p class="muted">A budget limits what this key spends in a period. The spending cap limits it for good.</p>
        <Loaded resource={resource} title="Failed to load the budgets">
          {() => (
            <>
              <Table
                caption={`Budgets of ${name}`}
                columns={BUDGET_COLUMNS}
                rows={budgetRows(budgets)}
                rowActions={editor.rowActions}
                empty={
                  <Empty icon="clock" title="No budgets">
                    The balance and the budgets of the account limit this key.
                  </Empty>
                }
              />
              <div class="row">{editor.add}</div>
            </>
          )}
        </Loaded>
      </div>
      {editor.dialogs}
    </Dialog>
  )
}
