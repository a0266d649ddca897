/** The models that one may use, with what they cost. */
import type { VNode } from 'preact'
import { useMemo } from 'preact/hooks'
import type { ModelView, PageView } from '../../api/views.ts'
import { search } from '../lib/api.ts'
import { count, limit, nano, plural } from '../lib/format.ts'
import { setQuery, usePlace } from '../lib/router.tsx'
import { useResource } from '../lib/use-resource.ts'
import {
  Badge,
  Button,
  ButtonLink,
  Card,
  Copy,
  Empty,
  Loaded,
  Money,
  type MoneyCells,
  Page,
  Table,
  TextField,
} from '../ui/index.ts'
import '../styles/reports.css'

export default function ModelsPage(): VNode {
  const models = useResource<PageView<ModelView>>('models')
  const { query } = usePlace()
  const wanted = query.get('search') ?? ''
  return (
    <Page
      title="Models"
      lead={
        <>
          What you can name in <code class="code">model</code>. Prices are for a million tokens.
        </>
      }
    >
      <Loaded resource={models} title="Failed to load the models" lines={8}>
        {({ items }) => (items.length === 0 ? <NoModels /> : <ModelList models={items} wanted={wanted} />)}
      </Loaded>
    </Page>
  )
}

function ModelList({ models, wanted }: { readonly models: readonly ModelView[]; readonly wanted: string }): VNode {
  const found = useMemo(() => models.filter(model => fits(model, wanted)), [models, wanted])
  return (
    <>
      <search class="row models-search" aria-label="Models">
        <TextField
          label="Search"
          type="search"
          value={wanted}
          onValue={text => setQuery({ search: text })}
          placeholder="Name, alias or description"
        />
        <p class="small muted" aria-live="polite">
          {found.length === models.length
            ? plural(models.length, 'model')
            : `${count(found.length)} of ${plural(models.length, 'model')}`}
        </p>
      </search>
      <Card flush>
        <Table
          caption="Models and their prices in dollars for a million tokens"
          columns={COLUMNS}
          rows={found}
          empty={
            <Empty
              icon="search"
              title="No models found"
              action={<Button onClick={() => setQuery({ search: null })}>Show all</Button>}
            />
          }
        />
      </Card>
    </>
  )
}

const COLUMNS = [
  { title: 'Model', cell: (model: ModelView) => <ModelName {...model} /> },
  { title: 'Input', money: pricePart('input') },
  { title: 'Cached', money: pricePart('cached_input') },
  { title: 'Cache write', money: pricePart('cache_write') },
  { title: 'Output', money: pricePart('output') },
  { title: 'Context', number: true, cell: ({ context }: ModelView) => <TokenCount tokens={context} /> },
  { title: 'Max output tokens', number: true, cell: ({ max_output }: ModelView) => <TokenCount tokens={max_output} /> },
  {
    title: 'Actions',
    actions: true,
    cell: ({ id }: ModelView) => (
      <ButtonLink small href={`/playground${search({ model: id })}`} icon="playground">
        Try it<span class="hidden">: {id}</span>
      </ButtonLink>
    ),
  },
]

function ModelName({ id, description, aliases, owned_by, reasoning, price }: ModelView): VNode {
  const request = price !== null && nano(price.request) > 0n ? price.request : null
  const webSearch = price !== null && nano(price.web_search) > 0n ? price.web_search : null
  return (
    <div class="stack-tight models-name">
      <span class="row">
        <span class="mono strong">{id}</span>
        <Copy text={id} label={`Copy ${id}`} iconOnly variant="quiet" />
        {reasoning && <Badge tone="info">Reasoning</Badge>}
        {price === null && <Badge tone="good">Free</Badge>}
      </span>
      {description && <span class="small muted">{description}</span>}
      <span class="small muted">
        by {owned_by}
        {aliases.length > 0 && <>, also called {aliases.join(', ')}</>}
        {request !== null && (
          <>
            , <Money value={request} exact /> for each request on top
          </>
        )}
        {webSearch !== null && (
          <>
            , <Money value={webSearch} exact /> for each search of the web
          </>
        )}
      </span>
    </div>
  )
}

function pricePart(part: 'input' | 'cached_input' | 'cache_write' | 'output'): MoneyCells<ModelView> {
  return { of: ({ price }) => price?.[part] ?? null, none: 'free', exact: true }
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

function fits({ id, aliases, description, owned_by }: ModelView, wanted: string): boolean {
  const text = [id, ...aliases, description ?? '', owned_by].join('\n').toLowerCase()
  return wanted
    .toLowerCase()
    .split(/\s+/)
    .every(word => text.includes(word))
}
