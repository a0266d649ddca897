/** The account's keys: their limits, their spending, and their actions. */
import type { ComponentChildren, VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { BudgetView, IssuedKeyView, KeyView, PageView } from '../../api/views.ts'
import { api } from '../lib/api.ts'
import { date, plural, relative } from '../lib/format.ts'
import { endingSoon, inOrder, SOON_MS } from '../lib/keys.ts'
import { setQuery, usePlace } from '../lib/router.tsx'
import { useSession } from '../lib/session.tsx'
import { useNow, useResource } from '../lib/use-resource.ts'
import {
  announce,
  Badge,
  Button,
  Card,
  Checkbox,
  type Column,
  ConfirmDialog,
  Copy,
  Empty,
  ErrorBox,
  Fold,
  Loaded,
  Menu,
  MoneyMeter,
  Note,
  Page,
  Table,
  Time,
} from '../ui/index.ts'
import { BudgetMeters, KeyBudgetsDialog } from './budgets.tsx'
import { ExamplesOfModels } from './examples.tsx'
import { ChangeKeyDialog, IssuedKeyDialog, NewKeyDialog, RotateKeyDialog } from './key-dialogs.tsx'

type Open =
  | { readonly kind: 'new' }
  | { readonly kind: 'budgets' | 'change' | 'rotate' | 'revoke'; readonly key: KeyView }
  | { readonly kind: 'issued'; readonly issued: IssuedKeyView; readonly rotated: boolean }

export default function Keys(): VNode {
  const keys = useResource<PageView<KeyView>>('keys', undefined, { onReturn: true })
  const budgets = useResource<PageView<BudgetView>>('budgets', undefined, { onReturn: true })
  const budgetsOf = ({ id }: KeyView): readonly BudgetView[] =>
    budgets.data?.items.filter(({ key_id }) => key_id === id) ?? []
  const asked = usePlace().query.has('create')
  const [open, setOpen] = useState<Open | null>(asked ? { kind: 'new' } : null)
  const close = (): void => {
    setOpen(null)
    keys.reload()
    if (asked) setQuery({ create: null })
  }
  // A dialog shows the current state of a key, not the state when the dialog was opened.
  const ask = (wanted: Open): void => {
    setOpen(wanted)
    keys.reload()
  }
  const current = (key: KeyView): KeyView => keys.data?.items.find(({ id }) => id === key.id) ?? key
  const issued = (value: IssuedKeyView, rotated: boolean): void => {
    setOpen({ kind: 'issued', issued: value, rotated })
    keys.reload()
  }
  const create = (
    <Button variant="primary" icon="plus" onClick={() => setOpen({ kind: 'new' })}>
      Create key
    </Button>
  )
  return (
    <Page
      title="API keys"
      lead="A key lets a program use this account. Create one per program, so that you can revoke each separately."
      actions={create}
    >
      <Loaded resource={keys} title="Failed to load the keys" lines={8}>
        {({ items }) => <KeyList keys={items} create={create} budgetsOf={budgetsOf} onOpen={ask} />}
      </Loaded>
      {budgets.error && <ErrorBox error={budgets.error} retry={budgets.reload} title="Failed to load the budgets" />}
      {open?.kind === 'budgets' && (
        <KeyBudgetsDialog
          keyView={current(open.key)}
          keysPath="keys"
          resource={budgets}
          models="models"
          onClose={close}
        />
      )}
      {open?.kind === 'new' && <NewKeyDialog onClose={close} onIssued={value => issued(value, false)} />}
      {open?.kind === 'rotate' && (
        <RotateKeyDialog keyView={current(open.key)} onClose={close} onIssued={value => issued(value, true)} />
      )}
      {open?.kind === 'issued' && <IssuedKeyDialog issued={open.issued} rotated={open.rotated} onClose={close} />}
      {open?.kind === 'change' && (
        <ChangeKeyDialog
          keyView={current(open.key)}
          onClose={close}
          onChanged={() => {
            close()
            announce('Key updated')
          }}
        />
      )}
      {open?.kind === 'revoke' && <RevokeDialog keyView={current(open.key)} onClose={close} onRevoked={keys.reload} />}
    </Page>
  )
}

interface ListProps {
  readonly keys: readonly KeyView[]
  readonly create: VNode
  readonly budgetsOf: (key: KeyView) => readonly BudgetView[]
  readonly onOpen: (open: Open) => void
}

function KeyList({ keys, create, budgetsOf, onOpen }: ListProps): VNode {
  const now = useNow()
  const [all, setAll] = useState(false)
  const over = keys.filter(key => key.state !== 'live').length
  const soon = endingSoon(keys, now)
  const rows = inOrder(keys).filter(key => all || key.state === 'live')
  const columns: Column<KeyView>[] = [
    { title: 'Name', cell: key => <NameCell keyView={key} now={now} /> },
    { title: 'Key', cell: key => <SecretsCell keyView={key} now={now} /> },
    { title: 'Models', cell: key => <ModelsCell models={key.models} /> },
    { title: 'Spent', money: { of: key => key.spent }, below: spentOfCap },
    { title: 'Budgets', cell: key => <BudgetMeters budgets={budgetsOf(key)} /> },
    { title: 'Last used', cell: key => <Time value={key.last_used_at} none="Never" /> },
    { title: 'Expires', cell: key => <ExpiryCell keyView={key} now={now} /> },
  ]
  return (
    <>
      {soon.map(key => (
        <Note
          key={key.id}
          tone="warn"
          title={`The key ${key.name} expires ${relative(key.expires_at!, now)}`}
          action={
            <Button small onClick={() => onOpen({ kind: 'rotate', key })}>
              Rotate
            </Button>
          }
        >
          Rotate the key before it expires.
        </Note>
      ))}
      <Card
        flush
        title={rows.length === 0 ? undefined : plural(rows.length, 'key')}
        actions={over > 0 && <Checkbox label={`Show ${over} revoked or expired`} checked={all} onChecked={setAll} />}
      >
        <Table
          caption="API keys"
          columns={columns}
          rowActions={key => <Actions keyView={key} onOpen={onOpen} />}
          rows={rows}
          rowClass={key => (key.state === 'live' ? '' : 'muted')}
          empty={
            <Empty icon="key" title={over > 0 ? 'No active keys' : 'No keys yet'} action={create}>
              Create a key and use it in a program. Its requests are charged to this account.
            </Empty>
          }
        />
      </Card>
      {keys.some(({ state, purpose }) => state === 'live' && purpose === null) && <HowToUse />}
    </>
  )
}

/** The base URL, which a program needs besides the key. */
function HowToUse(): VNode {
  const { base_url } = useSession().about
  return (
    <Card title="How to use a key" hint="Any SDK for chat completions works. Change the base URL and the key.">
      <div class="stack">
        <div>
          <p class="small muted">Base URL</p>
          <div class="line">
            <span class="mono">{base_url}</span>
            <Copy text={base_url} label="Copy the base URL" iconOnly variant="quiet" />
          </div>
        </div>
        <Fold title="An example">
          <ExamplesOfModels />
        </Fold>
      </div>
    </Card>
  )
}

interface CellProps {
  readonly keyView: KeyView
  readonly now: number
}

function NameCell({ keyView, now }: CellProps): VNode {
  const { name, state, purpose, expires_at } = keyView
  const ends = state === 'live' && expires_at !== null && Date.parse(expires_at) - now < SOON_MS
  return (
    <span class="row">
      <span class="name">{name}</span>
      {purpose === 'playground' && <Badge tone="info">Playground</Badge>}
      {state === 'revoked' && <Badge tone="bad">Revoked</Badge>}
      {state === 'expired' && <Badge tone="warn">Expired</Badge>}
      {ends && <Badge tone="warn">Expires soon</Badge>}
    </span>
  )
}

function SecretsCell({ keyView, now }: CellProps): VNode {
  const [newest, ...older] = keyView.secrets
  if (newest === undefined) return <span class="faint">{'\u2013'}</span>
  return (
    <span class="stack-tight">
      <span class="mono nowrap">&hellip;{newest.last4}</span>
      {older.map(({ last4, expires_at }) => (
        <span key={last4} class="small muted nowrap">
          <span class="mono">&hellip;{last4}</span> ends {expires_at === null ? '' : relative(expires_at, now)}
        </span>
      ))}
    </span>
  )
}

function ModelsCell({ models }: { readonly models: readonly string[] | null }): VNode {
  if (models === null) return <span class="muted">All</span>
  const [first, ...others] = models
  return (
    <span title={models.join(', ')}>
      <span class="clip">{first}</span>
      {others.length > 0 && <span class="muted"> +{others.length}</span>}
    </span>
  )
}

function spentOfCap({ name, spent, spending_cap: cap }: KeyView): ComponentChildren {
  return cap !== null && <MoneyMeter label={`Spent of the cap of ${name}`} part={spent} whole={cap} />
}

function ExpiryCell({ keyView, now }: CellProps): VNode {
  const { state, expires_at, revoked_at } = keyView
  if (state === 'revoked') return <Time value={revoked_at} />
  if (expires_at === null) return <span class="muted">Never</span>
  return (
    <time class="nowrap" dateTime={expires_at} title={date(expires_at)}>
      {relative(expires_at, now)}
    </time>
  )
}

function Actions({
  keyView,
  onOpen,
}: {
  readonly keyView: KeyView
  readonly onOpen: (open: Open) => void
}): VNode | null {
  if (keyView.state === 'revoked') return null
  const own = keyView.purpose === null
  return (
    <Menu
      label={`Actions for ${keyView.name}`}
      items={[
        own && { label: 'Rotate', icon: 'reload', onChoose: () => onOpen({ kind: 'rotate', key: keyView }) },
        { label: 'Budgets', icon: 'clock', onChoose: () => onOpen({ kind: 'budgets', key: keyView }) },
        { label: 'Change', icon: 'settings', onChoose: () => onOpen({ kind: 'change', key: keyView }) },
        { label: 'Revoke', icon: 'trash', danger: true, onChoose: () => onOpen({ kind: 'revoke', key: keyView }) },
      ]}
    />
  )
}

interface RevokeProps {
  readonly keyView: KeyView
  readonly onClose: () => void
  readonly onRevoked: () => void
}

function RevokeDialog({ keyView, onClose, onRevoked }: RevokeProps): VNode {
  return (
    <ConfirmDialog
      title={`Revoke ${keyView.name}?`}
      confirm="Revoke the key"
      danger
      removesOpener
      onClose={onClose}
      onConfirm={() => api.post(`keys/${encodeURIComponent(keyView.id)}/revoke`).then(onRevoked)}
      done={`${keyView.name} is revoked`}
    >
      <p>
        Every program that uses the key <strong>{keyView.name}</strong> is refused from its next request on. This cannot
        be undone. To replace only the secret, without an interruption, rotate the key.
      </p>
    </ConfirmDialog>
  )
}
