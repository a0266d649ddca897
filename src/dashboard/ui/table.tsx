/** Tables that scroll inside a narrow card, and become stacked rows on a phone. */
import type { ComponentChildren, VNode } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { type ColumnOptions, moneyColumn } from '../lib/format.ts'
import { Money } from './badge.tsx'

/** A column: its title, and its content for a row. The first column names the row for screen readers. */
export interface Column<Row> {
  readonly title: string
  readonly cell?: ((row: Row) => ComponentChildren) | undefined
  /** A second line, smaller. */
  readonly below?: ((row: Row) => ComponentChildren) | undefined
  /** Instead of `cell`: amounts with aligned decimal points. */
  readonly money?: MoneyCells<Row> | undefined
  /** Aligns figures to the right. */
  readonly number?: boolean | undefined
  /** For buttons: the title is only read aloud. */
  readonly actions?: boolean | undefined
}

/** A column of amounts. */
export interface MoneyCells<Row> extends ColumnOptions {
  /** Dollars as the API sends them; null: not known yet. */
  readonly of: (row: Row) => string | null
  /** The text for null. */
  readonly none?: string | undefined
  /** A plus sign before positive amounts. */
  readonly signed?: boolean | undefined
}

export interface TableProps<Row> {
  /** Read aloud before the table. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  /** Buttons at the end of each row. */
  readonly rowActions?: ((row: Row) => ComponentChildren) | undefined
  readonly rows: readonly Row[]
  /** Replaces the table if there are no rows. */
  readonly empty?: ComponentChildren
  /** Whether new rows are loading. The old ones are then dimmed. */
  readonly busy?: boolean | undefined
  readonly rowClass?: ((row: Row) => string) | undefined
}

export function Table<Row extends { readonly id: string }>(props: TableProps<Row>): VNode {
  const { caption, rows, empty, busy = false, rowClass, rowActions } = props
  if (rows.length === 0 && empty) return <div class="table-empty">{empty}</div>
  const columns = rowActions ? [...props.columns, { title: 'Actions', actions: true, cell: rowActions }] : props.columns
  const cells = columns.map(column => cellOf(column, rows))
  return (
    <ScrollArea label={caption}>
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
            <tr key={row.id} class={rowClass?.(row) ?? ''}>
              {columns.map((column, index) =>
                index === 0 ? (
                  <th key={column.title} scope="row" class={classOf(column)}>
                    <div class="cell">{cells[index]!(row)}</div>
                  </th>
                ) : (
                  <td key={column.title} class={classOf(column)} data-title={column.actions ? '' : column.title}>
                    <div class="cell">{cells[index]!(row)}</div>
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  )
}

interface ScrollProps {
  readonly label: string
  readonly children: ComponentChildren
}

/** A container that scrolls if its content is too wide. The keyboard can then reach it. */
export function ScrollArea({ label, children }: ScrollProps): VNode {
  const area = useRef<HTMLDivElement>(null)
  const [scrolls, setScrolls] = useState(false)
  useLayoutEffect(() => {
    const { current } = area
    const measured = (): void =>
      setScrolls(current!.scrollWidth > current!.clientWidth || current!.scrollHeight > current!.clientHeight)
    const watcher = new ResizeObserver(measured)
    for (const element of [current!, ...current!.children]) watcher.observe(element)
    return () => watcher.disconnect()
  }, [])
  return (
    <div ref={area} class="scroll-area" {...(scrolls ? { role: 'region', 'aria-label': label, tabIndex: 0 } : {})}>
      {children}
    </div>
  )
}

function cellOf<Row>({ cell, money, below }: Column<Row>, rows: readonly Row[]): (row: Row) => ComponentChildren {
  const first = money ? moneyCell(money, rows) : cell
  if (!below) return row => first?.(row)
  return row => {
    const more = below(row)
    if (!more) return first?.(row)
    return (
      <span class="stack-tight">
        <span>{first?.(row)}</span>
        {money ? more : <span class="cell-sub">{more}</span>}
      </span>
    )
  }
}

function moneyCell<Row>({ of, none, signed, ...options }: MoneyCells<Row>, rows: readonly Row[]) {
  const amounts = rows.flatMap(row => of(row) ?? [])
  const texts = new Map(moneyColumn(amounts, options).map((text, index) => [amounts[index]!, text]))
  return (row: Row): ComponentChildren => {
    const value = of(row)
    if (value === null) return <span class="muted">{none}</span>
    return <Money value={value} text={texts.get(value)} signed={signed} />
  }
}

function classOf<Row>(column: Column<Row>): string {
  return column.number || column.money ? 'number' : column.actions ? 'cell-actions' : ''
}
