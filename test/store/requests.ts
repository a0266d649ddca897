/** Complete requests to the ledger. Separate from helpers.ts, so that a child process needs no test runner. */
import { type HoldRequest, type Price, plainPrice, type SettleRequest } from '#contract'

/** Long enough, and obviously not a real secret. */
export const SECRET = 'a secret that is only good for tests'

export const PRICE: Price = plainPrice({
  input: 150_000_000n,
  cached_input: 37_500_000n,
  cache_write: 190_000_000n,
  output: 600_000_000n,
  request: 0n,
})

export function aHold(fields: Partial<HoldRequest> & Pick<HoldRequest, 'accountId'>): HoldRequest {
  return {
    exchange: 'req_1',
    keyId: 'key_1',
    amount: 100n,
    model: 'chat-small',
    price: PRICE,
    bound: { output: 64 },
    idempotencyKey: null,
    ...fields,
  }
}

export function aSettle(fields: Partial<SettleRequest> = {}): SettleRequest {
  return {
    exchange: 'req_1',
    amount: 40n,
    overrun: 0n,
    source: 'reported',
    outcome: 'answered',
    code: null,
    usage: { input: 10, cached_input: 4, output: 20, reasoning: 5 },
    attempts: [{ target: 'demo/demo-small', status: 200, code: null, ms: 12 }],
    trail: [{ step: 'credits', verdict: 'passed', note: 'held' }],
    ...fields,
  }
}
