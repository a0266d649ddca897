/** Usage and its cost over time, by model and by key. */
import type { VNode } from 'preact'
import { useMemo } from 'preact/hooks'
import type { KeyView, PageView, UsageView } from '../../api/views.ts'
import { search } from '../lib/api.ts'
import { compact, count, dollars, percent } from '../lib/format.ts'
import { setQuery, usePlace } from '../lib/router.tsx'
import {
  type By,
  customRange,
  keyNames,
  METRIC_NAMES,
  type Metric,
  RANGES,
  type RangeName,
  rangeOf,
  type Step,
  sumsBy,
  type UsageSum,
} from '../lib/usage.ts'
import { type Resource, useResource } from '../lib/use-resource.ts'
import {
  Bar,
  Button,
  ButtonLink,
  Card,
  Empty,
  Loaded,
  Money,
  Page,
  Segments,
  Stat,
  Stats,
  Table,
  TextField,
} from '../ui/index.ts'
import { LazyChart } from '../ui/lazy-chart.tsx'
import '../styles/reports.css'

/** The shown view. It is in the address, so that a bookmark or a link keeps it. */
interface Choice {
  readonly range: RangeName | 'custom'
  readonly metric: Metric
  readonly by: By
  readonly first: string
  readonly last: string
}

interface Range {
  readonly from: string
  readonly to: string
  readonly step: Step
}

export default function UsagePage(): VNode {
  const { query } = usePlace()
  const choice = choiceOf(query)
  const { range, problem } = useRange(choice)
  // Loads both sums at once, so that switching the division needs no request.
  const byModel = useResource<UsageView>(range && 'usage', { ...range, by: 'model' })
  const byKey = useResource<UsageView>(range && 'usage', { ...range, by: 'key' })
  const keys = useResource<PageView<KeyView>>('keys')
  const names = useMemo(() => keyNames(keys.data?.items ?? []), [keys.data])
  return (
    <Page
      title="Usage"
      lead="Requests, tokens and cost."
      actions={
        range && (
          <ButtonLink icon="download" href={`/api/usage.csv${search({ ...range, by: 'both' })}`} download>
            Download CSV
          </ButtonLink>
        )
      }
    >
      <RangeBar choice={choice} problem={problem} />
      {range && (
        <Loaded resource={byModel} title="Failed to load the usage" lines={8}>
          {view =>
            view.total.requests === 0 ? (
              <Nothing choice={choice} />
            ) : (
              <Shown choice={choice} byModel={view} byKey={byKey} names={names} />
            )
          }
        </Loaded>
      )}
    </Page>
  )
}

interface ShownProps {
  readonly choice: Choice
  readonly byModel: UsageView
  readonly byKey: Resource<UsageView>
  readonly names: Readonly<Record<string, string>>
}

function Shown({ choice, byModel, byKey, names }: ShownProps): VNode {
  // The last loaded rows with their own range: the next ones may still be loading.
  const { rows, step, from, to } = choice.by === 'key' ? (byKey.data ?? { ...byModel, rows: [] }) : byModel
  return (
    <>
      <Totals total={byModel.total} />
      <Card
        title={`${METRIC_NAMES[choice.metric]} by ${step}`}
        hint={step === 'day' ? 'Days are in UTC.' : undefined}
        actions={<ChartChoice choice={choice} />}
      >
        <LazyChart rows={rows} step={step} from={from} to={to} metric={choice.metric} by={choice.by} names={names} />
      </Card>
      <SumTable title="By model" what="Model" sums={sumsBy(byModel.rows, 'model')} nameOf={id => id} filter="model" />
      <Loaded resource={byKey} title="Failed to load the usage by key">
        {({ rows: ofKeys }) => (
          <SumTable
            title="By key"
            what="Key"
            sums={sumsBy(ofKeys, 'key')}
            nameOf={id => names[id] ?? id}
            filter="key"
          />
        )}
      </Loaded>
    </>
  )
}

function Totals({ total }: { readonly total: UsageView['total'] }): VNode {
  const cached = total.prompt_tokens > 0 ? percent(BigInt(total.cached_tokens), BigInt(total.prompt_tokens)) : 0
  return (
    <Stats>
      <Stat label="Spent" value={<Money value={total.charged} />} />
      <Stat
        label="Requests"
        value={count(total.requests)}
        hint={total.failed === 0 ? 'all answered in full' : `${count(total.failed)} without a full answer`}
      />
      <Stat
        label="Prompt tokens"
        value={<span title={count(total.prompt_tokens)}>{compact(total.prompt_tokens)}</span>}
        hint={cached > 0 ? `${cached.toFixed(0)}% from caches` : undefined}
      />
      <Stat
        label="Answer tokens"
        value={<span title={count(total.completion_tokens)}>{compact(total.completion_tokens)}</span>}
        hint={total.reasoning_tokens > 0 ? `${compact(total.reasoning_tokens)} for reasoning` : undefined}
      />
    </Stats>
  )
}

