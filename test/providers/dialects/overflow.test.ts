/** Token counts in the providers' messages about a prompt that is too long. */
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
    9000,
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
    '`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 1000 `max_new_tokens`',
    5000,
    4096,
  ],
  ['too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292.', 4292, 4081],
  [
    'too many tokens: size limit exceeded by 1500 tokens. Try using shorter or fewer inputs. The limit for this model is 128000 tokens.',
    null,
    128_000,
  ],
  ['Range of input length should be [1, 98304]', null, 98_304],
  ["This model's maximum context length is 8192 tokens.", null, 8192],
  ['prompt too long; exceeded max context length by 12 tokens', null, null],
  ['Input is too long for requested model claude-sonnet-4-5-20250929.', null, null],
  ['Your input exceeds the context window of this model.', null, null],
])('%s', (sentence, asked, limit) => {
  expect(OVERFLOW.test(sentence)).toBe(true)
  expect(overflowIn(sentence)).toEqual({ asked, output: null, limit })
})

test.each<[string, number, number, number]>([
  [
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (1000 in the messages, 4000 in the completion).",
    1000,
    4000,
    4096,
  ],
  [
    "This model's maximum context length is 4096 tokens. However, you requested 5050 tokens (1000 in the messages, 50 in the functions, 4000 in the completion).",
    1050,
    4000,
    4096,
  ],
  [
    "'max_tokens' or 'max_completion_tokens' is too large: 4000. This model's maximum context length is 4096 tokens and your request has 1000 input tokens (4000 > 4096 - 1000).",
    1000,
    4000,
    4096,
  ],
  [
    "This model's maximum context length is 4096 tokens. However, you requested 4000 output tokens and your prompt contains at least 1000 input tokens, for a total of at least 5000 tokens.",
    1000,
    4000,
    4096,
  ],
  [
    "This endpoint's maximum context length is 200000 tokens. However, you requested about 230000 tokens (190000 of text input, 8000 of tool input, 32000 in the output).",
    198_000,
    32_000,
    200_000,
  ],
  [
    '`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 5000 `inputs` tokens and 4096 `max_new_tokens`',
    5000,
    4096,
    8193,
  ],
  [
    "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 140000 tokens: 100000 tokens from the input messages and 40000 tokens for the completion.",
    100_000,
    40_000,
    131_072,
  ],
])('the prompt alone fits: %s', (sentence, asked, output, limit) => {
  expect(OVERFLOW.test(sentence)).toBe(true)
  expect(overflowIn(sentence)).toEqual({ asked, output, limit })
})
