/** The innermost middleware of the catalog's routes: models and receipts, answered by the gateway itself. */
import { formatMoney, mayUse, refuse } from '#contract'
import {
  anthropicModel,
  anthropicModels,
  listedModels,
  modelEntry,
  modelList,
  receiptEntry,
} from '../answer/entries.ts'
import type { ExchangeSummary } from '../observe/summary.ts'
import { isForAnthropic } from './refusal.ts'
import { endStopped, type SenderParts, type Trip } from './trip.ts'

const JSON_HEADERS = { 'content-type': 'application/json', 'cache-control': 'no-store' }

/** `GET /v1/models`; for Anthropic's clients the fields of their API stand beside the others. */
export function sendModels(trip: Trip): void {
  const models = listedModels(trip.generation.catalog, trip.exchange.key)
  answer(trip, isForAnthropic(trip.ctx.req, 'models') ? anthropicModels(models) : modelList(models))
}

/** `GET /v1/models/{id}`; ids may contain slashes, encoded or not. */
export function sendModel(trip: Trip, id: string): void {
  const model = trip.generation.catalog.find(id)
  if (!model || !mayUse(model, trip.exchange.key)) {
    throw refuse('model_not_found', { param: 'model' })
  }
  answer(trip, isForAnthropic(trip.ctx.req, 'model') ? anthropicModel(model) : modelEntry(model))
}

/** Finds one of the last exchanges that are over. */
export type FindRecent = (id: string) => ExchangeSummary | undefined

/**
 * `GET /v1/receipts/{id}`: of the key's own account, by the `x-request-id` of the exchange. Of one that never held money
 * there is no receipt; while it is remembered, what a client may know of it is told in its place.
 */
export function sendReceipt(
  trip: Trip,
  { store, findRecent }: Pick<SenderParts, 'store'> & { readonly findRecent?: FindRecent },
  id: string,
): void {
  const { account } = trip.exchange
  const receipt = store.findReceipt(id)
  const found = receipt ?? findRecent?.(id)
  if (!found || !account || found.accountId !== account.id) throw refuse('receipt_not_found')
  answer(trip, receipt ? receiptEntry(receipt) : exchangeEntry(found as ExchangeSummary))
}

/**
 * An exchange without a receipt, for the owner of its key: the fields of a receipt as far as there are any, and why it
 * ended so. Notes are left out: they are what steps say to the operator.
 */
function exchangeEntry(exchange: ExchangeSummary): object {
  return {
    id: exchange.id,
    object: 'exchange',
    model: exchange.model,
    created: Math.floor(exchange.at / 1000),
    outcome: exchange.outcome,
    status: exchange.status,
    code: exchange.code,
    decided_by: exchange.decidedBy,
    held: formatMoney(0n),
    charged: formatMoney(0n),
    attempts: exchange.attempts,
    trail: exchange.trail.map(({ step, verdict, code }) => ({
      step,
      verdict,
      ...(code === undefined ? {} : { code }),
    })),
    key: exchange.keyId,
  }
}

function answer(trip: Trip, body: object): void {
  if (trip.exchange.aborted) {
    endStopped(trip)
    return
  }
  const json = JSON.stringify(body)
  trip.exchange.outcome = 'answered'
  const finish = () => trip.client.sendWhole(200, JSON_HEADERS, json)
  trip.finish = finish
}
