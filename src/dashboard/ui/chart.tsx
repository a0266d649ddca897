/**
 * Usage over time as stacked bars, drawn by uPlot on a canvas, with a legend of buttons and a box with figures under the
 * pointer. A table has the same figures for people who cannot see a canvas.
 */
import type { VNode } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { UsageRowView } from '../../api/views.ts'
import { dollars } from '../lib/format.ts'
import { useTheme } from '../lib/theme.ts'
import {
  type By,
  type ChartData,
  chartData,
  coloursOf,
  figure,
  gridOf,
  height,
  METRIC_NAMES,
  type Metric,
  OTHER,
  type Step,
  spanName,
  stacked,
  tickLabels,
} from '../lib/usage.ts'
import '../styles/chart.css'
import { type Column, Table } from './table.tsx'

/** Rows as the API sends them, and their presentation. */
export interface UsageChartProps {
  readonly rows: readonly UsageRowView[]
  readonly step: Step
  /** ISO 8601; without them from the first row to the last. */
  readonly from?: string | undefined
  readonly to?: string | undefined
  readonly metric?: Metric | undefined
  readonly by?: By | undefined
  /** The name of a key or model, by its id. */
  readonly names?: Readonly<Record<string, string>> | undefined
  /** Ids in an order that does not depend on the shown data: it decides the colours. */
  readonly order?: readonly string[] | undefined
}

/** A chart of usage. Gaps between the rows are filled with zeros. */
export function UsageChart(props: UsageChartProps): VNode {
  const { rows, step, from, to, metric = 'charged', by = 'none', names = {}, order = NONE } = props
  const data = useMemo(() => chartData(rows, { step, from, to, metric, by }), [rows, step, from, to, metric, by])
  const colours = useMemo(
    () =>
      coloursOf(
        data.series.map(({ id }) => id),
        order,
      ),
    [data, order],
  )
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set())
  const toggle = (id: string): void => setHidden(before => without(before, id))
  const view: View = { data, metric, step, hidden, colours, nameOf: id => nameOf(id, metric, names) }
  return (
    <figure class="chart">
      <Plot {...view} />
      {by !== 'none' && data.series.length > 0 && <Legend {...view} toggle={toggle} />}
      {data.times.length > 0 && <FigureTable {...view} divided={by !== 'none'} />}
    </figure>
  )
}

/** The square in a series' colour. */
function Swatch({ colour }: { readonly colour: number | undefined }): VNode {
  return <span class="chart-swatch" style={{ color: `var(--series-${colour ?? 'other'})` }} aria-hidden="true" />
}

const NONE: readonly string[] = []

interface View {
  readonly data: ChartData
  readonly metric: Metric
  readonly step: Step
  readonly hidden: ReadonlySet<string>
  /** Colours by id; ids without one belong to `OTHER`. */
  readonly colours: ReadonlyMap<string, number>
  readonly nameOf: (id: string) => string
}

function Legend({
  data,
  metric,
  hidden,
  colours,
  nameOf,
  toggle,
}: View & { readonly toggle: (id: string) => void }): VNode {
  return (
    <ul class="chart-legend" aria-label="Shown in the chart">
      {data.series.map(({ id, total }) => (
        <li key={id}>
          <button
            type="button"
            class="button button-small button-quiet"
            aria-pressed={!hidden.has(id)}
            onClick={() => toggle(id)}
          >
            <Swatch colour={colours.get(id)} />
            <span class="chart-legend-name">{nameOf(id)}</span>
            <span class="muted">{figure(total, metric)}</span>
          </button>
        </li>
      ))}
    </ul>
  )
}

/** The span under the pointer: its index, and the x position of its middle. */
interface Hover {
  readonly index: number
  readonly x: number
}

function Plot(view: View): VNode {
  const { data, metric, step, hidden, colours } = view
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const [hover, setHover] = useState<Hover | null>(null)
  const { shown } = useTheme()

  useLayoutEffect(() => {
    const made = draw(box.current!, { data, metric, step, hidden, colours }, setHover)
    plot.current = made
    const watcher = new ResizeObserver(() => made.setSize({ width: box.current!.clientWidth, height: HEIGHT }))
    watcher.observe(box.current!)
    return () => {
      watcher.disconnect()
      made.destroy()
      setHover(null)
    }
  }, [data, metric, step, hidden, colours])

  // Draws again when the theme changes the colours.
  useEffect(() => plot.current?.redraw(false, true), [shown])

  return (
    <div class="chart-plot">
      <div ref={box} class="chart-canvas" role="img" aria-label={summary(view)} />
      {hover && data.times[hover.index] !== undefined && <Tip {...view} hover={hover} />}
    </div>
  )
}

