import { describe, expect, it } from 'vitest'
import { exchangeLine } from '../../src/observe/exchange-line.ts'

describe('the line of an exchange', () => {
  it('leaves out what is not known, and keeps zeros and false', () => {
    const line = exchangeLine({
      id: 'req_1',
      route: '/v1/chat/completions',
      model: null,
      target: undefined,
      status: null,
      outcome: 'client_left',
      code: null,
      stream: false,
      ms: 0,
      firstChunkMs: null,
      usage: null,
      attempts: 0,
      bytesIn: 0,
    })
    expect(line).toEqual({
      id: 'req_1',
      route: '/v1/chat/completions',
      outcome: 'client_left',
      stream: false,
      ms: 0,
      attempts: 0,
      bytes_in: 0,
    })
    expect(JSON.stringify(line)).not.toContain('null')
  })

  it('has every field of a complete exchange, in a fixed order', () => {
    const line = exchangeLine({
      bytesIn: 321,
      id: 'req_1',
      route: '/v1/chat/completions',
      kind: 'chat',
      policy: 'standard',
      method: 'POST',
      model: 'chat-small',
      target: 'openai/some-mini',
      account: 'acc_1',
      key: 'key_1',
      status: 200,
      outcome: 'answered',
      code: 'upstream_error',
      stream: true,
      ms: 1234.5678,
      firstChunkMs: 98.7654,
      usage: {
        promptTokens: 10,
        cachedTokens: 5,
        cacheWriteTokens: 0,
        completionTokens: 7,
        reasoningTokens: 0,
        source: 'reported',
      },
      attempts: 2,
      address: '203.0.113.7',
    })
    expect(Object.entries(line)).toEqual([
      ['id', 'req_1'],
      ['route', '/v1/chat/completions'],
      ['kind', 'chat'],
      ['policy', 'standard'],
      ['method', 'POST'],
      ['model', 'chat-small'],
      ['target', 'openai/some-mini'],
      ['account', 'acc_1'],
      ['key', 'key_1'],
      ['status', 200],
      ['outcome', 'answered'],
      ['code', 'upstream_error'],
      ['stream', true],
      ['ms', 1234.6],
      ['first_chunk_ms', 98.8],
      ['prompt_tokens', 10],
      ['completion_tokens', 7],
      ['usage_source', 'reported'],
      ['attempts', 2],
      ['address', '203.0.113.7'],
      ['bytes_in', 321],
    ])
  })
})
