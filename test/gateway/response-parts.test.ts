/** Unsupported parts of a kept response answer like api.openai.com, or like an unknown resource. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'

let gateway: InProcess
let id: string

const send = (method: string, path: string, body?: object) =>
  fetch(`${gateway.url}/v1/responses${path}`, {
    method,
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  })

beforeAll(async () => {
  gateway = await startInProcess({
    provider: 'http://127.0.0.1:9/v1',
    yaml: {
      providers: { p: { dialect: 'demo', pace: '1ms' } },
      routes: [{ path: '/v1/responses', policy: 'test', keep_responses: '1h' }],
    },
  })
  const answer = (await (await send('POST', '', { model: 'm', input: 'Hi' })).json()) as { readonly id: string }
  id = answer.id
})
afterAll(() => gateway.stop())

test.each<[method: string, path: () => string, body: object | undefined, status: number, code: string | null]>([
  ['POST', () => `/${id}/cancel`, undefined, 400, 'bad_request'],
  ['POST', () => `/${id}/cancel`, {}, 400, 'bad_request'],
  ['POST', () => '/resp_unknown/cancel', {}, 404, 'response_not_found'],
  ['POST', () => '/compact', { model: 'm', input: 'x' }, 404, 'not_supported'],
  ['POST', () => `/${id}`, {}, 405, 'method_not_allowed'],
  ['POST', () => `/${id}/input_items`, {}, 405, 'method_not_allowed'],
  ['GET', () => `/${id}/cancel`, undefined, 405, 'method_not_allowed'],
  ['GET', () => `/${id}/toString`, undefined, 404, 'unknown_url'],
  ['PUT', () => `/${id}`, {}, 405, 'method_not_allowed'],
  ['GET', () => `/${id}/input_items`, undefined, 200, null],
  ['GET', () => `/${id}`, undefined, 200, null],
  ['DELETE', () => `/${id}`, undefined, 200, null],
])('%s %s with %j', async (method, path, body, status, code) => {
  const answer = await send(method, path(), body)
  const { error } = (await answer.json()) as { readonly error?: { readonly code: string } }
  expect([answer.status, error?.code ?? null]).toEqual([status, code])
})
