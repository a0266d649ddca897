/** The table of receipts, for members and operators. */
import type { ComponentProps, VNode } from 'preact'
import type { OutcomeName, ReceiptView } from '../../api/views.ts'
import { compact, count, plural } from '../lib/format.ts'
import { OUTCOME_NAMES, outcomeOf } from '../lib/trail.ts'
import type { Pages } from '../lib/use-resource.ts'
import { Badge, type Column, List, Time } from '../ui/index.ts'

interface ListProps extends Partial<ComponentProps<typeof List<ReceiptView>>> {
  readonly rows: Pages<ReceiptView>
  /** The names of keys, by id. */
  readonly names: Readonly<Record<string, string>>
  /** The address of a receipt. */
  readonly hrefOf: (receipt: ReceiptView) => string
}

/** The receipts page by page, the newest first. */
export function ReceiptList({ names, hrefOf, ...list }: ListProps): VNode {
  return (
    <List
      failed="Failed to load the receipts"
      caption="Receipts, the newest first"
      columns={columns(names, hrefOf)}
      {...list}
    />
  )
}

/** The options of the filter. */
export const OUTCOME_OPTIONS: readonly { readonly value: string; readonly label: string }[] = [
  { value: '', label: 'All outcomes' },
  ...OUTCOME_NAMES.map(value => ({ value, label: outcomeOf(value).label })),
]

/** The outcome of a request. */
export function OutcomeBadge({ outcome }: { readonly outcome: OutcomeName | null }): VNode {
  const { label, tone } = outcomeOf(outcome)
  return <Badge tone={BADGES[tone]}>{label}</Badge>
}

const BADGES = { good: 'good', bad: 'bad', warning: 'warn', neutral: 'plain' } as const

function columns(names: ListProps['names'], hrefOf: ListProps['hrefOf']): readonly Column<ReceiptView>[] {
  return [
    {
      title: 'Request',
      cell: receipt => <a href={hrefOf(receipt)}>{receipt.model}</a>,
      below: ({ id }) => <code>{id}</code>,
    },
    { title: 'Key', cell: ({ key_id }) => names[key_id] ?? <span class="muted">{key_id}</span> },
    {
      title: 'Outcome',
      cell: ({ outcome }) => <OutcomeBadge outcome={outcome} />,
      below: ({ code, attempts }) => {
        const tries = attempts.length > 1 && plural(attempts.length, 'attempt')
        return (
          (code !== null || tries) && (
            <span class="stack-tight">
              {code !== null && <code>{code}</code>}
              {tries && <span>{tries}</span>}
            </span>
          )
        )
      },
    },
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
