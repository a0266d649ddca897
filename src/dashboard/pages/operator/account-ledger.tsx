/** An account's ledger and its receipts, page by page. */
import type { VNode } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { EntryView, KeyView, ReceiptView } from '../../../admin/api/views.ts'
import { keyNames } from '../../lib/usage.ts'
import { usePages } from '../../lib/use-resource.ts'
import { Button, Card, type Column, Empty, Loaded, Money, Pager, SelectField, Table, Time } from '../../ui/index.ts'
import { OUTCOME_OPTIONS, OutcomeBadge, ReceiptList } from '../receipt-list.tsx'

const A_PAGE = 10

/** Of keys, by their ids. */
type Names = ReturnType<typeof keyNames>

interface LedgerProps {
  readonly accountId: string
  readonly keys: readonly KeyView[]
  /** When this has changed, the ledger is read again. */
  readonly changes: number
  readonly onGrant: () => void
  /** Leads to the other list. */
  readonly choice: VNode
}

const KINDS = [
  { value: '', label: 'All entries' },
  { value: 'credit', label: 'Credit' },
  { value: 'charge', label: 'Charges' },
]

/** What came in and what was charged. */
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
    <Card title="Ledger" flush actions={choice}>
      <div class="operator-filters">
        <SelectField label="Entries" value={kind} onValue={setKind} options={KINDS} />
      </div>
      <Loaded resource={{ ...pages, data: pages.items }} title="The ledger could not be read">
        {items => (
          <Table
            caption="Ledger entries, the newest first"
            columns={entryColumns(keyNames(keys))}
            rows={items}
            rowKey={entry => entry.id}
            busy={pages.loading}
            empty={
              <Empty icon="receipt" title="No entries" action={kind !== 'charge' && grant}>
                Credit and charges stand here, the newest first.
              </Empty>
            }
          />
        )}
      </Loaded>
      <Pager pages={pages} />
    </Card>
  )
}

function entryColumns(names: Names): readonly Column<EntryView>[] {
  return [
    {
      title: 'Entry',
      heading: true,
      cell: entry => (
        <span class="stack-tight">
          <span>{entry.kind === 'credit' ? 'Credit' : `Charge, ${entry.model ?? 'no model'}`}</span>
          <span class="cell-sub">{entry.kind === 'credit' ? creditWords(entry) : keyWords(entry.key_id, names)}</span>
        </span>
      ),
    },
    {
      title: 'Details',
      cell: entry =>
        entry.reference === null ? (
          entry.outcome && <OutcomeBadge outcome={entry.outcome} />
        ) : (
          <code class="small">{entry.reference}</code>
        ),
    },
    { title: 'When', cell: entry => <Time value={entry.at} /> },
    {
      title: 'Amount',
      number: true,
      cell: entry => <Money value={entry.amount} signed owned={entry.kind === 'credit'} />,
    },
  ]
}

function creditWords({ actor, note }: EntryView): string {
  return [actor === null ? '' : `by ${actor}`, note ?? ''].filter(Boolean).join(': ')
}

interface ReceiptsProps {
  readonly accountId: string
  readonly keys: readonly KeyView[]
  readonly choice: VNode
}

/** Requests that are over. */
export function Receipts({ accountId, keys, choice }: ReceiptsProps): VNode {
  const [outcome, setOutcome] = useState('')
  const [key, setKey] = useState('')
  const pages = usePages<ReceiptView>(`operator/accounts/${accountId}/receipts`, { outcome, key, limit: A_PAGE })
  return (
    <Card title="Receipts" flush hint="One for each request that is over." actions={choice}>
      <div class="operator-filters">
        <SelectField
          label="Key"
          value={key}
          onValue={setKey}
          options={[{ value: '', label: 'All keys' }, ...keys.map(({ id, name }) => ({ value: id, label: name }))]}
        />
        <SelectField label="Outcome" value={outcome} onValue={setOutcome} options={OUTCOME_OPTIONS} />
      </div>
      <ReceiptList
        pages={pages}
        names={keyNames(keys)}
        hrefOf={({ id }) => `/operator/accounts/${accountId}?receipt=${id}`}
        empty={
          <Empty icon="receipt" title={pages.next === null ? 'No receipts' : 'None on this page'}>
            {pages.next === null
              ? outcome === '' && key === ''
                ? 'The first request of this account makes the first one.'
                : 'None of the receipts fits.'
              : 'Older ones may fit: go on with the next page.'}
          </Empty>
        }
      />
    </Card>
  )
}

function keyWords(id: string | null, names: Names): string {
  return id === null ? '' : `key ${names[id] ?? id}`
}
