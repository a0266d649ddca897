/** A receipt of an account, as its people see it. */
import type { VNode } from 'preact'
import type { AccountDetailView, FoundReceiptView } from '../../../api/views.ts'
import { keyNames } from '../../lib/usage.ts'
import { useResource } from '../../lib/use-resource.ts'
import { Copy, Loaded, Page } from '../../ui/index.ts'
import { ReceiptDetails } from '../receipt.tsx'

interface ReceiptProps {
  readonly id: string
  readonly accountId: string
}

/** `/operator/accounts/ID?receipt=RECEIPT` */
export function AccountReceipt({ id, accountId }: ReceiptProps): VNode {
  const found = useResource<FoundReceiptView>(`operator/receipts/${encodeURIComponent(id)}`)
  const detail = useResource<AccountDetailView>(`operator/accounts/${encodeURIComponent(accountId)}`)
  return (
    <Page
      title={found.data ? `Receipt for ${found.data.receipt.model}` : 'Receipt'}
      back={{ href: `/operator/accounts/${accountId}?list=receipts`, label: detail.data?.account.name ?? 'Account' }}
      lead={
        <span class="line">
          <code class="small">{id}</code>
          <Copy text={id} label="Copy the id" iconOnly variant="quiet" />
        </span>
      }
    >
      <Loaded resource={found} title="Failed to load the receipt" lines={8}>
        {({ receipt }) => <ReceiptDetails receipt={receipt} names={keyNames(detail.data?.keys ?? [])} />}
      </Loaded>
    </Page>
  )
}
