/** A card with a list: filters, the table with its pages, and a placeholder without data. */
import type { ComponentChildren, VNode } from 'preact'
import type { Pages } from '../lib/use-resource.ts'
import { Card, type CardProps } from './card.tsx'
import { Loaded } from './state.tsx'
import { Table, type TableProps } from './table.tsx'
import { Pager } from './tabs.tsx'

interface ListProps<Row>
  extends Omit<CardProps, 'flush' | 'class' | 'children'>,
    Omit<TableProps<Row>, 'rows' | 'busy'> {
  /** The list in pages, or the rows if the page already has them. */
  readonly rows: Pages<Row> | readonly Row[]
  /** The title of the error: `Failed to load the keys`. */
  readonly failed?: string | undefined
  /** Whether the list is sorted by name, so that its pages are not newer and older. */
  readonly byName?: boolean | undefined
  /** Above the table. */
  readonly filters?: ComponentChildren
  /** Replaces the table, for example by the result of a search. */
  readonly instead?: ComponentChildren
  /** Dialogs of the list. */
  readonly children?: ComponentChildren
}

/** `<List title="API tokens" rows={tokens} caption="API tokens" columns={COLUMNS} empty={<Empty … />} />` */
export function List<Row extends { readonly id: string }>(props: ListProps<Row>): VNode {
  const { title, hint, actions, rows, failed, byName, filters, instead, children, ...table } = props
  const drawn = (of: readonly Row[], busy = false): VNode => <Table {...table} rows={of} busy={busy} />
  return (
    <Card title={title} hint={hint} actions={actions} flush>
      {filters}
      {instead ||
        ('loading' in rows ? (
          <>
            <Loaded resource={rows} title={failed} lines={6}>
              {data => drawn(data, rows.loading)}
            </Loaded>
            <Pager pages={rows} byName={byName} />
          </>
        ) : (
          drawn(rows)
        ))}
      {children}
    </Card>
  )
}
