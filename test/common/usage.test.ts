import fc from 'fast-check'
import { expect, test } from 'vitest'
import { normalise, readUsage } from '../../src/common/usage.ts'

type Counts = readonly [prompt: number, cached: number, written: number, completion: number, reasoning: number]

const countsIn = (raw: object): Counts | null => {
  const usage = normalise(readUsage(raw), 'reported')
  if (usage === null) return null
  const { input = 0, cached_input = 0, cache_write = 0, output = 0, reasoning = 0 } = usage
  return [input, cached_input, cache_write, output, reasoning]
}

const plain = { prompt_tokens: 1000, completion_tokens: 50, total_tokens: 1050 }

test.each<[name: string, raw: object, counts: Counts | null]>([
  ['OpenAI', { ...plain, prompt_tokens_details: { cached_tokens: 900 } }, [1000, 900, 0, 50, 0]],
  ['OpenAI, with a write', { ...plain, prompt_tokens_details: { cache_write_tokens: 900 } }, [1000, 0, 900, 50, 0]],
  ['OpenAI, with reasoning', { ...plain, completion_tokens_details: { reasoning_tokens: 40 } }, [1000, 0, 0, 50, 40]],
  [
    'the Responses API',
    {
      input_tokens: 1000,
      output_tokens: 50,
      total_tokens: 1050,
      input_tokens_details: { cached_tokens: 900 },
      output_tokens_details: { reasoning_tokens: 40 },
    },
    [1000, 900, 0, 50, 40],
  ],
  [
    'Anthropic: the input has no cache in it',
    { input_tokens: 100, cache_read_input_tokens: 800, cache_creation_input_tokens: 100, output_tokens: 50 },
    [1000, 800, 100, 50, 0],
  ],
  [
    'Anthropic, with a total of all',
    { input_tokens: 100, cache_read_input_tokens: 900, output_tokens: 50, total_tokens: 1050 },
    [1000, 900, 0, 50, 0],
  ],
  [
    "LiteLLM: Anthropic's names beside OpenAI's",
    { ...plain, cache_read_input_tokens: 800, cache_creation_input_tokens: 100 },
    [1000, 800, 100, 50, 0],
  ],
  [
    'LiteLLM, with details',
    { ...plain, prompt_tokens_details: { cached_tokens: 800, cache_creation_tokens: 100 } },
    [1000, 800, 100, 50, 0],
  ],
  ['DeepSeek', { ...plain, prompt_cache_hit_tokens: 900, prompt_cache_miss_tokens: 100 }, [1000, 900, 0, 50, 0]],
  ['Mistral', { ...plain, num_cached_tokens: 900 }, [1000, 900, 0, 50, 0]],
  ['Moonshot', { ...plain, cached_tokens: 900 }, [1000, 900, 0, 50, 0]],
  [
    'more cached than prompt',
    { ...plain, prompt_tokens: 20, total_tokens: 70, prompt_tokens_details: { cached_tokens: 900 } },
    [920, 900, 0, 50, 0],
  ],
  [
    'a total with the cache, which the prompt leaves out',
    { ...plain, prompt_tokens: 950, total_tokens: 1900, prompt_tokens_details: { cached_tokens: 900 } },
    [1850, 900, 0, 50, 0],
  ],
  [
    'xAI: reasoning is in the total and the details only',
    { ...plain, total_tokens: 1090, completion_tokens_details: { reasoning_tokens: 40 } },
    [1000, 0, 0, 90, 40],
  ],
  ['Google: reasoning is in the total only', { ...plain, total_tokens: 1090 }, [1000, 0, 0, 90, 0]],
  [
    'Google, with a cache beside the larger total',
    { ...plain, total_tokens: 1090, prompt_tokens_details: { cached_tokens: 900 } },
    [1000, 900, 0, 90, 0],
  ],
  [
    'more reasoning than completion',
    { ...plain, completion_tokens_details: { reasoning_tokens: 400 } },
    [1000, 0, 0, 450, 400],
  ],
  ['audio in a prompt', { ...plain, total_tokens: 1090, prompt_audio_seconds: 3 }, [1040, 0, 0, 50, 0]],
  [
    'Perplexity: reasoning and citations outside',
    { ...plain, citation_tokens: 200, num_search_queries: 28, reasoning_tokens: 950 },
    [1200, 0, 0, 1000, 950],
  ],
  ['counts as texts', { prompt_tokens: '1000', completion_tokens: '50' }, [1000, 0, 0, 50, 0]],
  ['no completion', { prompt_tokens: 1000 }, null],
  ['nothing', {}, null],
])('%s', (_name, raw, counts) => {
  expect(countsIn(raw)).toEqual(counts)
})

test('searches of Perplexity are searches', () => {
  expect(normalise(readUsage({ ...plain, num_search_queries: 28 }), 'reported')).toMatchObject({ search: 28 })
})

test.each([null, undefined, 7, 'many', []])('%j: not a usage', raw => {
  expect(readUsage(raw)).toBeNull()
})

test('a converted usage stays the same, and is a sum', () => {
  const count = fc.oneof(fc.nat({ max: 2000 }), fc.constantFrom(undefined, null, -3, 0.5, '7', 'x'))
  const names = [
    ...['prompt_tokens', 'completion_tokens', 'input_tokens', 'output_tokens', 'total_tokens', 'reasoning_tokens'],
    ...['cached_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens', 'prompt_cache_hit_tokens'],
    ...['citation_tokens', 'num_search_queries', 'prompt_audio_seconds'],
  ]
  const details = fc.option(fc.record({ cached_tokens: count, cache_write_tokens: count, reasoning_tokens: count }))
  const raw = fc.record(
    {
      ...Object.fromEntries(names.map(name => [name, count])),
      prompt_tokens_details: details,
      completion_tokens_details: details,
    },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(raw, value => {
      const once = readUsage(value)
      const again = readUsage(once)
      expect(again).toEqual(once)
      expect(countsIn(once!)).toEqual(countsIn(value))
    }),
    { numRuns: 500 },
  )
})
