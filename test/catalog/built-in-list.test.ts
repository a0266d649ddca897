/** The built-in list: our charge for a usage is what the list's own calculator says, rounded up to the nano-dollar. */
import { readFileSync } from 'node:fs'
import { calcPrice } from '@pydantic/genai-prices'
import { describe, expect, test } from 'vitest'
import { cost, type Usage } from '#contract'
import { BUILT_IN, loadBuiltInList } from '../../src/catalog/built-in-list.ts'
import { VENDORS, vendorNamed } from '../../src/providers/dialects/vendors.ts'

test('the name and the version are those of package.json', () => {
  const { dependencies } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  expect(BUILT_IN.name).toBe(`genai-prices ${dependencies['@pydantic/genai-prices']}`)
})

/** Models of ten vendors, with steps, dates, sound, pictures, searches, prices of a request and of reasoning. */
const MODELS: readonly (readonly [vendor: string, models: string])[] = [
  ['openai', 'gpt-5 gpt-5-mini-2025-08-07 gpt-5.4 gpt-4o gpt-4o-2024-05-13 gpt-4.1-nano o3 gpt-audio gpt-5.6-sol'],
  [
    'anthropic',
    'claude-opus-5 claude-sonnet-4-5 claude-sonnet-4-6 claude-haiku-4-5-20251001 claude-3-opus-latest claude-opus-4-6',
  ],
  ['gemini', 'gemini-2.5-pro gemini-2.5-flash gemini-3.7-flash gemini-3-pro-preview gemini-2.0-flash gemini-1.5-pro'],
  ['azure', 'gpt-4o o1 gpt-5-mini'],
  ['bedrock', 'eu.anthropic.claude-sonnet-4-5-20250929-v1:0 amazon.nova-pro-v1:0 meta.llama3-1-70b-instruct-v1:0'],
  ['mistral', 'mistral-large-latest codestral-2508 magistral-medium'],
  ['groq', 'llama-3.3-70b-versatile openai/gpt-oss-120b'],
  ['xai', 'grok-4 grok-3-mini'],
  ['perplexity', 'sonar sonar-deep-research'],
  ['openrouter', 'openai/gpt-5 anthropic/claude-sonnet-4.5 z-ai/glm-4.6'],
  ['deepseek', 'deepseek-chat deepseek-v4-pro'],
  ['together', 'meta-llama/Llama-3.3-70B-Instruct-Turbo'],
]
const ROWS = MODELS.flatMap(([vendor, models]) => models.split(' ').map(model => [vendor, model] as const))

/** With what the list calls the same units. */
const USAGES: readonly (readonly [name: string, usage: Usage, theirs: Readonly<Record<string, number>>])[] = [
  ['a short chat', { input: 1234, output: 567 }, { input_tokens: 1234, output_tokens: 567 }],
  [
    'a prompt from a cache',
    { input: 10_007, cached_input: 9001, output: 3 },
    { input_tokens: 10_007, cache_read_tokens: 9001, output_tokens: 3 },
  ],
  [
    'a prompt of a million tokens, written to caches',
    { input: 1_000_003, cached_input: 1, cache_write: 700_001, cache_write_1h: 99, output: 64_001 },
    {
      input_tokens: 1_000_003,
      cache_read_tokens: 1,
      cache_write_tokens: 700_001,
      cache_write_1h_tokens: 99,
      output_tokens: 64_001,
    },
  ],
  [
    'sound, reasoning and searches',
    { input: 5000, input_audio: 4000, output: 900, reasoning: 300, output_audio: 100, search: 3 },
    {
      input_tokens: 5000,
      input_audio_tokens: 4000,
      output_tokens: 900,
      output_reasoning_tokens: 300,
      output_audio_tokens: 100,
      web_searches: 3,
    },
  ],
]
/** Before and after prices of the list change, at an hour in which the dearest prices of the day hold. */
const DAYS = ['2026-06-15T08:00:00Z', '2026-11-28T08:00:00Z', '2027-01-02T08:00:00Z']

