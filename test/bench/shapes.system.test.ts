/**
 * Objects of the hot path keep fast properties until the end of their exchange. V8 turns an object with a deleted field, or with
 * too many fields, into a dictionary: each access then costs a hash look-up.
 */
import { setFlagsFromString } from 'node:v8'
import { expect, test, vi } from 'vitest'
import { definePlugin } from '#contract'
import type { SentError } from '../../src/request/send/exchange-summary.ts'
import type { LiveExchange } from '../../src/request/send/live-exchange.ts'
import { FIVE_STEPS, startInProcess } from '../helpers/in-process.ts'

type ExchangeRecord = readonly [exchange: LiveExchange, summary: object]

/** The checked objects. */
const CHECKED: Readonly<Record<string, (recorded: ExchangeRecord) => object>> = {
  LiveExchange: ([exchange]) => exchange,
  Client: ([exchange]) => exchange.client,
  Meter: ([exchange]) => exchange.meter,
  summary: ([, summary]) => summary,
}

const recorded = vi.hoisted((): ExchangeRecord[] => [])

// Calls the real function and records its arguments, because the gateway does not keep finished exchanges.
vi.mock('../../src/request/send/exchange-summary.ts', async original => {
  const module = await original<typeof import('../../src/request/send/exchange-summary.ts')>()
  const summaryOf: typeof module.summaryOf = (exchange: LiveExchange, sentError: SentError, clock) => {
    const summary = module.summaryOf(exchange, sentError, clock)
    recorded.push([exchange, summary])
    return summary
  }
  return { ...module, summaryOf }
})

// Only code compiled between these two lines may use V8's natives.
setFlagsFromString('--allow-natives-syntax')
const isFast = new Function('value', 'return %HasFastProperties(value)') as (value: object) => boolean
setFlagsFromString('--no-allow-natives-syntax')

/** The `ctx.exchange` of each exchange, as a step sees it. */
const handles: object[] = []
const keeps = definePlugin({
  name: 'keeps',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  needsBody: false,
  create: () => (ctx, next) => {
    handles.push(ctx.exchange)
    return next()
  },
})

const WITHOUT_CREDITS = FIVE_STEPS.filter(step => !('use' in step && step.use === 'credits'))

test('the check detects an object with a deleted field', () => {
  const value: { a?: number; b: number } = { a: 1, b: 2 }
  expect(isFast(value)).toBe(true)
  delete value.a
  expect(isFast(value)).toBe(false)
})

test.each([
  ['a whole answer', FIVE_STEPS, {}, {}, 200],
  ['a stream', FIVE_STEPS, { stream: true }, {}, 200],
  ['a whole answer without credits', WITHOUT_CREDITS, {}, {}, 200],
  ['a refusal', FIVE_STEPS, { messages: 1 }, {}, 400],
  ['an unknown key', FIVE_STEPS, {}, { authorization: 'Bearer unknown' }, 401],
] as const)('%s keeps fast properties', async (_name, steps, body, headers, status) => {
  recorded.length = 0
  handles.length = 0
  const routes = [{ path: '/v1/chat/completions', policy: 'test', unmetered: true }]
  await using gateway = await startInProcess({
    plugins: [keeps],
    steps: [{ use: 'keeps' }, ...steps],
    ...(steps === WITHOUT_CREDITS ? { yaml: { routes } } : {}),
  })
  const authorization = `Bearer ${gateway.key}`
  // Several requests, because V8 changes the shapes of objects during the first ones.
  for (let nth = 0; nth < 5; nth++) {
    const init = { headers: { 'content-type': 'application/json', authorization, ...headers } }
    const answer = await gateway.chat(body, init)
    await answer.text()
    expect(answer.status).toBe(status)
    await gateway.exchangeLine(answer.headers.get('x-request-id')!)
  }
  // After the stop no object changes any more.
  await gateway.stop()
  expect(recorded).toHaveLength(5)
  const slow = Object.entries(CHECKED).flatMap(([name, of]) => (recorded.some(each => !isFast(of(each))) ? [name] : []))
  expect(slow).toEqual([])
  expect(handles.map(isFast)).toEqual(Array(5).fill(true))
})
