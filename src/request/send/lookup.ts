/** Lookups: models and receipts, which the gateway answers itself. */
import { formatMoney, mayUse, type Plan, refuse } from '#contract'
import type { ExchangeSummary } from '../../observe/summary.ts'
import {
  anthropicModel,
  anthropicModels,
  listedModels,
  listedRawModels,
  modelEntry,
  modelList,
  rawModelEntry,
  receiptEntry,
} from '../answer/entries.ts'
import type { Reply } from '../finish.ts'
import type { LiveExchange } from './live-exchange.ts'
import { isForAnthropic } from './refusal.ts'
import { jsonReply } from './reply.ts'

/** The plan of the exchange's account; undefined without an account, and where no plans are declared. */
function planOf({ account, generation }: LiveExchange): Plan | undefined {
  return account && generation.plans.of(account)
}

/** `GET /v1/models`. For Anthropic's clients each entry also has the fields of their API. */
export function sendModels(exchange: LiveExchange): Reply {
  const { generation, key, ctx } = exchange
  const plan = planOf(exchange)
  const models = listedModels(generation.catalog, key, plan)
  if (isForAnthropic(ctx.req, 'models')) return jsonReply(exchange, anthropicModels(models))
  return jsonReply(exchange, modelList(models, listedRawModels(generation.routes, generation.catalog, key, plan)))
}

/** `GET /v1/models/{id}`; ids may contain slashes, encoded or not. */
export function sendModel(exchange: LiveExchange, id: string): Reply {
  const { catalog, routes } = exchange.generation
  const model = catalog.find(id)
  const plan = planOf(exchange)
  if (!model || !mayUse(model, exchange.key, plan)) {
    const raw = isForAnthropic(exchange.ctx.req, 'model')
      ? undefined
      : listedRawModels(routes, catalog, exchange.key, plan).find(each => each.id === id)
    if (raw !== undefined) return jsonReply(exchange, rawModelEntry(raw))
    throw refuse('model_not_found', { param: 'model' })
  }
  return jsonReply(exchange, isForAnthropic(exchange.ctx.req, 'model') ? anthropicModel(model) : modelEntry(model))
}

/** Finds a recent finished exchange. */
export type FindRecent = (id: string) => ExchangeSummary | undefined | Promise<ExchangeSummary | undefined>

/**
 * `GET /v1/receipts/{id}`: of the key's own account, by the `x-request-id` of the exchange. An exchange without a hold has no receipt; as
 * long as it is in memory, its entry is returned instead.
 */
export async function sendReceipt(
  exchange: LiveExchange,
  id: string,
  findRecent: FindRecent | undefined,
): Promise<Reply> {
  const { account, host } = exchange
  const receipt = await host.store.findReceipt(id)
  const found = receipt ?? (await findRecent?.(id))
  if (!found || !account || found.accountId !== account.id) throw refuse('receipt_not_found')
  return jsonReply(exchange, receipt ? receiptEntry(receipt) : exchangeEntry(found as ExchangeSummary))
}

/**
 * An exchange without a receipt, for the owner of its key: the available fields of a receipt, and how it ended. Notes are omitted: they
 * are for the operator.
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
