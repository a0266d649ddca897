/** The ledger as a table: one's own, and that of any account for operators. */
import type { ComponentChildren, VNode } from 'preact'
import type { EntryView } from '../../api/views.ts'
import type { Pages } from '../lib/use-resource.ts'
import { type Column, Empty, Loaded, Pager, Table, Time } from '../ui/index.ts'
import { OutcomeBadge } from './receipt-list.tsx'

interface ListProps {
  readonly pages: Pages<EntryView>
  /** Of keys, by their ids. */
  readonly names: Readonly<Record<string, string>>
  /** Where the receipt of a charge stands. */
  readonly hrefOf: (entry: EntryView) => string
  /** What to do when there is none. */
  readonly action?: ComponentChildren
}

/** The newest first, page by page. */
export function EntryList({ pages, names, hrefOf, action }: ListProps): VNode {
  return (
    <>
      <Loaded resource={{ ...pages, data: pages.items }} title="The ledger could not be read" lines={8}>
        {items => (
          <Table
            caption="Ledger entries, the newest first"
            columns={columns(names, hrefOf)}
            rows={items}
            rowKey={entry => entry.id}
            busy={pages.loading}
            empty={
              <Empty icon="receipt" title="No entries" action={action}>
                Credit and charges stand here, the newest first.
              </Empty>
            }
          />
        )}
      </Loaded>
      <Pager pages={pages} />
    </>
  )
}

/** To choose from, for a filter. */
export const ENTRY_KINDS = [
  { value: '', label: 'All entries' },
  { value: 'credit', label: 'Credit' },
  { value: 'charge', label: 'Charges' },
] as const

function columns(names: ListProps['names'], hrefOf: ListProps['hrefOf']): readonly Column<EntryView>[] {
  return [
    {
      title: 'Entry',
      heading: true,
      cell: entry => (
        <span class="stack-tight">
          {entry.kind === 'credit' ? (
            <span>Credit</span>
          ) : (
            <a href={hrefOf(entry)}>Charge, {entry.model ?? 'no model'}</a>
          )}
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
    { title: 'Amount', money: { of: entry => entry.amount, signed: true } },
    { title: 'Balance', money: { of: entry => entry.balance, none: 'not summed up', owned: true } },
  ]
}

function creditWords({ actor, note }: EntryView): string {
  return [actor === null ? '' : `by ${actor}`, note ?? ''].filter(Boolean).join(': ')
}

function keyWords(id: string | null, names: ListProps['names']): string {
  return id === null ? '' : `key ${names[id] ?? id}`
}
