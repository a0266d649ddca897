/** Receipts: a hold's event, its settle's and its correction, read as one. */
import type { Receipt } from '#contract'
import type { Database, Row } from '../engine/database.ts'
import { HOLD, SETTLE } from './ledger.ts'

/** Fields of a settle; those of its correction replace them. */
const FIELDS = [
  'overrun',
  'source',
  'outcome',
  'code',
  'prompt_tokens',
  'cached_tokens',
  'cache_write_tokens',
  'completion_tokens',
  'reasoning_tokens',
  'searches',
  'attempts',
  'trail',
]

/** Prepares the search once; undefined when the exchange has no hold. */
export function createReceiptReader(database: Database): (exchange: string) => Receipt | undefined {
  const find = database.prepareMoney(`
    SELECT hold.id, hold.account, hold.key, hold.model, hold.amount AS held, hold.at AS created_at,
      hold.price_input, hold.price_cached_input, hold.price_cache_write, hold.price_output, hold.price_request,
      hold.price_search, hold.idempotency_key,
      settle.amount + coalesce(correction.amount, 0) AS charged, settle.at AS settled_at, correction.at AS corrected_at,
      ${FIELDS.map(name => `coalesce(correction.${name}, settle.${name}) AS ${name}`).join(', ')}
    FROM event AS hold LEFT JOIN ${database.dialect.only('event')} AS settle ON settle.id = hold.id AND settle.kind = ${SETTLE}
      LEFT JOIN correction ON correction.id = settle.id
    WHERE hold.id = ? AND hold.kind = ${HOLD}`)
  return exchange => {
    const row = find.get(exchange)
    return row && toReceipt(row)
  }
}

function toReceipt(row: Row): Receipt {
  return {
    id: row['id'] as string,
    accountId: row['account'] as string,
    keyId: row['key'] as string,
    model: row['model'] as string,
    createdAt: Number(row['created_at']),
    settledAt: row['settled_at'] === null ? null : Number(row['settled_at']),
    correctedAt: row['corrected_at'] === null ? null : Number(row['corrected_at']),
    price: {
      input: row['price_input'] as bigint,
      cachedInput: row['price_cached_input'] as bigint,
      cacheWrite: row['price_cache_write'] as bigint,
      output: row['price_output'] as bigint,
      request: row['price_request'] as bigint,
      ...(row['price_search'] === null ? {} : { search: row['price_search'] as bigint }),
    },
    held: row['held'] as bigint,
    charged: row['charged'] as bigint | null,
    overrun: row['overrun'] as bigint | null,
    source: row['source'] as Receipt['source'],
    outcome: row['outcome'] as Receipt['outcome'],
    code: row['code'] as Receipt['code'],
    promptTokens: Number(row['prompt_tokens'] ?? 0),
    cachedTokens: Number(row['cached_tokens'] ?? 0),
    cacheWriteTokens: Number(row['cache_write_tokens'] ?? 0),
    completionTokens: Number(row['completion_tokens'] ?? 0),
    reasoningTokens: Number(row['reasoning_tokens'] ?? 0),
    ...(row['searches'] === null ? {} : { searches: Number(row['searches']) }),
    attempts: JSON.parse((row['attempts'] as string | null) ?? '[]'),
    trail: JSON.parse((row['trail'] as string | null) ?? '[]'),
    idempotencyKey: row['idempotency_key'] as string | null,
  }
}