/** The range, with two dates for a custom one. */
function RangeBar({ choice, problem }: { readonly choice: Choice; readonly problem: string | null }): VNode {
  const options = [
    ...Object.entries(RANGES).map(([value, { label }]) => ({ value, label })),
    { value: 'custom', label: 'Custom' },
  ]
  return (
    <div class="stack">
      <div class="row">
        <Segments label="Time" value={choice.range} onValue={value => setQuery(rangeQuery(value))} options={options} />
      </div>
      {choice.range === 'custom' && (
        <div class="filters">
          <TextField
            label="First day"
            type="date"
            value={choice.first}
            onValue={from => setQuery({ from })}
            error={problem ?? undefined}
          />
          <TextField label="Last day" type="date" value={choice.last} onValue={to => setQuery({ to })} />
        </div>
      )}
    </div>
  )
}

/** A custom range starts as the last week. */
function rangeQuery(range: string): Record<string, string | null> {
  if (range !== 'custom') return { range: range === DEFAULT.range ? null : range, from: null, to: null }
  const { from } = rangeOf('7d', Date.now())
  return { range, from: from.slice(0, 10), to: new Date().toISOString().slice(0, 10) }
}

function ChartChoice({ choice }: { readonly choice: Choice }): VNode {
  return (
    <>
      <Segments
        label="Show"
        value={choice.metric}
        onValue={metric => setQuery({ metric: metric === DEFAULT.metric ? null : metric })}
        options={METRICS.map(value => ({ value, label: METRIC_NAMES[value] }))}
      />
      <Segments
        label="Divide"
        value={choice.by}
        onValue={by => setQuery({ by: by === DEFAULT.by ? null : by })}
        options={[
          { value: 'model', label: 'By model' },
          { value: 'key', label: 'By key' },
          { value: 'none', label: 'Total' },
        ]}
      />
    </>
  )
}

interface SumTableProps {
  readonly title: string
  readonly what: string
  readonly sums: readonly UsageSum[]
  readonly nameOf: (id: string) => string
  /** The filter of the list of receipts. */
  readonly filter: 'model' | 'key'
}

function SumTable({ title, what, sums, nameOf, filter }: SumTableProps): VNode {
  const all = sums.reduce((sum, { charged }) => sum + charged, 0n)
  const columns = [
    {
      title: what,
      cell: ({ id }: UsageSum) => <a href={`/receipts${search({ [filter]: id })}`}>{nameOf(id)}</a>,
    },
    { title: 'Requests', number: true, cell: ({ requests }: UsageSum) => count(requests) },
    {
      title: 'Incomplete',
      number: true,
      cell: ({ failed }: UsageSum) => (failed === 0 ? <span class="faint">0</span> : count(failed)),
    },
    { title: 'Prompt', number: true, cell: ({ promptTokens }: UsageSum) => tokens(promptTokens) },
    { title: 'Answer', number: true, cell: ({ completionTokens }: UsageSum) => tokens(completionTokens) },
    { title: 'Spent', money: { of: ({ charged }: UsageSum) => dollars(charged) } },
    {
      title: 'Share',
      cell: ({ id, charged }: UsageSum) => <Share label={nameOf(id)} percent={percent(charged, all)} />,
    },
  ]
  return (
    <Card title={title} flush>
      <Table caption={`Usage ${title.toLowerCase()}`} columns={columns} rows={sums} />
    </Card>
  )
}

function Share({ label, percent: share }: { readonly label: string; readonly percent: number }): VNode {
  return (
    <span class="line usage-share">
      <Bar label={`${label}, share of the spend`} percent={share} />
      <span class="small muted" aria-hidden="true">
        {share > 0 && share < 1 ? '<1' : Math.round(share)}%
      </span>
    </span>
  )
}

function tokens(value: number): VNode {
  return <span title={count(value)}>{compact(value)}</span>
}

function Nothing({ choice }: { readonly choice: Choice }): VNode {
  const widest = choice.range === '90d' || choice.range === 'custom'
  return (
    <Card>
      <Empty
        icon="usage"
        title="No usage in this period"
        action={
          <>
            {!widest && <Button onClick={() => setQuery({ range: '90d' })}>Show 90 days</Button>}
            <ButtonLink variant="primary" href="/playground" icon="playground">
              Try a model
            </ButtonLink>
          </>
        }
      >
        Send a request with one of your keys, or try a model in the playground: usage appears here at once.
      </Empty>
    </Card>
  )
}

const METRICS: readonly Metric[] = ['charged', 'requests', 'tokens']
const DEFAULT = { range: '30d', metric: 'charged', by: 'model' } as const

/** The view in an address; invalid values become the default. */
function choiceOf(query: URLSearchParams): Choice {
  const range = query.get('range') ?? ''
  const metric = METRICS.find(each => each === query.get('metric'))
  const by = (['none', 'model', 'key'] as const).find(each => each === query.get('by'))
  return {
    range: Object.hasOwn(RANGES, range) || range === 'custom' ? (range as RangeName) : DEFAULT.range,
    metric: metric ?? DEFAULT.metric,
    by: by ?? DEFAULT.by,
    first: query.get('from') ?? '',
    last: query.get('to') ?? '',
  }
}

/** Keeps the range while the choice stays the same, because each new end of the range would cause requests. */
function useRange({ range, first, last }: Choice): { readonly range: Range | null; readonly problem: string | null } {
  return useMemo(() => {
    if (range !== 'custom') return { range: rangeOf(range, Date.now()), problem: null }
    const found = customRange(first, last)
    return 'problem' in found ? { range: null, problem: found.problem } : { range: found, problem: null }
  }, [range, first, last])
}
