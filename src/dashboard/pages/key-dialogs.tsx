/** The dialogs of the keys page: a new key, the secret that is shown once, rotating, changing. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { IssuedKeyView, KeyView, ModelView, PageView } from '../../api/views.ts'
import { api } from '../lib/api.ts'
import { date, dateTime, exactMoney, money } from '../lib/format.ts'
import { capOf, changeOf, EXPIRIES, type Expiry, expiryOf, GRACES, type Models } from '../lib/keys.ts'
import { useAction, useResource } from '../lib/use-resource.ts'
import { CheckboxGroup, Choice, ErrorNote, errorAt, FormDialog, Note, OnceDialog, TextField } from '../ui/index.ts'
import { Examples } from './examples.tsx'

interface IssueProps {
  readonly onClose: () => void
  readonly onIssued: (issued: IssuedKeyView) => void
}

/** Name, end, models, cap. */
export function NewKeyDialog({ onClose, onIssued }: IssueProps): VNode {
  const [name, setName] = useState('')
  const [expiry, setExpiry] = useState({ choice: '90', day: '' })
  const [models, setModels] = useState<Models>({ some: false, ids: [] })
  const [cap, setCap] = useState('')
  const [tried, setTried] = useState(false)
  const action = useAction(async (body: object) => onIssued(await api.post<IssuedKeyView>('keys', body)))
  const ends = expiryOf(expiry.choice, expiry.day, Date.now())
  const capped = capOf(cap)
  const wrong = {
    name: name.trim() === '' ? 'Give the key a name, so that you know it again.' : undefined,
    models: models.some && models.ids.length === 0 ? 'Choose at least one model.' : undefined,
  }
  const submit = (): void => {
    setTried(true)
    if (wrong.name || wrong.models || 'error' in ends || 'error' in capped) return
    void action.run({
      name: name.trim(),
      models: models.some ? models.ids : null,
      expires_at: ends.at,
      spending_cap: capped.cap,
    })
  }
  return (
    <FormDialog
      title="Create an API key"
      action={action}
      fields={['name', 'models', 'expires_at', 'spending_cap']}
      submit="Create the key"
      onSubmit={submit}
      onClose={onClose}
    >
      <TextField
        label="Name"
        name="key-name"
        autocomplete="off"
        maxLength={80}
        required
        placeholder="backend, laptop, nightly run"
        value={name}
        onValue={setName}
        error={(tried ? wrong.name : undefined) ?? errorAt(action.error, 'name')}
      />
      <ExpiryField
        value={expiry}
        onValue={setExpiry}
        error={(tried && 'error' in ends ? ends.error : undefined) ?? errorAt(action.error, 'expires_at')}
      />
      <ModelsField
        value={models}
        onValue={setModels}
        error={(tried ? wrong.models : undefined) ?? errorAt(action.error, 'models')}
      />
      <CapField
        value={cap}
        onValue={setCap}
        error={(tried && 'error' in capped ? capped.error : undefined) ?? errorAt(action.error, 'spending_cap')}
      />
    </FormDialog>
  )
}

interface RotateProps extends IssueProps {
  readonly keyView: KeyView
}

/** A new secret for the same key; the old one works on for a while. */
export function RotateKeyDialog({ keyView, onClose, onIssued }: RotateProps): VNode {
  const [grace, setGrace] = useState('24')
  const [expiry, setExpiry] = useState({ choice: keyView.expires_at === null ? 'never' : '90', day: '' })
  const [tried, setTried] = useState(false)
  const now = Date.now()
  const ends = expiryOf(expiry.choice, expiry.day, now)
  const action = useAction(async (body: object) =>
    onIssued(await api.post<IssuedKeyView>(`keys/${encodeURIComponent(keyView.id)}/rotate`, body)),
  )
  const submit = (): void => {
    setTried(true)
    if (!('error' in ends)) void action.run({ grace_hours: Number(grace), expires_at: ends.at })
  }
  const until = dateTime(new Date(now + Number(grace) * 3_600_000).toISOString())
  return (
    <FormDialog
      title={`Rotate ${keyView.name}`}
      action={action}
      fields={['expires_at', 'grace_hours']}
      submit="Make a new secret"
      careful
      onSubmit={submit}
      onClose={onClose}
    >
      <p class="muted">The key keeps its name, its models, its cap and what it has spent. Only the secret is new.</p>
      <Choice
        label="Keep the old secret valid for"
        value={grace}
        onValue={setGrace}
        options={GRACES}
        error={errorAt(action.error, 'grace_hours')}
        hint={
          grace === '0'
            ? 'The next request with the old secret is refused.'
            : `Both work until ${until}. That is the time to put the new one in place.`
        }
      />
      <ExpiryField
        value={expiry}
        onValue={setExpiry}
        hint={keyView.expires_at === null ? undefined : `Until now: ${date(keyView.expires_at)}.`}
        error={(tried && 'error' in ends ? ends.error : undefined) ?? errorAt(action.error, 'expires_at')}
      />
    </FormDialog>
  )
}

