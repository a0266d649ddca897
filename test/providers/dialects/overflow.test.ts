/** The numbers in sentences of providers about a prompt that does not fit. */
import { expect, test } from 'vitest'
import { OVERFLOW, overflowIn } from '../../../src/providers/dialects/overflow.ts'

test.each<[string, number | null, number | null]>([
  ['prompt is too long: 208310 tokens > 200000 maximum', 208_310, 200_000],
  [
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 150,000 tokens.",
    150_000,
    128_000,
  ],
  [
    "This model's maximum context length is 8192 tokens. However, you requested 13000 tokens (9000 in the messages, 4000 in the completion).",
    13_000,
    8192,
  ],
  ['The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).', 1_250_074, 1_048_576],
  ["This model's maximum prompt length is 131072 but the request contains 200000 tokens.", 200_000, 131_072],
  [
    'Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
    40_000,
    32_768,
  ],
  ['request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it', 9000, 8192],
  ['Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)', 140_000, 131_072],
  [
    '`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 1000 `max_new_tokens`',
    5000,
    4096,
  ],
  ['too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292.', 4292, 4081],
  ['Range of input length should be [1, 98304]', null, 98_304],
  ["This model's maximum context length is 8192 tokens.", null, 8192],
  ['prompt too long; exceeded max context length by 12 tokens', null, null],
  ['Input is too long for requested model claude-sonnet-4-5-20250929.', null, null],
  ['Your input exceeds the context window of this model.', null, null],
])('%s', (sentence, asked, limit) => {
  expect(OVERFLOW.test(sentence)).toBe(true)
  expect(overflowIn(sentence)).toEqual({ asked, limit })
})
