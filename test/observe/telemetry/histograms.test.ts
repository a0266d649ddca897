import { describe, expect, test } from 'vitest'
import { GenAiHistograms, type Labels } from '../../../src/observe/telemetry/histograms.ts'
import { type PeerProvider, peerOf } from '../../../src/observe/telemetry/peer.ts'

const PEER = { name: 'p', provider: 'openai', address: 'api.openai.com', port: 443 }
const LABELS: Labels = { operation: 'chat', peer: PEER, model: 'm', error: null }

interface Point {
  readonly attributes: Readonly<Record<string, unknown>>
  readonly startTime: readonly [number, number]
  readonly endTime: readonly [number, number]
  readonly value: { readonly count: number; readonly sum: number; readonly buckets: { readonly counts: number[] } }
}

function create() {
  let now = 1_000_500
  const histograms = new GenAiHistograms({ now: () => now })
  return {
    histograms,
    pass(ms: number) {
      now += ms
    },
    points: (name: string) =>
      (histograms.data().find(({ descriptor }) => descriptor.name === name)?.dataPoints ?? []) as unknown as Point[],
  }
}

describe('hostile input', () => {
  test.each([Number.NaN, -1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e308])(
    '%d does not corrupt a sum',
    bad => {
      const { histograms, points } = create()
      histograms.duration(bad, LABELS)
      histograms.firstChunk(bad, LABELS)
      histograms.tokens(bad, 7, LABELS)
      histograms.duration(2000, LABELS)
      expect(points('gen_ai.client.operation.duration').map(({ value }) => value.sum)).toEqual([2])
      expect(points('gen_ai.client.token.usage').map(({ value }) => value.sum)).toEqual([7])
    },
  )

  test('the number of series is bounded', () => {
    const { histograms, points } = create()
    for (let index = 0; index < 2500; index++) histograms.duration(1, { ...LABELS, model: `m${index}` })
    expect(points('gen_ai.client.operation.duration')).toHaveLength(2000)
  })

  test('attributes of series are unique: providers with one address share a series', () => {
    const { histograms, points } = create()
    // Two accounts at one provider, and another server on the same host.
    histograms.duration(1000, LABELS)
    histograms.duration(2000, { ...LABELS, peer: { ...PEER, name: 'another' } })
    histograms.duration(4000, { ...LABELS, peer: { ...PEER, name: 'third', port: 8443 } })
    histograms.duration(8000, { ...LABELS, peer: { ...PEER, name: 'p', port: 9443 } })
    const all = points('gen_ai.client.operation.duration')
    expect(all.map(({ attributes, value }) => [attributes['server.port'], value.sum])).toEqual([
      [443, 3],
      [8443, 4],
      [9443, 8],
    ])
  })

  test('a snapshot does not change afterwards', () => {
    const { histograms, points } = create()
    histograms.duration(1, LABELS)
    const [before] = points('gen_ai.client.operation.duration')
    histograms.duration(1, LABELS)
    expect(before!.value.count).toBe(1)
    expect(before!.value.buckets.counts[0]).toBe(1)
  })
})

test('there are no series before the first exchange', () => {
  expect(create().histograms.data()).toEqual([])
})

test('sums are cumulative, and an error has its own series', () => {
  const { histograms, points, pass } = create()
  histograms.duration(15, LABELS)
  pass(2000)
  histograms.duration(100_000, LABELS)
  histograms.duration(10, { ...LABELS, error: 'upstream_timeout' })
  const [good, bad] = points('gen_ai.client.operation.duration')
  expect(good).toMatchObject({
    startTime: [1000, 500_000_000],
    endTime: [1002, 500_000_000],
    value: { count: 2, sum: 100.015, min: 0.015, max: 100 },
    attributes: {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'm',
      'server.address': 'api.openai.com',
      'server.port': 443,
    },
  })
  // Upper bounds are inclusive.
  expect(good!.value.buckets.counts).toEqual([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
  expect(bad!.value.buckets.counts[0]).toBe(1)
  expect(bad!.attributes).toMatchObject({ 'error.type': 'upstream_timeout' })
})

describe('the provider of an attempt', () => {
  const rows: readonly [
    provider: Omit<PeerProvider, 'name'>,
    name: string,
    address: string | null,
    port: number | null,
  ][] = [
    [{ dialect: 'demo', baseUrl: '' }, 'demo', null, null],
    [{ dialect: 'openai', baseUrl: 'https://api.openai.com/v1' }, 'openai', 'api.openai.com', 443],
    [{ dialect: 'openai', baseUrl: 'http://[::1]:8000/v1' }, 'openai', '::1', 8000],
    [{ dialect: 'openai', baseUrl: 'http://vllm.internal/v1' }, 'openai', 'vllm.internal', 80],
    [{ dialect: 'openai', baseUrl: 'https://api.x.ai/v1' }, 'x_ai', 'api.x.ai', 443],
    [
      { dialect: 'openai', baseUrl: 'https://eu.openai.azure.com/openai/v1' },
      'azure.ai.openai',
      'eu.openai.azure.com',
      443,
    ],
    [{ dialect: 'azure', baseUrl: 'https://a.example', azure: { api: 'v1' } }, 'azure.ai.openai', 'a.example', 443],
    [
      { dialect: 'azure', baseUrl: 'https://a.example', azure: { api: 'foundry' } },
      'azure.ai.inference',
      'a.example',
      443,
    ],
    [{ dialect: 'anthropic', baseUrl: 'https://proxy.example' }, 'anthropic', 'proxy.example', 443],
    [{ dialect: 'mistral', baseUrl: 'https://a.example' }, 'mistral_ai', 'a.example', 443],
    [{ dialect: 'gemini', baseUrl: 'https://a.example' }, 'gcp.gemini', 'a.example', 443],
    [{ dialect: 'vertex-anthropic', baseUrl: 'https://a.example' }, 'gcp.vertex_ai', 'a.example', 443],
    [{ dialect: 'bedrock-invoke', baseUrl: 'https://a.example' }, 'aws.bedrock', 'a.example', 443],
    [{ dialect: 'ollama', baseUrl: 'http://127.0.0.1:11434' }, 'ollama', '127.0.0.1', 11434],
  ]
  test.each(rows)('%o is %s at %s:%s', (provider, name, address, port) => {
    const given = { name: 'p', ...provider }
    expect(peerOf(given)).toEqual({ name: 'p', provider: name, address, port })
    expect(peerOf(given)).toBe(peerOf(given))
  })
})
