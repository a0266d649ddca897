/** Tokens with which machines reach the operators' API: a payment's webhook, a script. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { ConfigurationView, IssuedTokenView, PageView, TokenView } from '../../../api/views.ts'
import { api } from '../../lib/api.ts'
import { useAction, useResource } from '../../lib/use-resource.ts'
import {
  announce,
  Button,
  Card,
  Choice,
  Code,
  type Column,
  ConfirmDialog,
  Empty,
  errorAt,
  FormDialog,
  Loaded,
  Note,
  OnceDialog,
  Page,
  Snippet,
  Table,
  TextField,
  Time,
} from '../../ui/index.ts'
import { creditCommand } from './credit.ts'
import { adminAddress } from './listing.ts'
import '../../styles/operator.css'

/** `/operator/tokens` */
export default function Tokens(): VNode {
  const tokens = useResource<PageView<TokenView>>('operator/tokens')
  const [isMaking, setMaking] = useState(false)
  const [issued, setIssued] = useState<IssuedTokenView>()
  const [revoking, setRevoking] = useState<TokenView>()
  const made = (token: IssuedTokenView): void => {
    setMaking(false)
    setIssued(token)
    tokens.reload()
  }
  const revoke = async (token: TokenView): Promise<void> => {
    await api.delete(`operator/tokens/${token.id}`)
    announce(`The token ${token.name} is revoked`)
    tokens.reload()
  }
  const make = (
    <Button variant="primary" icon="plus" onClick={() => setMaking(true)}>
      New token
    </Button>
  )
  return (
    <Page
      title="Operator tokens"
      lead="For machines that do what operators do. They work on the admin listener only, never here and never for requests to models."
      actions={make}
    >
      <Card title="Tokens" flush>
        <Loaded resource={tokens} title="The tokens could not be read">
          {({ items }) => (
            <Table
              caption="Operator tokens"
              columns={columns(setRevoking)}
              rows={items}
              rowKey={token => token.id}
              empty={
                <Empty icon="token" title="No tokens" action={make}>
                  A payment's webhook needs one to grant credit.
                </Empty>
              }
            />
          )}
        </Loaded>
      </Card>
      <Example />
      {isMaking && <NewTokenDialog onClose={() => setMaking(false)} onMade={made} />}
      {issued && (
        <OnceDialog
          title={`The token ${issued.token.name}`}
          label="Token"
          secret={issued.secret}
          onClose={() => setIssued(undefined)}
          lead={
            <p>
              Whoever has it can do what an operator can. Keep it where the machine keeps its secrets, for example in
              the environment as <Code>TOLLGATE_OPERATOR_TOKEN</Code>.
            </p>
          }
        />
      )}
      {revoking && (
        <ConfirmDialog
          title={`Revoke the token ${revoking.name}?`}
          confirm="Revoke the token"
          danger
          openerGoes
          onConfirm={() => revoke(revoking)}
          onClose={() => setRevoking(undefined)}
        >
          <p>The next request with it is refused. This cannot be undone.</p>
        </ConfirmDialog>
      )}
    </Page>
  )
}

function columns(revoke: (token: TokenView) => void): readonly Column<TokenView>[] {
  return [
    {
      title: 'Name',
      heading: true,
      cell: token => (
        <span class="stack-tight">
          <span>{token.name}</span>
          <code class="cell-sub">{`\u2026${token.last4}`}</code>
        </span>
      ),
    },
    { title: 'Made by', cell: token => token.created_by },
    { title: 'Made', cell: token => <Time value={token.created_at} /> },
    { title: 'Ends', cell: token => <Time value={token.expires_at} none="when it is revoked" /> },
    {
      title: 'Actions',
      actions: true,
      cell: token => (
        <Button small aria-label={`Revoke the token ${token.name}`} onClick={() => revoke(token)}>
          Revoke
        </Button>
      ),
    },
  ]
}

const DAY_MS = 86_400_000
const LIVES = [
  { value: '90', label: '90 days' },
  { value: '365', label: 'A year' },
  { value: '', label: 'Until it is revoked' },
]

interface NewTokenProps {
  readonly onClose: () => void
  readonly onMade: (token: IssuedTokenView) => void
}

function NewTokenDialog({ onClose, onMade }: NewTokenProps): VNode {
  const [name, setName] = useState('')
  const [days, setDays] = useState('365')
  const [wrong, setWrong] = useState<string>()
  const action = useAction(async (body: object) => onMade(await api.post<IssuedTokenView>('operator/tokens', body)))
  const submit = (): void => {
    const word = name.trim()
    setWrong(word === '' ? 'Say who will use it.' : undefined)
    action.clear()
    if (word === '') return
    const expiresAt = days === '' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString()
    void action.run({ name: word, expires_at: expiresAt })
  }
  return (
    <FormDialog
      title="New token"
      action={action}
      fields={['name', 'expires_at']}
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
        error={wrong ?? errorAt(action.error, 'name')}
        hint="Which machine will use it. The ledger names it with every credit it grants."
      />
      <Choice
        label="It ends after"
        value={days}
        onValue={setDays}
        options={LIVES}
        error={errorAt(action.error, 'expires_at')}
      />
    </FormDialog>
  )
}

/** The address is taken from the running configuration, when it says one. */
function Example(): VNode {
  const configuration = useResource<ConfigurationView>('operator/configuration')
  const address = configuration.data ? adminAddress(configuration.data.files) : null
  return (
    <Card title="Grant credit when a payment has come in">
      <div class="stack">
        <p>
          Let the webhook of your payment provider send this. The reference is the payment's own id: when the webhook
          comes twice, the credit is granted once, and the answer says <Code>"granted": false</Code>.
        </p>
        <Snippet label="curl command" text={creditCommand(address)} />
        {address === null && configuration.data && (
          <Note tone="info">
            The address is the one that <Code>admin:</Code> says in gateway.yaml. Without that line there is no listener
            for machines.
          </Note>
        )}
        <p class="small muted">
          <a href="/api/openapi.json">The whole API as OpenAPI 3.1</a>
        </p>
      </div>
    </Card>
  )
}
