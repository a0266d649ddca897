/** Requests with everything filled in. Apart from the helpers, so that a child process needs no test runner. */
import type { HoldRequest, Price, SettleRequest } from '#contract'

/** Long enough, and plainly no secret. */
export const SECRET = 'a secret that is only good for tests'

export const PRICE: Price = {
  input: 150_000_000n,
  cachedInput: 37_500_000n,
  cacheWrite: 190_000_000n,
  output: 600_000_000n,
  request: 0n,
}

export function aHold(fields: Partial<HoldRequest> & Pick<HoldRequest, 'accountId'>): HoldRequest {
  return {
    exchange: 'req_1',
    keyId: 'key_1',
    amount: 100n,
    model: 'chat-small',
    price: PRICE,
    capTokens: 64,
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
    promptTokens: 10,
    cachedTokens: 4,
    cacheWriteTokens: 0,
    completionTokens: 20,
    reasoningTokens: 5,
    attempts: [{ target: 'demo/demo-small', status: 200, code: null, ms: 12 }],
    trail: [{ step: 'credits', verdict: 'passed', note: 'held' }],
    ...fields,
  }
}
