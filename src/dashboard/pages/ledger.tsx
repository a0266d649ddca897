/** The account's ledger: credits and charges. */
import type { VNode } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import type { EntryView, KeyView, PageView } from '../../api/views.ts'
import { search } from '../lib/api.ts'
import { setQuery, usePlace } from '../lib/router.tsx'
import { keyNames, rangeOf } from '../lib/usage.ts'
import { usePages, useResource } from '../lib/use-resource.ts'
import { ButtonLink, Page, SelectField } from '../ui/index.ts'
import { ENTRY_KINDS, EntryList } from './entry-list.tsx'
import '../styles/reports.css'

export default function LedgerPage(): VNode {
  const { query } = usePlace()
  const kind = ENTRY_KINDS.find(({ value }) => value === query.get('kind'))?.value ?? ''
  const entries = usePages<EntryView>('entries', { kind, limit: 25 }, { onReturn: true })
  const keys = useResource<PageView<KeyView>>('keys')
  const names = useMemo(() => keyNames(keys.data?.items ?? []), [keys.data])
  const [{ from, to }] = useState(() => rangeOf('90d', Date.now()))
  return (
    <Page
      title="Ledger"
      lead="Credit of this account, and the charge of each request."
      actions={
        <ButtonLink icon="download" href={`/api/entries.csv${search({ from, to })}`} download>
          CSV of 90 days
        </ButtonLink>
      }
    >
      <search class="ledger-filter" aria-label="Entries">
        <SelectField label="Entries" value={kind} onValue={value => setQuery({ kind: value })} options={ENTRY_KINDS} />
      </search>
      <EntryList
        rows={entries}
        names={names}
        hrefOf={({ id }) => `/receipts/${encodeURIComponent(id)}`}
        action={
          kind !== 'credit' && (
            <ButtonLink href="/playground" icon="playground">
              Try a model
            </ButtonLink>
          )
        }
      />
    </Page>
  )
}
