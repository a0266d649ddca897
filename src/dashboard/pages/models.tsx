/** The models of the account, with their prices; operators see all models, and their margins. */
import type { VNode } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import type { ModelView, OperatorModelView, PageView } from '../../api/views.ts'
import { count, limit, nano, plural } from '../lib/format.ts'
import { filterModels, groupsOf, type ModelRow, OTHERS, rowsOf, SORTS } from '../lib/model-list.ts'
import { marginText, rulesOf } from '../lib/price-lines.ts'
import { setQuery, usePlace } from '../lib/router.tsx'
import { useSession } from '../lib/session.tsx'
import { useResource } from '../lib/use-resource.ts'
import {
  Badge,
  Button,
  Card,
  type Column,
  Copy,
  Empty,
  List,
  Loaded,
  Money,
  type MoneyCells,
  Page,
  Pager,
  SelectField,
  TextField,
} from '../ui/index.ts'
import '../styles/reports.css'
import { ModelDialog } from './model-dialog.tsx'

/** More rows take too long to draw: a wildcard can have 700 models. */
const ON_A_PAGE = 50

export default function ModelsPage(): VNode {
  const isOperator = useSession().session.person.role === 'operator'
  const models = useResource<PageView<ModelView | OperatorModelView>>(isOperator ? 'operator/models' : 'models')
  return (
    <Page
      title="Models"
      lead={
        <>
          The ids for the parameter <code class="code">model</code>. Prices are in dollars for a million tokens.
        </>
      }
    >
      <Loaded resource={models} title="Failed to load the models" lines={8}>
        {({ items }) => (items.length === 0 ? <NoModels /> : <ModelList items={items} isOperator={isOperator} />)}
      </Loaded>
    </Page>
  )
}

interface ModelListProps {
  readonly items: readonly (ModelView | OperatorModelView)[]
  readonly isOperator: boolean
}

function ModelList({ items, isOperator }: ModelListProps): VNode {
  const { query } = usePlace()
  const [wanted, group, sort, shown] = ['search', 'group', 'sort', 'model'].map(name => query.get(name) ?? '') as [
    string,
    string,
    string,
    string,
  ]
  const rows = useMemo(() => rowsOf(items), [items])
  const groups = useMemo(() => groupsOf(rows), [rows])
  const found = useMemo(() => filterModels(rows, { search: wanted, group, sort }), [rows, wanted, group, sort])
  const [pages, shownRows] = usePagesOf(found)
  const byId = (id: string): ModelRow | undefined =>
    rows.find(({ model }) => model.id === id || model.aliases.includes(id))
  const chosen = byId(shown)
  const sorts = Object.entries(SORTS).filter(([name]) => isOperator || name !== 'margin')
  return (
    <List
      caption="Models and their prices in dollars for a million tokens"
      columns={isOperator ? [...COLUMNS, MARGIN] : COLUMNS}
      rows={shownRows}
      rowActions={({ id }) => (
        <Button small onClick={() => setQuery({ model: id })}>
          Details<span class="hidden"> of {id}</span>
        </Button>
      )}
      filters={
        <search class="filters models-filters" aria-label="Models">
          <TextField
            label="Search"
            type="search"
            value={wanted}
            onValue={text => setQuery({ search: text })}
            placeholder="Name, alias or description"
          />
          {groups.length > 0 && (
            <SelectField
              label="Group"
              value={group}
              onValue={value => setQuery({ group: value })}
              options={[
                { value: '', label: 'All models' },
                ...groups.map(([value, models]) => ({
                  value,
                  label: `${value === OTHERS ? 'Others' : value} (${count(models)})`,
                })),
              ]}
            />
          )}
          <SelectField
            label="Sort by"
            value={sort}
            onValue={value => setQuery({ sort: value })}
            options={[{ value: '', label: 'As listed' }, ...sorts.map(([value, { label }]) => ({ value, label }))]}
          />
          <p class="small muted models-count" aria-live="polite">
            {found.length === rows.length
              ? plural(rows.length, 'model')
              : `${count(found.length)} of ${plural(rows.length, 'model')}`}
          </p>
        </search>
      }
      empty={
        <Empty
          icon="search"
          title="No models found"
          action={<Button onClick={() => setQuery({ search: null, group: null })}>Show all</Button>}
        />
      }
    >
      <Pager pages={pages} byName />
      {chosen && (
        <ModelDialog
          key={chosen.id}
          row={chosen}
          has={id => byId(id) !== undefined}
          onClose={() => setQuery({ model: null })}
        />
      )}
    </List>
  )
}

