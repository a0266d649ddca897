/** Answers to requests without a route name the probable route, or the unsupported part of an API. */
import { expect, test } from 'vitest'
import { refusalOfUnknown } from '../../../src/request/http/unknown-url.ts'

const ROUTES = [
  '/v1/chat/completions',
  '/v1/messages',
  '/v1/responses',
  '/v1/models',
  '/v1/models/{id}',
  '/free/v1/chat/completions',
]
const refusal = (path: string, method = 'POST') => refusalOfUnknown(method, path, ROUTES)

test.each([
  ['/chat/completions', 'The base URL must end in /v1: try /v1/chat/completions'],
  ['/messages', 'The base URL must end in /v1: try /v1/messages'],
  ['/v1/v1/messages', 'Did you mean /v1/messages? Check the base URL'],
  ['/v1/v1/models/some/model', 'Did you mean /v1/models/some/model? Check the base URL'],
  ['/v1/v1/models', 'Did you mean /v1/models? Check the base URL'],
  ['/openai/v1/chat/completions', 'Did you mean /v1/chat/completions? Check the base URL'],
  ['/api/v1/free/v1/chat/completions', 'Did you mean /free/v1/chat/completions? Check the base URL'],
  ['/v1/chat/completions/', 'Did you mean /v1/chat/completions? Check the base URL'],
  ['/v1//chat/completions', 'There is nothing at POST /v1//chat/completions.'],
  ['/metrics', 'Metrics are on the `admin` listener.'],
  ['/else', 'There is nothing at POST /else.'],
  ['/v1/filesystem', 'There is nothing at POST /v1/filesystem.'],
  ['/v1/else', 'There is nothing at POST /v1/else.'],
  [`/${'x'.repeat(5000)}`, `There is nothing at POST /${'x'.repeat(98)}….`],
  [`${'/v1'.repeat(5000)}/messages`, 'There is nothing at POST'],
])('%.60s is not a route', (path, words) => {
  expect(refusal(path)).toMatchObject({ code: 'unknown_url', status: 404, message: expect.stringContaining(words) })
})

test.each([
  ['/v1/conversations', "Send the whole conversation in 'input'"],
  ['/v1/conversations/conv_1/items', "Send the whole conversation in 'input'"],
  ['/v1/batches', 'Send each request by itself'],
  ['/v1/messages/batches', 'Send each request by itself'],
  ['/v1/files', 'Send a file as a part of the request'],
  ['/free/v1/uploads', 'Send a file as a part of the request'],
  ['/v1/vector_stores/vs_1/search', 'Search in your own'],
  ['/v1/realtime/sessions', 'Use a chat route'],
  ['/v1/threads/thread_1/runs', 'Use /v1/responses'],
  ['/v1/chat/completions/chatcmpl-1', 'stores no chat completions'],
  ['/v1/fine_tuning/jobs', 'Call the provider itself'],
  ['/v1/embeddings', 'a route of kind raw'],
  ['/v1/responses/compact', 'Send the item compaction_trigger'],
  ['/v1/responses/resp_1/cancel', 'where the route has keep_responses'],
  ['/v1beta/models/some:generateContent', 'formats of OpenAI and Anthropic'],
  ['/api/chat', 'formats of OpenAI and Anthropic'],
])('%s is an unsupported part of an API', (path, words) => {
  expect(refusal(path)).toMatchObject({ code: 'not_supported', status: 404, message: expect.stringContaining(words) })
})
