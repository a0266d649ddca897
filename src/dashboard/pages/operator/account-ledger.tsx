/** An account's ledger and its receipts, page by page. */
import type { VNode } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { EntryView, KeyView, ReceiptView } from '../../../api/views.ts'
import { keyNames } from '../../lib/usage.ts'
import { usePages } from '../../lib/use-resource.ts'
import { Button, Empty, SelectField } from '../../ui/index.ts'
import { ENTRY_KINDS, EntryList } from '../entry-list.tsx'
import { OUTCOME_OPTIONS, ReceiptList } from '../receipt-list.tsx'

const A_PAGE = 10

interface LedgerProps {
  readonly accountId: string
  readonly keys: readonly KeyView[]
  /** A change of this number reads the ledger again. */
  readonly changes: number
  readonly onGrant: () => void
  /** The switch to the other list. */
  readonly choice: VNode
}

/** Credits and charges. */
export function Ledger({ accountId, keys, changes, onGrant, choice }: LedgerProps): VNode {
  const [kind, setKind] = useState('')
  const pages = usePages<EntryView>(`operator/accounts/${accountId}/entries`, { kind, limit: A_PAGE })
  const { reload } = pages
  const seen = useRef(changes)
  useEffect(() => {
    if (seen.current !== changes) reload()
    seen.current = changes
  }, [changes, reload])
  const grant = (
    <Button icon="plus" onClick={onGrant}>
      Grant credit
    </Button>
  )
  return (
    <EntryList
      title="Ledger"
      actions={choice}
      filters={
        <div class="filters">
          <SelectField label="Entries" value={kind} onValue={setKind} options={ENTRY_KINDS} />
        </div>
      }
      rows={pages}
      names={keyNames(keys)}
      hrefOf={({ id }) => `/operator/accounts/${accountId}?receipt=${id}`}
      action={kind !== 'charge' && grant}
    />
  )
}

interface ReceiptsProps {
  readonly accountId: string
  readonly keys: readonly KeyView[]
  readonly choice: VNode
}

/** Receipts of completed requests. */
export function Receipts({ accountId, keys, choice }: ReceiptsProps): VNode {
  const [outcome, setOutcome] = useState('')
  const [key, setKey] = useState('')
  const pages = usePages<ReceiptView>(`operator/accounts/${accountId}/receipts`, { outcome, key, limit: A_PAGE })
  return (
    <ReceiptList
      title="Receipts"
      hint="One per completed request."
      actions={choice}
      filters={
        <div class="filters">
          <SelectField
            label="Key"
            value={key}
            onValue={setKey}
            options={[{ value: '', label: 'All keys' }, ...keys.map(({ id, name }) => ({ value: id, label: name }))]}
          />
          <SelectField label="Outcome" value={outcome} onValue={setOutcome} options={OUTCOME_OPTIONS} />
        </div>
      }
      rows={pages}
      names={keyNames(keys)}
      hrefOf={({ id }) => `/operator/accounts/${accountId}?receipt=${id}`}
      empty={
        <Empty icon="receipt" title={pages.next === null ? 'No receipts' : 'None on this page'}>
          {pages.next === null
            ? outcome === '' && key === ''
              ? 'The first request of this account creates the first receipt.'
              : 'No receipts match the filters.'
            : 'Older receipts may match. See the next page.'}
        </Empty>
      }
    />
  )
}
