/** Receipts: a hold's event and its settle's, read as one. */
import type { Receipt } from '#contract'
import type { Database, Row } from './database.ts'
import { HOLD, SETTLE } from './ledger.ts'

/** Prepares the search once; undefined when the exchange has no hold. */
export function createReceiptReader(database: Database): (exchange: string) => Receipt | undefined {
  const find = database.prepareMoney(`
    SELECT hold.id, hold.account, hold.key, hold.model, hold.amount AS held, hold.at AS created_at,
      hold.price_input, hold.price_cached_input, hold.price_cache_write, hold.price_output, hold.price_request,
      hold.price_search, hold.idempotency_key,
      settle.amount AS charged, settle.at AS settled_at, settle.source, settle.outcome, settle.code,
      settle.prompt_tokens, settle.cached_tokens, settle.cache_write_tokens, settle.completion_tokens,
      settle.reasoning_tokens, settle.searches, settle.attempts, settle.trail
    FROM event AS hold LEFT JOIN event AS settle ON settle.id = hold.id AND settle.kind = ${SETTLE}
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
