/** One receipt: the hold, the charge as a sum, the steps and the attempts. */

import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import type { FoundReceiptView, KeyView, PageView, ReceiptView } from '../../api/views.ts'
import { count, duration } from '../lib/format.ts'
import type { PageProps } from '../lib/paths.ts'
import { navigate } from '../lib/router.tsx'
import { useSession } from '../lib/session.tsx'
import { aligned, type Sum, sumOf } from '../lib/sum.ts'
import { explain, outcomeOf, reasonOf, sourceOf, type Tone } from '../lib/trail.ts'
import { keyNames } from '../lib/usage.ts'
import { type Resource, useResource } from '../lib/use-resource.ts'
import {
  Badge,
  ButtonLink,
  Card,
  Copy,
  Details,
  Empty,
  ErrorBox,
  Icon,
  type IconName,
  Loading,
  Money,
  Page,
  ScrollArea,
  Stat,
  Stats,
  Time,
} from '../ui/index.ts'
import '../styles/reports.css'
import { OutcomeBadge } from './receipt-list.tsx'

export default function ReceiptPage({ params }: PageProps): VNode {
  const id = params['id']!
  const receipt = useResource<ReceiptView>(`receipts/${encodeURIComponent(id)}`)
  const keys = useResource<PageView<KeyView>>('keys')
  const { data } = receipt
  return (
    <Page
      title={data ? `Receipt for ${data.model}` : 'Receipt'}
      back={{ href: '/receipts', label: 'Receipts' }}
      lead={
        <span class="row">
          <span class="mono">{id}</span>
          <Copy text={id} label="Copy the id" iconOnly variant="quiet" />
        </span>
      }
    >
      {data ? (
        <ReceiptDetails receipt={data} names={keyNames(keys.data?.items ?? [])} />
      ) : (
        <Missing id={id} receipt={receipt} />
      )}
    </Page>
  )
}

interface MissingProps {
  readonly id: string
  readonly receipt: Resource<ReceiptView>
}

function Missing({ id, receipt: { error, reload } }: MissingProps): VNode {
  const isOperator = useSession().session.person.role === 'operator'
  if (!error) return <Loading lines={8} />
  if (error.code !== 'not_found') return <ErrorBox error={error} retry={reload} title="Failed to load the receipt" />
  return isOperator ? <OfOthers id={id} /> : <NoReceipt />
}

/** Sends operators to the receipt in its account. */
function OfOthers({ id }: { readonly id: string }): VNode {
  const { data, error, reload } = useResource<FoundReceiptView>(`operator/receipts/${encodeURIComponent(id)}`)
  useEffect(() => {
    if (data) navigate(`/operator/accounts/${data.account.id}?receipt=${data.receipt.id}`, { replace: true })
  }, [data])
  if (!error) return <Loading lines={8} />
  if (error.code !== 'not_found') return <ErrorBox error={error} retry={reload} title="Failed to load the receipt" />
  return <NoReceipt />
}

function NoReceipt(): VNode {
  return (
    <Card>
      <Empty
        icon="receipt"
        title="No receipt has this id"
        action={
          <ButtonLink variant="primary" href="/receipts">
            All receipts
          </ButtonLink>
        }
      >
        Requests rejected before a hold have no receipt. The id is in the header <code>x-request-id</code> of the
        answer.
      </Empty>
    </Card>
  )
}

interface DetailsProps {
  readonly receipt: ReceiptView
  /** The names of keys, by id. */
  readonly names: Readonly<Record<string, string>>
}

/** A receipt; operators see those of other accounts in the same way. */
export function ReceiptDetails({ receipt, names }: DetailsProps): VNode {
  return (
    <>
      <Figures receipt={receipt} />
      <SumCard receipt={receipt} sum={sumOf(receipt)} />
      <div class="grid-halves">
        <Card title="What happened" hint="The steps of the policy, in their order.">
          <Trail receipt={receipt} />
        </Card>
        <div class="stack">
          <Card title="Attempts" hint="Requests to model providers.">
            <Attempts attempts={receipt.attempts} />
          </Card>
          <Card title="Details">
            <Facts receipt={receipt} names={names} />
          </Card>
        </div>
      </div>
    </>
  )
}

function Figures({ receipt }: { readonly receipt: ReceiptView }): VNode {
  const { charged, held, outcome, created_at, settled_at } = receipt
  const took = settled_at === null ? null : Date.parse(settled_at) - Date.parse(created_at)
  return (
    <Stats>
      <Stat label="Charged" value={charged === null ? '–' : <Money value={charged} exact />} />
      <Stat label="Held" value={<Money value={held} exact />} hint="maximum charge" />
      <Stat label="Outcome" value={<OutcomeBadge outcome={outcome} />} hint={endingOf(receipt)} />
      <Stat label="Took" value={took === null ? '–' : duration(took)} hint={<Time value={created_at} exact />} />
    </Stats>
  )
}

function endingOf({ outcome, code }: ReceiptView): string | undefined {
  if (code !== null) return reasonOf(code)
  return outcome === 'answered' ? undefined : outcomeOf(outcome).sentence
}