/** The box with the figures of one span. */
function Tip({ data, metric, step, hidden, colours, nameOf, hover }: View & { readonly hover: Hover }): VNode {
  const box = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    const { offsetWidth, parentElement, style } = box.current!
    const room = parentElement!.clientWidth - offsetWidth
    // The box is on the side of the pointer with more space, within the card.
    const beside = hover.x > parentElement!.clientWidth / 2 ? hover.x - offsetWidth - 16 : hover.x + 16
    style.transform = `translateX(${Math.max(0, Math.min(room, beside))}px)`
  })
  const { index } = hover
  const lines = data.series
    .map(series => ({ ...series, value: series.values[index]! }))
    .filter(({ id, value }) => value > 0n && !hidden.has(id))
  const sum = lines.reduce((before, { value }) => before + value, 0n)
  return (
    <div ref={box} class="chart-tip" aria-hidden="true">
      <p class="muted">{spanName(data.times[index]!, step)}</p>
      {lines.length > 1 &&
        lines.map(({ id, value }) => (
          <p key={id} class="chart-tip-line">
            <Swatch colour={colours.get(id)} />
            <span class="grow">{nameOf(id)}</span>
            <span>{figure(value, metric)}</span>
          </p>
        ))}
      <p class="chart-tip-line strong">
        <span class="grow">{lines.length === 1 ? nameOf(lines[0]!.id) : 'Total'}</span>
        <span>{figure(sum, metric)}</span>
      </p>
    </div>
  )
}

interface FigureRow {
  readonly at: number
  readonly index: number
}

/** The figures of the bars as a table. */
function FigureTable({ data, metric, step, nameOf, divided }: View & { readonly divided: boolean }): VNode {
  const [open, setOpen] = useState(false)
  const rows: FigureRow[] = data.times.map((at, index) => ({ at, index })).reverse()
  const figures = (title: string, values: readonly bigint[]): Column<FigureRow> =>
    metric === 'charged'
      ? { title, money: { of: ({ index }) => dollars(values[index]!) } }
      : { title, number: true, cell: ({ index }) => figure(values[index]!, metric) }
  const columns: Column<FigureRow>[] = [
    { title: step === 'day' ? 'Day (UTC)' : 'Hour', cell: ({ at }: FigureRow) => spanName(at, step) },
    ...(divided ? data.series.map(({ id, values }) => figures(nameOf(id), values)) : []),
    figures('Total', data.totals),
  ]
  return (
    <details class="chart-table" onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>Show as table</summary>
      {open && (
        <Table
          caption={`${METRIC_NAMES[metric]} by ${step}`}
          columns={columns}
          rows={rows.map(row => ({ id: `${row.at}`, ...row }))}
        />
      )}
    </details>
  )
}

const HEIGHT = 260
/** Pixels above the plot, and below it for the dates. */
const ABOVE = 12
const AXIS = 28
/** The minimum height of a bar that is not zero, in pixels. */
const MIN_BAR = 2

