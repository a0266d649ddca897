/** The dialogs of the keys page: a new key, its secret, a rotation, a change. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { IssuedKeyView, KeyView, ModelView, PageView } from '../../api/views.ts'
import { api } from '../lib/api.ts'
import { date, dateTime, exactMoney, money } from '../lib/format.ts'
import { capOf, changeOf, EXPIRIES, type Expiry, expiryOf, GRACES, type KeyDraft, type Models } from '../lib/keys.ts'
import { useForm } from '../lib/use-form.ts'
import { useResource } from '../lib/use-resource.ts'
import { CheckboxGroup, Choice, ErrorNote, FormDialog, Note, OnceDialog, TextField } from '../ui/index.ts'
import { Examples } from './examples.tsx'

interface IssueProps {
  readonly onClose: () => void
  readonly onIssued: (issued: IssuedKeyView) => void
}

/** Creates a key: name, expiry, models, cap. */
export function NewKeyDialog({ onClose, onIssued }: IssueProps): VNode {
  const now = Date.now()
  const form = useForm({
    initial: {
      name: '',
      expires_at: { choice: '90', day: '' },
      models: { some: false, ids: [] } as Models,
      spending_cap: '',
    },
    check: ({ name, expires_at, models, spending_cap }) => ({
      name: name.trim() === '' ? 'Give the key a name.' : '',
      models: models.some && models.ids.length === 0 ? 'Choose at least one model.' : '',
      expires_at: expiryOf(expires_at, now).error,
      spending_cap: capOf(spending_cap).error,
    }),
    send: async ({ name, expires_at, models, spending_cap }) =>
      onIssued(
        await api.post<IssuedKeyView>('keys', {
          name: name.trim(),
          models: models.some ? models.ids : null,
          expires_at: expiryOf(expires_at, now).at,
          spending_cap: capOf(spending_cap).cap,
        }),
      ),
  })
  return (
    <FormDialog title="Create an API key" form={form} submit="Create the key" onClose={onClose}>
      <NameField placeholder="backend, laptop, nightly run" {...form.field('name')} />
      <ExpiryField {...form.field('expires_at')} />
      <ModelsField {...form.field('models')} />
      <CapField {...form.field('spending_cap')} />
    </FormDialog>
  )
}

interface RotateProps extends IssueProps {
  readonly keyView: KeyView
}

/** Creates a new secret for a key; the old one stays valid for a while. */
export function RotateKeyDialog({ keyView, onClose, onIssued }: RotateProps): VNode {
  const now = Date.now()
  const form = useForm({
    initial: { grace_hours: '24', expires_at: { choice: keyView.expires_at === null ? 'never' : '90', day: '' } },
    check: ({ expires_at }) => ({ expires_at: expiryOf(expires_at, now).error }),
    send: async ({ grace_hours, expires_at }) => {
      const body = { grace_hours: Number(grace_hours), expires_at: expiryOf(expires_at, now).at }
      onIssued(await api.post<IssuedKeyView>(`keys/${encodeURIComponent(keyView.id)}/rotate`, body))
    },
  })
  const grace = form.values.grace_hours
  const until = dateTime(new Date(now + Number(grace) * 3_600_000).toISOString())
  return (
    <FormDialog title={`Rotate ${keyView.name}`} form={form} submit="Create a new secret" careful onClose={onClose}>
      <p class="muted">The key keeps its name, models, spending cap and usage. Only the secret changes.</p>
      <Choice
        label="Keep the old secret valid for"
        options={GRACES}
        {...form.field('grace_hours')}
        hint={
          grace === '0'
            ? 'The old secret stops working at once.'
            : `Both work until ${until}. Deploy the new secret before then.${keyView.secrets.length > 1 ? ' The one before them stops working now.' : ''}`
        }
      />
      <ExpiryField
        hint={keyView.expires_at === null ? undefined : `Current expiry: ${date(keyView.expires_at)}.`}
        {...form.field('expires_at')}
      />
    </FormDialog>
  )
}

interface IssuedProps {
  readonly issued: IssuedKeyView
  readonly rotated: boolean
  readonly onClose: () => void
}

/** Shows the secret once, with a request to try it. */
export function IssuedKeyDialog({ issued: { key, token }, rotated, onClose }: IssuedProps): VNode {
  const models = useResource<PageView<ModelView>>(key.models === null ? 'models' : null)
  const model = key.models?.[0] ?? models.data?.items[0]?.id
  const old = key.secrets[1]?.expires_at ?? null
  return (
    <OnceDialog
      title={rotated ? `The new secret of ${key.name}` : `${key.name} is ready`}
      label="API key"
      secret={token}
      onClose={onClose}
      lead={
        rotated &&
        old !== null && <Note tone="info">The old secret works until {dateTime(old)}. Replace it before.</Note>
      }
    >
      {onCopied =>
        model !== undefined && (
          <div class="stack-tight">
            <p class="field-label">Try it</p>
            <Examples model={model} secret={token} onCopied={onCopied} />
          </div>
        )
      }
    </OnceDialog>
  )
}

