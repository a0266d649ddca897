/** API tokens of machines that use the operator API: a payment's webhook, a script. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { ConfigurationView, IssuedTokenView, TokenView } from '../../../api/views.ts'
import { api } from '../../lib/api.ts'
import { useForm } from '../../lib/use-form.ts'
import { usePages, useResource } from '../../lib/use-resource.ts'
import {
  Button,
  Card,
  Choice,
  Code,
  type Column,
  Empty,
  FormDialog,
  List,
  Note,
  OnceDialog,
  Page,
  Snippet,
  TextField,
  Time,
  useQuestion,
} from '../../ui/index.ts'
import { creditCommand } from './credit.ts'
import { adminAddress } from './listing.ts'
import '../../styles/operator.css'

/** `/operator/tokens` */
export default function Tokens(): VNode {
  const tokens = usePages<TokenView>('operator/tokens')
  const [isMaking, setMaking] = useState(false)
  const [issued, setIssued] = useState<IssuedTokenView>()
  const [revoke, question] = useQuestion<TokenView>(({ id, name }) => ({
    title: `Revoke the token ${name}?`,
    confirm: 'Revoke the token',
    danger: true,
    removesOpener: true,
    children: <p>The next request with it is refused. This cannot be undone.</p>,
    onConfirm: () => api.delete(`operator/tokens/${id}`).then(tokens.reload),
    done: `The token ${name} is revoked`,
  }))
  const added = (token: IssuedTokenView): void => {
    setMaking(false)
    setIssued(token)
    tokens.reload()
  }
  const make = (
    <Button variant="primary" icon="plus" onClick={() => setMaking(true)}>
      New token
    </Button>
  )
  return (
    <Page
      title="API tokens"
      lead="For scripts and webhooks that use the operator API on the admin listener. They do not work for model requests."
      actions={make}
    >
      <List
        title="API tokens"
        rows={tokens}
        failed="Failed to load the tokens"
        caption="API tokens"
        columns={COLUMNS}
        rowActions={token => (
          <Button small aria-label={`Revoke the token ${token.name}`} onClick={() => revoke(token)}>
            Revoke
          </Button>
        )}
        empty={
          <Empty icon="token" title="No tokens" action={make}>
            Create one for a script or a payment webhook.
          </Empty>
        }
      />
      <Example />
      {isMaking && <NewTokenDialog onClose={() => setMaking(false)} onMade={added} />}
      {issued && (
        <OnceDialog
          title={`The token ${issued.token.name}`}
          label="Token"
          secret={issued.secret}
          onClose={() => setIssued(undefined)}
          lead={
            <p>
              This token has the rights of an operator. Store it as a secret, for example in the environment as{' '}
              <Code>TOLLGATE_OPERATOR_TOKEN</Code>.
            </p>
          }
        />
      )}
      {question}
    </Page>
  )
}

const COLUMNS: readonly Column<TokenView>[] = [
  { title: 'Name', cell: token => token.name, below: token => <code>{`\u2026${token.last4}`}</code> },
  { title: 'Created by', cell: token => token.created_by },
  { title: 'Created', cell: token => <Time value={token.created_at} /> },
  { title: 'Expires', cell: token => <Time value={token.expires_at} none="never" /> },
]

const DAY_MS = 86_400_000
const LIVES = [
  { value: '90', label: '90 days' },
  { value: '365', label: '1 year' },
  { value: '', label: 'Never' },
]

interface NewTokenProps {
  readonly onClose: () => void
  readonly onMade: (token: IssuedTokenView) => void
}

function NewTokenDialog({ onClose, onMade }: NewTokenProps): VNode {
  const form = useForm({
    initial: { name: '', expires_at: '365' },
    check: ({ name }) => ({ name: name.trim() === '' ? 'Enter a name.' : '' }),
    send: async ({ name, expires_at: days }) => {
      const end = days === '' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString()
      onMade(await api.post<IssuedTokenView>('operator/tokens', { name: name.trim(), expires_at: end }))
    },
  })
  return (
    <FormDialog title="New token" form={form} submit="Create" onClose={onClose}>
      <TextField
        label="Name"
        maxLength={100}
        required
        hint="The script or service that uses it. The ledger shows this name for each credit it grants."
        {...form.field('name')}
      />
      <Choice label="Expires after" options={LIVES} {...form.field('expires_at')} />
    </FormDialog>
  )
}

/** An example with the address of the running configuration, if it has an admin listener. */
function Example(): VNode {
  const configuration = useResource<ConfigurationView>('operator/configuration')
  const address = configuration.data ? adminAddress(configuration.data.files) : null
  return (
    <Card title="Grant credit for a payment">
      <div class="stack">
        <p>
          Let the webhook of your payment provider send this request. The reference is the payment's own id. If the
          webhook comes twice, the credit is granted once, and the second answer has <Code>"granted": false</Code>.
        </p>
        <Snippet label="curl command" text={creditCommand(address)} />
        {address === null && configuration.data && (
          <Note tone="info">
            Replace the address with that of the <Code>admin:</Code> listener in gateway.yaml. Without one, machines
            cannot use the API.
          </Note>
        )}
        <p class="small muted">
          <a href="/api/openapi.json">The whole API as OpenAPI 3.1</a>
        </p>
      </div>
    </Card>
  )
}
