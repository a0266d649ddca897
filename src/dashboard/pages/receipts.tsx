/** The account's receipts, the newest first, with filters. */
import type { VNode } from 'preact'
import { useEffect, useMemo } from 'preact/hooks'
import type { KeyView, ModelView, PageView, ReceiptView } from '../../api/views.ts'
import { requestIn } from '../lib/request.ts'
import { navigate, setQuery, usePlace } from '../lib/router.tsx'
import { OUTCOME_NAMES } from '../lib/trail.ts'
import { keyNames } from '../lib/usage.ts'
import { useMinWidth } from '../lib/use-min-width.ts'
import { usePages, useResource } from '../lib/use-resource.ts'
import { Button, ButtonLink, Empty, ErrorBox, Fold, Loading, Page, SearchField, SelectField } from '../ui/index.ts'
import { OUTCOME_OPTIONS, ReceiptList } from './receipt-list.tsx'
import '../styles/reports.css'

interface Filters {
  readonly key: string
  readonly model: string
  readonly outcome: string
  /** `team=search` */
  readonly tag: string
}

export default function ReceiptsPage(): VNode {
  const { query } = usePlace()
  const filters: Filters = {
    key: query.get('key') ?? '',
    model: query.get('model') ?? '',
    outcome: OUTCOME_NAMES.find(name => name === query.get('outcome')) ?? '',
    tag: query.get('tag') ?? '',
  }
  const typed = (query.get('search') ?? '').trim()
  const receipts = usePages<ReceiptView>(
    typed === '' ? 'receipts' : null,
    { ...filters, limit: 25 },
    { onReturn: true },
  )
  const keys = useResource<PageView<KeyView>>('keys')
  const models = useResource<PageView<ModelView>>('models')
  const names = useMemo(() => keyNames(keys.data?.items ?? []), [keys.data])
  const filtered = Object.values(filters).some(value => value !== '')
  const modelIds = (models.data?.items ?? []).map(({ id }) => id)
  return (
    <Page title="Receipts" lead="Each charged request has a receipt with its steps, attempts and charge.">
      <FilterBar filters={filters} names={names} models={modelIds} tags={tagsOf(receipts.data ?? [])} />
      <ReceiptList
        rows={receipts}
        names={names}
        hrefOf={hrefOf}
        empty={<NoReceipts filtered={filtered} more={!receipts.single} />}
        instead={typed !== '' && <Request typed={typed} />}
      />
    </Page>
  )
}

/** The tags of the receipts on this page, each once, as `NAME=VALUE`. */
function tagsOf(receipts: readonly ReceiptView[]): string[] {
  const all = receipts.flatMap(({ tags }) => Object.entries(tags).map(([name, value]) => `${name}=${value}`))
  return [...new Set(all)].sort()
}

function hrefOf({ id }: Pick<ReceiptView, 'id'>): string {
  return `/receipts/${encodeURIComponent(id)}`
}

/** Opens the receipt of a typed request id. */
function Request({ typed }: { readonly typed: string }): VNode {
  const id = requestIn(typed)
  const { data, error, reload } = useResource<ReceiptView>(id === null ? null : `receipts/${encodeURIComponent(id)}`)
  useEffect(() => {
    if (!data) return
    // Replaces the search in the history: going back to it would lead here again.
    setQuery({ search: null })
    navigate(hrefOf(data))
  }, [data])
  if (id !== null && !error) return <Loading lines={6} label="Looking for the request" />
  if (error && error.code !== 'not_found') return <ErrorBox error={error} retry={reload} title="The search failed" />
  return (
    <Empty
      icon="receipt"
      title={id === null ? 'This is not a request id' : 'No receipt with this id'}
      action={<Button onClick={() => setQuery({ search: null })}>Show all receipts</Button>}
    >
      {id === null
        ? 'Request ids start with req_. Each response has one in its x-request-id header.'
        : 'Check the id. Requests rejected before a hold have no receipt.'}
    </Empty>
  )
}

interface FilterProps {
  readonly filters: Filters
  readonly names: Readonly<Record<string, string>>
  readonly models: readonly string[]
  readonly tags: readonly string[]
}

/** The filters, folded on a phone. */
function FilterBar(props: FilterProps): VNode {
  const isWide = useMinWidth(720)
  const chosen = Object.values(props.filters).filter(value => value !== '').length
  return (
    <search class="filters" aria-label="Receipts">
      <SearchField placeholder="Request id" />
      {isWide ? (
        <Filters {...props} />
      ) : (
        <Fold title={chosen === 0 ? 'Filters' : `Filters (${chosen})`}>{<Filters {...props} />}</Fold>
      )}
    </search>
  )
}

function Filters({ filters, names, models, tags }: FilterProps): VNode {
  return (
    <>
      <SelectField
        label="Key"
        value={filters.key}
        onValue={key => setQuery({ key })}
        options={[{ value: '', label: 'All keys' }, ...withChosen(Object.entries(names), filters.key)]}
      />
      <SelectField
        label="Model"
        value={filters.model}
        onValue={model => setQuery({ model })}
        options={[
          { value: '', label: 'All models' },
          ...withChosen(
            models.map(id => [id, id]),
            filters.model,
          ),
        ]}
      />
      <SelectField
        label="Outcome"
        value={filters.outcome}
        onValue={outcome => setQuery({ outcome })}
        options={OUTCOME_OPTIONS}
      />
      {(tags.length > 0 || filters.tag !== '') && (
        <SelectField
          label="Tag"
          value={filters.tag}
          onValue={tag => setQuery({ tag })}
          options={[
            { value: '', label: 'All tags' },
            ...withChosen(
              tags.map(tag => [tag, tag]),
              filters.tag,
            ),
          ]}
        />
      )}
    </>
  )
}

/** The options, always with the chosen one, even if the list is not loaded or no longer has it. */
function withChosen(
  known: readonly (readonly [value: string, label: string])[],
  chosen: string,
): { value: string; label: string }[] {
  const options = known.map(([value, label]) => ({ value, label }))
  if (chosen !== '' && !known.some(([value]) => value === chosen)) options.push({ value: chosen, label: chosen })
  return options
}

function NoReceipts({ filtered, more }: { readonly filtered: boolean; readonly more: boolean }): VNode {
  // For each page, the gateway searches a limited number of receipts, so a page can be empty.
  if (more) {
    return (
      <Empty icon="search" title="None on this page">
        No requests on this page match the filters. Other pages may have some.
      </Empty>
    )
  }
  if (filtered) {
    return (
      <Empty
        icon="search"
        title="No receipts found"
        action={
          <Button onClick={() => setQuery({ key: null, model: null, outcome: null, tag: null })}>Show all</Button>
        }
      >
        Remove a filter to see more.
      </Empty>
    )
  }
  return (
    <Empty
      icon="receipt"
      title="No receipts yet"
      action={
        <>
          <ButtonLink variant="primary" href="/playground" icon="playground">
            Try a model
          </ButtonLink>
          <ButtonLink href="/keys">Create a key</ButtonLink>
        </>
      }
    >
      Each charged request has a receipt. Send your first request.
    </Empty>
  )
}