describe.each(DAYS)('on %s', day => {
  test(`${ROWS.length} models cost what the list's own calculator says`, async () => {
    const today = new Date(day)
    const list = await loadBuiltInList(today)
    const wrong: string[] = []
    for (const [vendor, model] of ROWS) {
      const { price, id } = list.find(vendorNamed(vendor)!, model) ?? {}
      for (const [name, usage, theirs] of USAGES) {
        const options = { providerId: vendorNamed(vendor)!.genai!, timestamp: today }
        const dollars = calcPrice(theirs, model, options)!.total_price
        // Theirs is a float: far below a nano-dollar it has noise.
        const nanos = BigInt(Math.ceil(Number((dollars * 1e9).toFixed(4))))
        const charged = price == null ? null : cost(usage, price).total
        if (charged !== nanos) wrong.push(`${vendor}/${model} (${id}), ${name}: ${charged}, not ${nanos}`)
      }
    }
    expect(wrong).toEqual([])
  })
})

test('prices of a day: those that hold on it, the dearest of its hours, and the next change', async () => {
  const find = async (day: string, vendor: string, model: string) =>
    (await loadBuiltInList(new Date(day))).find(vendorNamed(vendor)!, model)!
  const before = await find('2026-11-28T12:00:00Z', 'gemini', 'gemini-3.7-flash')
  const after = await find('2027-01-01T00:00:01Z', 'gemini', 'gemini-3.7-flash')
  expect(before).toMatchObject({ changes: '2027-01-01', hourly: false })
  expect(after).toMatchObject({ changes: null })
  expect(after.price![0]!.nanos).toBe(before.price![0]!.nanos * 2n)
  const night = await find('2026-11-28T20:00:00Z', 'deepseek', 'deepseek-v4-pro')
  const peak = await find('2026-11-28T02:00:00Z', 'deepseek', 'deepseek-v4-pro')
  expect(night).toEqual(peak)
  expect(night.hourly).toBe(true)
})

test('a price that depends on the hour is the dearest of the day in each unit', async () => {
  const today = new Date('2026-11-28T12:00:00Z')
  const list = await loadBuiltInList(today)
  const hourly = VENDORS.flatMap(vendor => list.ids(vendor).map(model => [vendor, model] as const)).filter(
    ([vendor, model]) => list.find(vendor, model)!.hourly,
  )
  expect(hourly.length).toBeGreaterThan(0)
  const usages = [{ input: 1_000_000 }, { input: 1_000_000, cached_input: 1_000_000 }, { output: 1_000_000 }]
  for (const [vendor, model] of hourly) {
    for (const usage of usages) {
      const theirs = {
        input_tokens: usage.input ?? 0,
        cache_read_tokens: usage.cached_input ?? 0,
        output_tokens: usage.output ?? 0,
      }
      const byHour = Array.from({ length: 24 }, (_, hour) => {
        const timestamp = new Date(Date.UTC(2026, 10, 28, hour, 30))
        return calcPrice(theirs, model, { providerId: vendor.genai!, timestamp })!.total_price
      })
      const most = BigInt(Math.ceil(Number((Math.max(...byHour) * 1e9).toFixed(4))))
      expect(cost(usage, list.find(vendor, model)!.price!).total).toBe(most)
    }
  }
})

test('every name of a vendor in the table is one of the list, and has models for chats', async () => {
  const list = await loadBuiltInList(new Date('2026-11-28'))
  const named = VENDORS.filter(({ genai }) => genai !== undefined)
  expect(named.filter(vendor => list.ids(vendor).length === 0).map(({ name }) => name)).toEqual([])
  expect(named.length).toBeGreaterThan(20)
  expect(list.ids(vendorNamed('vllm')!)).toEqual([])
  for (const id of list.ids(vendorNamed('openai')!)) {
    expect(id).not.toMatch(/whisper|embedding|realtime|transcribe|tts|image|moderation|davinci/)
  }
})
