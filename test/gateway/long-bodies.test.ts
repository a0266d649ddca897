/** Long bodies are read before the steps begin, once. */
import { expect, test } from 'vitest'
import { definePlugin, type ErrorCode, isRefusal } from '#contract'
import { FIVE_STEPS, startInProcess } from '../helpers/in-process.ts'
import { expectRefusal } from './refusal.ts'

const LONG = 'x'.repeat(600 * 1024)

test.each<[name: string, body: string, code: ErrorCode]>([
  ['that breaks off', `{"model":"m","messages":[{"role":"user","content":"${LONG}"}]`, 'invalid_json'],
  ['that is nested too deeply', `{"model":"${LONG}","messages":${'['.repeat(500)}`, 'request_too_complex'],
])('a body %s is refused once: every step gets the same refusal', async (_name, body, code) => {
  const refusals: unknown[] = []
  const asks = definePlugin({
    name: 'asks',
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => async (ctx, next) => {
      try {
        ctx.exchange.json()
      } catch (error) {
        refusals.push(error)
      }
      await next()
    },
  })
  const [key, ...rest] = FIVE_STEPS
  await using gateway = await startInProcess({
    plugins: [asks],
    steps: [key!, { use: 'asks', id: 'one' }, { use: 'asks', id: 'two' }, ...rest],
  })
  await expectRefusal(await gateway.chat({}, { body }), code)
  expect(refusals).toHaveLength(2)
  expect(refusals.every(isRefusal)).toBe(true)
  // A second scan of the body would create another refusal.
  expect(refusals[1]).toBe(refusals[0])
})