interface IssuedProps {
  readonly issued: IssuedKeyView
  readonly rotated: boolean
  readonly onClose: () => void
}

/** The secret, this once, and a request to try it with. */
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

/** What the key may do; its secret stays. Only what was changed is sent. */
export function ChangeKeyDialog({ keyView, onClose, onChanged }: ChangeProps): VNode {
  const [name, setName] = useState(keyView.name)
  const [expiry, setExpiry] = useState({ choice: 'keep', day: '' })
  const [models, setModels] = useState<Models>({ some: keyView.models !== null, ids: keyView.models ?? [] })
  const [cap, setCap] = useState(keyView.spending_cap === null ? '' : exactMoney(keyView.spending_cap).slice(1))
  const [tried, setTried] = useState(false)
  const action = useAction(async (body: object) => {
    if (Object.keys(body).length > 0) await api.patch(`keys/${encodeURIComponent(keyView.id)}`, body)
    onChanged()
  })
  const read = changeOf(keyView, { name, expiry, models, cap }, Date.now())
  const wrong = 'wrong' in read && tried ? read.wrong : {}
  const submit = (): void => {
    setTried(true)
    if ('body' in read) void action.run(read.body)
  }
  const { expires_at } = keyView
  return (
    <FormDialog
      title={`Change ${keyView.name}`}
      action={action}
      fields={['name', 'models', 'expires_at', 'spending_cap']}
      submit="Save"
      onSubmit={submit}
      onClose={onClose}
    >
      <TextField
        label="Name"
        name="key-name"
        autocomplete="off"
        maxLength={80}
        required
        value={name}
        onValue={setName}
        error={wrong.name ?? errorAt(action.error, 'name')}
      />
      {keyView.purpose === null && (
        <ExpiryField
          value={expiry}
          onValue={setExpiry}
          keep={expires_at === null ? 'Never, as now' : `${date(expires_at)}, as now`}
          error={wrong.expiry ?? errorAt(action.error, 'expires_at')}
        />
      )}
      <ModelsField
        value={models}
        onValue={setModels}
        also={keyView.models ?? []}
        error={wrong.models ?? errorAt(action.error, 'models')}
      />
      <CapField
        value={cap}
        onValue={setCap}
        spent={keyView.spent}
        error={wrong.cap ?? errorAt(action.error, 'spending_cap')}
      />
    </FormDialog>
  )
}

interface FieldProps<T> {
  readonly value: T
  readonly onValue: (value: T) => void
  readonly error: string | undefined
}

interface ExpiryProps extends FieldProps<Expiry> {
  readonly hint?: string | undefined
  /** What it is called to leave the expiry as it is, where that can be chosen. */
  readonly keep?: string | undefined
}

function ExpiryField({ value, onValue, error, hint, keep }: ExpiryProps): VNode {
  const dated = value.choice === 'date'
  return (
    <>
      <Choice
        label="Expires after"
        hint={value.choice === 'never' ? 'A key that never ends is one to keep an eye on.' : hint}
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
  /** Those that the key may use already: an operator can have allowed one that is not public. */
  readonly also?: readonly string[] | undefined
}

function ModelsField({ value, onValue, error, also = [] }: ModelsProps): VNode {
  const models = useResource<PageView<ModelView>>('models')
  const hidden = also.filter(id => models.data && !models.data.items.some(model => model.id === id))
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
      {value.some && models.data && (
        <CheckboxGroup
          label="The key may use"
          values={value.ids}
          onValues={ids => onValue({ ...value, ids })}
          options={[
            ...models.data.items.map(({ id, description }) => ({
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

function CapField({ value, onValue, error, spent }: FieldProps<string> & { readonly spent?: string }): VNode {
  const sofar = spent === undefined ? '' : ` It has spent ${money(spent)} so far.`
  return (
    <TextField
      label="Spending cap"
      name="spending-cap"
      optional
      before="$"
      inputMode="decimal"
      autocomplete="off"
      value={value}
      onValue={onValue}
      hint={`The most that this key may ever spend.${sofar} Empty: as much as the account has.`}
      error={error}
    />
  )
}
