/** The innermost middleware of the catalog's routes: models and receipts, answered by the gateway itself. */
import { mayUse, refuse } from '#contract'
import { listedModels, modelEntry, modelList, receiptEntry } from '../answer/entries.ts'
import { endStopped, type SenderParts, type Trip } from './trip.ts'

const JSON_HEADERS = { 'content-type': 'application/json', 'cache-control': 'no-store' }

/** `GET /v1/models` */
export function sendModels(trip: Trip): void {
  answer(trip, modelList(listedModels(trip.generation.catalog, trip.exchange.key)))
}

/** `GET /v1/models/{id}`; ids may contain slashes, encoded or not. */
export function sendModel(trip: Trip, id: string): void {
  const model = trip.generation.catalog.find(id)
  if (!model || !mayUse(model, trip.exchange.key)) {
    throw refuse('model_not_found', { param: 'model' })
  }
  answer(trip, modelEntry(model))
}

/** `GET /v1/receipts/{id}`: of the key's own account, by the `x-request-id` of the exchange. */
export function sendReceipt(trip: Trip, { store }: SenderParts, id: string): void {
  const receipt = store.findReceipt(id)
  const { account } = trip.exchange
  if (!receipt || !account || receipt.accountId !== account.id) throw refuse('receipt_not_found')
  answer(trip, receiptEntry(receipt))
}

function answer(trip: Trip, body: object): void {
  if (trip.exchange.signal.aborted) {
    endStopped(trip)
    return
  }
  const json = JSON.stringify(body)
  trip.exchange.outcome = 'answered'
  const finish = () => trip.client.sendWhole(200, JSON_HEADERS, json)
  trip.finish = finish
}