/** Pages of a loaded list; another list begins at its first page. */
function usePagesOf<Row>(rows: readonly Row[]) {
  const [place, setPlace] = useState({ rows, page: 1 })
  const page = place.rows === rows ? place.page : 1
  const to = (next: number, isThere: boolean) => (isThere ? () => setPlace({ rows, page: next }) : null)
  const pages = {
    page,
    single: rows.length <= ON_A_PAGE,
    previous: to(page - 1, page > 1),
    next: to(page + 1, page * ON_A_PAGE < rows.length),
  }
  return [pages, rows.slice((page - 1) * ON_A_PAGE, page * ON_A_PAGE)] as const
}

const COLUMNS: readonly Column<ModelRow>[] = [
  { title: 'Model', cell: row => <ModelName {...row} /> },
  { title: 'Input', money: pricePart('input') },
  { title: 'Cached input', money: pricePart('cached_input') },
  { title: 'Output', money: pricePart('output') },
  {
    title: 'Context',
    number: true,
    cell: ({ model }) => <TokenCount tokens={model.context} />,
    below: ({ model }) => (
      <>
        output <TokenCount tokens={model.max_output} />
      </>
    ),
  },
]

const MARGIN: Column<ModelRow> = {
  title: 'Margin',
  number: true,
  cell: ({ costs }) => (
    <span class="stack-tight">
      {costs !== null &&
        marginText(costs)
          .split(', ')
          .map(text => <span key={text}>{text}</span>)}
    </span>
  ),
}

function ModelName({ model, costs }: ModelRow): VNode {
  const { id, description, aliases, owned_by, reasoning, price, deprecation } = model
  const request = price !== null && nano(price.request) > 0n ? price.request : null
  const steps = rulesOf(price).flatMap(({ above }) => above ?? [])
  return (
    <div class="stack-tight models-name">
      <span class="row">
        <span class="mono strong">{id}</span>
        <Copy text={id} label={`Copy ${id}`} iconOnly variant="quiet" />
        {reasoning && <Badge tone="info">Reasoning</Badge>}
        {price === null && <Badge tone="good">Free</Badge>}
        {deprecation && (
          <Badge tone="warn">{deprecation.date === null ? 'Ends soon' : `Ends ${deprecation.date}`}</Badge>
        )}
        {costs !== null && costs.below_cost.length > 0 && <Badge tone="bad">Below cost</Badge>}
        {costs !== null && !costs.enabled && <Badge>Off</Badge>}
        {costs !== null && !costs.public && <Badge>Not public</Badge>}
      </span>
      {description && <span class="small muted">{description}</span>}
      <span class="small muted">
        by {owned_by}
        {aliases.length > 0 && <>, also called {aliases.join(', ')}</>}
        {request !== null && (
          <>
            , plus <Money value={request} exact /> for each request
          </>
        )}
        {steps.length > 0 && <>, other prices for prompts above {limit(Math.min(...steps))}</>}
      </span>
    </div>
  )
}

function pricePart(part: 'input' | 'cached_input' | 'output'): MoneyCells<ModelRow> {
  return { of: ({ model }) => model.price?.[part] ?? null, none: 'free', exact: true }
}

function TokenCount({ tokens }: { readonly tokens: number }): VNode {
  return <span title={`${count(tokens)} tokens`}>{limit(tokens)}</span>
}

function NoModels(): VNode {
  return (
    <Card>
      <Empty icon="models" title="No models yet">
        An operator of this gateway adds models to its configuration.
      </Empty>
    </Card>
  )
}
