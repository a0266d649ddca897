/** The table of ledger entries, for members and operators. */
import type { ComponentChildren, ComponentProps, VNode } from 'preact'
import type { EntryView } from '../../api/views.ts'
import type { Pages } from '../lib/use-resource.ts'
import { type Column, Empty, List, Time } from '../ui/index.ts'
import { OutcomeBadge } from './receipt-list.tsx'

interface ListProps extends Partial<ComponentProps<typeof List<EntryView>>> {
  readonly rows: Pages<EntryView>
  /** The names of keys, by id. */
  readonly names: Readonly<Record<string, string>>
  /** The address of a charge's receipt. */
  readonly hrefOf: (entry: EntryView) => string
  /** The action shown without entries. */
  readonly action?: ComponentChildren
}

/** The entries page by page, the newest first. */
export function EntryList({ names, hrefOf, action, ...list }: ListProps): VNode {
  return (
    <List
      failed="Failed to load the ledger"
      caption="Ledger entries, the newest first"
      columns={columns(names, hrefOf)}
      empty={
        <Empty icon="receipt" title="No entries" action={action}>
          Credit and charges appear here, the newest first.
        </Empty>
      }
      {...list}
    />
  )
}

/** The options of the filter. */
export const ENTRY_KINDS = [
  { value: '', label: 'All entries' },
  { value: 'credit', label: 'Credit' },
  { value: 'charge', label: 'Charges' },
] as const

function columns(names: ListProps['names'], hrefOf: ListProps['hrefOf']): readonly Column<EntryView>[] {
  return [
    {
      title: 'Entry',
      cell: entry =>
        entry.kind === 'credit' ? (
          creditTitle(entry)
        ) : (
          <a href={hrefOf(entry)}>
            {entry.kind === 'charge' ? 'Charge' : 'Correction'}, {entry.model ?? 'no model'}
          </a>
        ),
      below: entry => (entry.kind === 'credit' ? creditWords(entry) : keyWords(entry.key_id, names)),
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
    { title: 'Balance', money: { of: entry => entry.balance, none: 'not available', owned: true } },
  ]
}

function creditTitle({ amount }: EntryView): string {
  return amount.startsWith('-') ? 'Credit taken' : 'Credit'
}

function creditWords({ actor, note }: EntryView): string {
  return [actor === null ? '' : `by ${actor}`, note ?? ''].filter(Boolean).join(': ')
}

function keyWords(id: string | null, names: ListProps['names']): string {
  return id === null ? '' : `key ${names[id] ?? id}`
}
