/** Tables: real ones, that become stacked rows on a phone. */
import type { ComponentChildren, VNode } from 'preact'

/** One column: what it is called and what a row shows there. */
export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => ComponentChildren
  /** Figures stand at the right. */
  readonly number?: boolean | undefined
  /** Names the row: read aloud with every cell, and the head of the stacked row. The first column if none says so. */
  readonly heading?: boolean | undefined
  /** For buttons: the title is only read aloud. */
  readonly actions?: boolean | undefined
}

interface TableProps<Row> {
  /** Read aloud before the table. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly rowKey: (row: Row) => string
  /** Instead of the table when there are no rows. */
  readonly empty?: ComponentChildren
  /** New rows are being read: the old ones are dimmed. */
  readonly busy?: boolean | undefined
  readonly rowClass?: ((row: Row) => string) | undefined
}

export function Table<Row>(props: TableProps<Row>): VNode {
  const { caption, columns, rows, rowKey, empty, busy = false, rowClass } = props
  if (rows.length === 0 && empty) return <div class="table-empty">{empty}</div>
  const heading = Math.max(
    0,
    columns.findIndex(column => column.heading),
  )
  return (
    <table class="table" aria-busy={busy}>
      <caption class="hidden">{caption}</caption>
      <thead>
        <tr>
          {columns.map(column => (
            <th key={column.title} scope="col" class={classOf(column)}>
              {column.actions ? <span class="hidden">{column.title}</span> : column.title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(row => (
          <tr key={rowKey(row)} class={rowClass?.(row) ?? ''}>
            {columns.map((column, index) =>
              index === heading ? (
                <th key={column.title} scope="row" class={classOf(column)}>
                  {column.cell(row)}
                </th>
              ) : (
                <td key={column.title} class={classOf(column)} data-title={column.actions ? '' : column.title}>
                  <div class="cell">{column.cell(row)}</div>
                </td>
              ),
            )}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

interface ScrollProps {
  readonly label: string
  readonly children: ComponentChildren
}

/** For what is too wide for a phone and cannot be stacked: it scrolls inside its card, with the keyboard too. */
export function ScrollArea({ label, children }: ScrollProps): VNode {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable with the keyboard
    <section class="scroll-area" aria-label={label} tabIndex={0}>
      {children}
    </section>
  )
}

function classOf<Row>(column: Column<Row>): string {
  return column.number ? 'number' : column.actions ? 'cell-actions' : ''
}
