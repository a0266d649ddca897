/** An exchange that is over: answered, of no account, unless a test says otherwise. */
import type { ExchangeSummary } from '../../src/observe/summary.ts'

export function summary(given: Partial<ExchangeSummary> = {}): ExchangeSummary {
  return {
    id: 'req_1',
    traceId: null,
    isSampled: false,
    at: 0,
    ms: 1,
    firstChunkMs: null,
    firstTokenMs: null,
    perTokenMs: null,
    route: '/v1/chat/completions',
    kind: 'chat',
    policy: 'standard',
    method: 'POST',
    model: null,
    target: null,
    stream: null,
    accountId: null,
    account: null,
    keyId: null,
    key: null,
    status: 200,
    outcome: 'answered',
    code: null,
    decidedBy: null,
    usage: null,
    charge: null,
    cost: null,
    address: '203.0.113.7',
    bytesIn: 0,
    trail: [],
    attempts: [],
    attemptDetails: null,
    ...given,
  }
}