interface ChangeProps {
  readonly keyView: KeyView
  readonly onClose: () => void
  readonly onChanged: () => void
}

/** Changes a key, but not its secret. Only changed fields are sent. */
export function ChangeKeyDialog({ keyView, onClose, onChanged }: ChangeProps): VNode {
  const { expires_at, models, spending_cap: cap } = keyView
  const form = useForm<KeyDraft>({
    initial: () => ({
      name: keyView.name,
      expires_at: { choice: 'keep', day: '' },
      models: { some: models !== null, ids: models ?? [] },
      spending_cap: cap === null ? '' : exactMoney(cap).slice(1),
    }),
    check: draft => changeOf(keyView, draft, Date.now()).wrong ?? {},
    send: async draft => {
      const { body = {} } = changeOf(keyView, draft, Date.now())
      if (Object.keys(body).length > 0) await api.patch(`keys/${encodeURIComponent(keyView.id)}`, body)
      onChanged()
    },
  })
  return (
    <FormDialog title={`Change ${keyView.name}`} form={form} submit="Save" onClose={onClose}>
      <NameField {...form.field('name')} />
      {keyView.purpose === null && (
        <ExpiryField
          keep={expires_at === null ? 'Never, as now' : `${date(expires_at)}, as now`}
          {...form.field('expires_at')}
        />
      )}
      <ModelsField also={models ?? []} {...form.field('models')} />
      <CapField spent={keyView.spent} {...form.field('spending_cap')} />
    </FormDialog>
  )
}

interface FieldProps<T> {
  readonly value: T
  readonly onValue: (value: T) => void
  readonly error: string | undefined
}

function NameField(field: FieldProps<string> & { readonly placeholder?: string }): VNode {
  return <TextField label="Name" name="key-name" maxLength={80} required {...field} />
}

interface ExpiryProps extends FieldProps<Expiry> {
  readonly hint?: string | undefined
  /** The label of the option that keeps the expiry, if offered. */
  readonly keep?: string | undefined
}

function ExpiryField({ value, onValue, error, hint, keep }: ExpiryProps): VNode {
  const dated = value.choice === 'date'
  return (
    <>
      <Choice
        label="Expires after"
        hint={value.choice === 'never' ? 'A key without an expiry works until you revoke it.' : hint}
        value={value.choice}
        onValue={choice => onValue({ ...value, choice })}
        options={keep === undefined ? EXPIRIES : [{ value: 'keep', label: keep }, ...EXPIRIES]}
        error={dated ? undefined : error}
      />
      {dated && (
        <TextField
          label="Last day"
          type="date"
          name="last-day"
          value={value.day}
          onValue={day => onValue({ ...value, day })}
          error={error}
        />
      )}
    </>
  )
}

interface ModelsProps extends FieldProps<Models> {
  /** The models that the key may use now: an operator may have allowed one that is not public. */
  readonly also?: readonly string[] | undefined
}

/** Longer lists have a search. */
const MANY = 12

function ModelsField({ value, onValue, error, also = [] }: ModelsProps): VNode {
  const models = useResource<PageView<ModelView>>('models')
  const [typed, setTyped] = useState('')
  const items = models.data?.items ?? []
  const wildcards = [...new Set(items.flatMap(({ wildcard }) => wildcard ?? []))]
  const all = [...wildcards.map(id => ({ id, description: 'All of these, and later ones' })), ...items]
  const hidden = models.data ? also.filter(id => !all.some(model => model.id === id)) : []
  // A checkbox group returns only values that it shows, so chosen models stay visible during a search.
  const found = all.filter(({ id }) => value.ids.includes(id) || id.includes(typed.trim()))
  return (
    <>
      <Choice
        label="Models"
        value={value.some ? 'some' : 'all'}
        onValue={choice => onValue({ ...value, some: choice === 'some' })}
        options={[
          { value: 'all', label: 'All models' },
          { value: 'some', label: 'Only some' },
        ]}
      />
      {value.some && models.error && <ErrorNote error={models.error} />}
      {value.some && items.length > MANY && (
        <TextField
          label="Search the models"
          type="search"
          optional
          value={typed}
          onValue={setTyped}
          // Enter would submit the form.
          onKeyDown={event => event.key === 'Enter' && event.preventDefault()}
        />
      )}
      {value.some && models.data && (
        <CheckboxGroup
          label="The key may use"
          values={value.ids}
          onValues={ids => onValue({ ...value, ids })}
          options={[
            ...found.map(({ id, description }) => ({
              value: id,
              label: id,
              ...(description === null ? {} : { hint: description }),
            })),
            ...hidden.map(id => ({ value: id, label: id })),
          ]}
          error={error}
        />
      )}
    </>
  )
}

function CapField({ spent, ...field }: FieldProps<string> & { readonly spent?: string }): VNode {
  const sofar = spent === undefined ? '' : ` It has spent ${money(spent)} so far.`
  return (
    <TextField
      label="Spending cap"
      name="spending-cap"
      optional
      dollars
      hint={`The total that this key may spend.${sofar} Without one, the balance and the budgets of the account limit it.`}
      {...field}
    />
  )
}
