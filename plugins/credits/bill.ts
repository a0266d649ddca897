/** The cost of a request, and how its hold depends on the output cap. */
import {
  type Chat,
  type Counts,
  ceiling,
  type ExchangeWith,
  type Model,
  type NanoUsd,
  type Price,
  rawBound,
  rawHold,
  searchBounds,
} from '#contract'
import type { Bounds } from './charge.ts'
import { boundOf } from './hold.ts'

export interface Bill {
  readonly price: Price
  readonly modelId: string
  readonly chat: Chat | null
  readonly model: Model | null
  hold(bound: Counts): NanoUsd
  /** The most that the request can use, by its output cap. */
  bound(): Counts
  bounds(hold: NanoUsd): Bounds
}

/** The bill of a request at a price, by its model or, on a raw route, by its path. */
export function billOf(exchange: ExchangeWith<'key' | 'account'>, price: Price): Bill {
  const { chat, model } = exchange
  return chat && model ? chatBill(chat, model, price) : rawBill(exchange, price)
}

function chatBill(chat: Chat, model: Model, price: Price): Bill {
  return {
    price,
    modelId: model.id,
    chat,
    model,
    hold: bound => ceiling(bound, price).total,
    bound: () => boundOf(chat, model, chat.cap),
    bounds: hold => ({
      hold,
      most: boundOf(chat, model, chat.cap),
      leastSearches: searchBounds(chat.body).least,
    }),
  }
}

/** Raw routes are charged by the reported usage, at most the hold. */
function rawBill({ bytes: { length: bytes }, route, rawModel }: ExchangeWith<'key'>, price: Price): Bill {
  const { path, hold: most = null } = route
  return {
    price,
    // Without a known model the receipt names the path.
    modelId: rawModel ?? path,
    chat: null,
    model: null,
    hold: () => rawHold(price, bytes, most),
    bound: () => (most === null ? rawBound(bytes, null) : {}),
    bounds: hold => ({ hold, most: rawBound(bytes, most), leastSearches: 0 }),
  }
}