/** The charge as a sum that a person can check. */
function SumCard({ receipt, sum }: { readonly receipt: ReceiptView; readonly sum: Sum | null }): VNode {
  return (
    <Card title="The charge" hint={sourceOf(receipt.source)}>
      {sum === null || receipt.charged === null ? (
        <p class="muted">It appears when the request is complete.</p>
      ) : sum.lines.length === 0 ? (
        <p>
          Nothing was used, so nothing was charged. The whole hold of <Money value={receipt.held} exact /> is released.
        </p>
      ) : (
        <ScrollArea label="The charge as a sum">
          <SumTable charged={receipt.charged} sum={sum} />
        </ScrollArea>
      )}
      {receipt.reasoning_tokens > 0 && (
        <p class="small muted receipt-remark">
          {count(receipt.reasoning_tokens)} of the {count(receipt.completion_tokens)} tokens of the answer were
          reasoning.
        </p>
      )}
    </Card>
  )
}

interface SumProps {
  readonly charged: string
  readonly sum: Sum
}

function SumTable({ charged, sum: { lines, rest } }: SumProps): VNode {
  const written = aligned([...lines, ...rest].map(({ amount }) => amount).concat(charged))
  return (
    <table class="receipt-sum">
      <caption class="hidden">The charge as a sum of its parts</caption>
      <thead>
        <tr>
          <th scope="col">What</th>
          <th scope="col" class="number">
            Quantity
          </th>
          <th scope="col" class="number">
            Price
          </th>
          <th scope="col" class="number">
            Amount
          </th>
        </tr>
      </thead>
      <tbody>
        {lines.map(({ label, quantity, price, list }, index) => (
          <tr key={label}>
            <th scope="row">
              {label}
              {list !== null && <span class="cell-sub receipt-list">{list}</span>}
            </th>
            <td class="number">{quantity}</td>
            <td class="number">{price}</td>
            <td class="number">{written[index]}</td>
          </tr>
        ))}
        {rest.map(({ label, sign }, index) => (
          <SumRow key={label} label={label} amount={sign + written[lines.length + index]!} />
        ))}
      </tbody>
      <tfoot>
        <SumRow label="Charged" amount={written.at(-1)!} />
      </tfoot>
    </table>
  )
}

function SumRow({ label, amount }: { readonly label: string; readonly amount: string }): VNode {
  return (
    <tr>
      <th scope="row" colSpan={3}>
        {label}
      </th>
      <td class="number">{amount}</td>
    </tr>
  )
}

const ICONS: Readonly<Record<Tone, IconName>> = { good: 'check', bad: 'error', warning: 'warning', neutral: 'more' }

function Trail({ receipt: { trail, settled_at } }: { readonly receipt: ReceiptView }): VNode {
  if (trail.length === 0) {
    return (
      <p class="muted">{settled_at === null ? 'It appears when the request is complete.' : 'Nothing was recorded.'}</p>
    )
  }
  return (
    <ol class="timeline">
      {trail.map((line, index) => {
        const { sentence, more, tone } = explain(line)
        return (
          <li key={`${index} ${line.step}`} class={`timeline-item tone-${tone === 'warning' ? 'warn' : tone}`}>
            <span class="mark">
              <Icon name={ICONS[tone]} />
            </span>
            <div class="stack-tight">
              <p>{sentence}</p>
              {more !== null && <p class="small muted">{more}</p>}
            </div>
          </li>
        )
      })}
    </ol>
  )
}

function Attempts({ attempts }: Pick<ReceiptView, 'attempts'>): VNode {
  if (attempts.length === 0) return <p class="muted">No provider was called.</p>
  return (
    <ol class="timeline">
      {attempts.map(({ target, status, code, ms }, index) => {
        const good = code === null
        return (
          <li key={`${index} ${target}`} class={`timeline-item tone-${good ? 'good' : 'bad'}`}>
            <span class="mark">
              <Icon name={good ? 'check' : 'error'} />
            </span>
            <div class="stack-tight">
              <p>
                <span class="mono">{target}</span>{' '}
                {status !== null && <Badge tone={good ? 'good' : 'bad'}>HTTP {status}</Badge>}
              </p>
              <p class="small muted">
                {good ? `It began to answer after ${duration(ms)}.` : `After ${duration(ms)}: ${reasonOf(code)}.`}
              </p>
            </div>
          </li>
        )
      })}
    </ol>
  )
}

function Facts({ receipt, names }: DetailsProps): VNode {
  const { model, asked_model, key_id, created_at, settled_at, corrected_at, idempotency_key, code, tags } = receipt
  return (
    <Details
      items={[
        ['Model', <span class="mono">{model}</span>],
        asked_model !== null && ['Requested model', <span class="mono">{asked_model}</span>],
        ['Key', names[key_id] ?? <span class="mono">{key_id}</span>],
        ['Began', <Time value={created_at} exact />],
        ['Settled', <Time value={settled_at} none="not yet" exact />],
        corrected_at !== null && ['Corrected', <Time value={corrected_at} exact />],
        code !== null && ['Error', <span class="mono">{code}</span>],
        idempotency_key !== null && ['Idempotency key', <span class="mono">{idempotency_key}</span>],
        ...Object.entries(tags).map(([name, value]) => [`Tag ${name}`, <span class="mono">{value}</span>] as const),
      ]}
    />
  )
}