/** Draws the plot into the box. The caller destroys the plot. */
function draw(box: HTMLElement, view: Omit<View, 'nameOf'>, onHover: (hover: Hover | null) => void): uPlot {
  const { data, metric, step, hidden, colours } = view
  // uPlot draws the last series in front of the others, and `stacked` puts that one at the bottom. So the largest series, the
  // first, becomes the last.
  const series = data.series
    .toReversed()
    .map(each => (hidden.has(each.id) ? { ...each, values: each.values.map(() => 0n) } : each))
  const sums = stacked(series, data.times.length)
  const edge = series.length > 1 ? 1 : 0
  const top = gridOf(Math.max(0, ...(sums[0] ?? []).map(value => height(value, metric))), metric).at(-1)!
  // Edges are drawn on whole pixels, so an edge covers up to its width at both ends.
  const least = (top * (MIN_BAR + 2 * edge)) / (HEIGHT - ABOVE - AXIS)
  const heights = sums.map(values =>
    // Zero has no bar: a bar without height would still have its edge drawn.
    values.map(value => (value === 0n ? null : Math.max(least, height(value, metric)))),
  )
  const seconds = data.times.map(at => at / 1000)
  const half = (step === 'hour' ? 3600 : 86_400) / 2
  // Only a standard property resolves to the theme's colour: a custom one holds both colours of `light-dark()`.
  const ink = (name: string) => () => {
    box.style.color = `var(${name})`
    const { color } = getComputedStyle(box)
    box.style.color = ''
    return color
  }
  const band = document.createElement('div')
  band.className = 'chart-band'
  // Many bars have no gaps between them.
  const bars = uPlot.paths.bars!({ size: [data.times.length > 45 ? 0.94 : 0.72, 40], radius: [0.12, 0] })
  const options: uPlot.Options = {
    width: box.clientWidth,
    height: HEIGHT,
    padding: [ABOVE, 20, 0, 0],
    legend: { show: false },
    cursor: { x: false, y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: {
      x: { time: true, range: () => [(seconds[0] ?? 0) - half, (seconds.at(-1) ?? 1) + half] },
      y: { range: () => [0, top] },
    },
    axes: [timeAxis(data.times, step, ink), valueAxis(metric, ink)],
    series: [
      {},
      ...series.map(({ id }) => ({
        paths: bars,
        points: { show: false },
        fill: ink(`--series-${colours.get(id) ?? 'other'}`),
        // An edge in the background's colour separates neighbours without relying on colour.
        stroke: ink('--surface'),
        width: edge,
      })),
    ],
    hooks: {
      ready: [plot => plot.under.append(band)],
      draw: [plot => drawBase(plot, ink('--line-strong')())],
      setCursor: [plot => onHover(hoverOf(plot, band, seconds, half))],
    },
  }
  return new uPlot(options, [seconds, ...heights], box)
}

/** Finds the span under the pointer, and marks it. */
function hoverOf(plot: uPlot, band: HTMLElement, seconds: readonly number[], half: number): Hover | null {
  const { idx, left } = plot.cursor
  const at = idx == null ? undefined : seconds[idx]
  const away = at === undefined || left === undefined || left < 0
  band.classList.toggle('chart-band-shown', !away)
  if (away) return null
  const [start, end] = [plot.valToPos(at - half, 'x'), plot.valToPos(at + half, 'x')]
  band.style.left = `${start}px`
  band.style.width = `${end - start}px`
  return { index: idx!, x: plot.over.offsetLeft + (start + end) / 2 }
}

/** Draws the zero line over the edges of the bars. */
function drawBase({ ctx, bbox }: uPlot, colour: string): void {
  ctx.fillStyle = colour
  ctx.fillRect(bbox.left, bbox.top + bbox.height, bbox.width, Math.max(1, Math.round(devicePixelRatio)))
}

type Ink = (name: string) => () => string

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif'

function timeAxis(times: readonly number[], step: Step, ink: Ink): uPlot.Axis {
  const labels = (plot: uPlot) => tickLabels(times, step, Math.max(1, Math.floor(plot.over.clientWidth / 60)))
  return {
    stroke: ink('--text-muted'),
    font: FONT,
    size: AXIS,
    gap: 6,
    grid: { show: false },
    ticks: { show: false },
    splits: plot => labels(plot).map(({ at }) => at / 1000),
    values: plot => labels(plot).map(({ label }) => label),
  }
}

function valueAxis(metric: Metric, ink: Ink): uPlot.Axis {
  return {
    stroke: ink('--text-muted'),
    font: FONT,
    gap: 8,
    grid: { stroke: ink('--line'), width: 1 },
    ticks: { show: false },
    splits: (_, __, ___, top) => gridOf(top, metric),
    size: (_, values) => 20 + 7 * Math.max(2, ...(values ?? []).map(text => text.length)),
    values: (_, splits) => splits.map(value => axisFigure(value, (splits[1] ?? 1) - (splits[0] ?? 0), metric)),
  }
}

/** A figure on the axis, with as many decimals as its steps need. */
function axisFigure(value: number, increment: number, metric: Metric): string {
  if (metric !== 'charged') return figure(BigInt(Math.round(value)), metric)
  if (value === 0) return '$0'
  let decimals = 0
  while (decimals < 9 && Math.abs(Math.round(increment * 10 ** decimals) - increment * 10 ** decimals) > 1e-6)
    decimals++
  return `$${value.toFixed(decimals === 1 ? 2 : decimals)}`
}

function nameOf(id: string, metric: Metric, names: Readonly<Record<string, string>>): string {
  if (id === '') return METRIC_NAMES[metric]
  if (id === OTHER) return 'All others'
  return Object.hasOwn(names, id) ? names[id]! : id
}

/** The description for screen readers. */
function summary({ data, metric, step }: View): string {
  const sum = data.totals.reduce((before, value) => before + value, 0n)
  if (sum === 0n) return `${METRIC_NAMES[metric]} by ${step}: no usage in this period.`
  const most = data.totals.reduce((best, value, index) => (value > data.totals[best]! ? index : best), 0)
  const peak = `the most was ${figure(data.totals[most]!, metric)}, ${spanName(data.times[most]!, step)}`
  return `${METRIC_NAMES[metric]} by ${step}: ${figure(sum, metric)} in all; ${peak}.`
}

function without(before: ReadonlySet<string>, id: string): ReadonlySet<string> {
  const after = new Set(before)
  if (!after.delete(id)) after.add(id)
  return after
}
