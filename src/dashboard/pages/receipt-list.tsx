/** Receipts as a table: one's own, and those of any account for operators. */
import type { VNode } from 'preact'
import type { OutcomeName, ReceiptView } from '../../api/views.ts'
import { compact, count, plural } from '../lib/format.ts'
import { OUTCOME_NAMES, outcomeOf } from '../lib/trail.ts'
import type { Pages } from '../lib/use-resource.ts'
import { Badge, type Column, Loaded, Pager, Table, Time } from '../ui/index.ts'

interface ListProps {
  readonly pages: Pages<ReceiptView>
  /** Of keys, by their ids. */
  readonly names: Readonly<Record<string, string>>
  /** Where one receipt stands. */
  readonly hrefOf: (receipt: ReceiptView) => string
  readonly empty: VNode
}

/** The newest first, page by page. */
export function ReceiptList({ pages, names, hrefOf, empty }: ListProps): VNode {
  return (
    <>
      <Loaded resource={{ ...pages, data: pages.items }} title="The receipts could not be read" lines={8}>
        {items => (
          <Table
            caption="Receipts, the newest first"
            columns={columns(names, hrefOf)}
            rows={items}
            rowKey={({ id }) => id}
            busy={pages.loading}
            empty={empty}
          />
        )}
      </Loaded>
      <Pager pages={pages} />
    </>
  )
}

/** To choose from, for a filter. */
export const OUTCOME_OPTIONS: readonly { readonly value: string; readonly label: string }[] = [
  { value: '', label: 'All outcomes' },
  ...OUTCOME_NAMES.map(value => ({ value, label: outcomeOf(value).label })),
]

/** How a request ended. */
export function OutcomeBadge({ outcome }: { readonly outcome: OutcomeName | null }): VNode {
  const { label, tone } = outcomeOf(outcome)
  return <Badge tone={BADGES[tone]}>{label}</Badge>
}

const BADGES = { good: 'good', bad: 'bad', warning: 'warn', neutral: 'plain' } as const

function columns(names: ListProps['names'], hrefOf: ListProps['hrefOf']): readonly Column<ReceiptView>[] {
  return [
    {
      title: 'Request',
      heading: true,
      cell: receipt => (
        <span class="stack-tight">
          <a href={hrefOf(receipt)}>{receipt.model}</a>
          <code class="cell-sub">{receipt.id}</code>
        </span>
      ),
    },
    { title: 'Key', cell: ({ key_id }) => names[key_id] ?? <span class="muted">{key_id}</span> },
    { title: 'Outcome', cell: receipt => <Outcome receipt={receipt} /> },
    {
      title: 'Tokens',
      number: true,
      cell: ({ prompt_tokens: input, completion_tokens: output }) => (
        <span title={`${count(input)} in the prompt, ${count(output)} in the answer`}>
          {compact(input)} in, {compact(output)} out
        </span>
      ),
    },
    { title: 'When', cell: ({ created_at }) => <Time value={created_at} /> },
    {
      title: 'Charged',
      money: { of: ({ charged }) => charged, none: 'not yet' },
    },
  ]
}

function Outcome({ receipt: { outcome, code, attempts } }: { readonly receipt: ReceiptView }): VNode {
  return (
    <span class="stack-tight cell-state">
      <OutcomeBadge outcome={outcome} />
      {code !== null && <code class="small muted">{code}</code>}
      {attempts.length > 1 && <span class="small muted">{plural(attempts.length, 'attempt')}</span>}
    </span>
  )
}
