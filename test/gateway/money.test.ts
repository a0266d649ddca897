/** One balance, many simultaneous requests: only as many succeed as it covers, and it is never negative. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { formatMoney } from '#contract'
import { countsOf } from '../helpers/counts.ts'
import { exact, type FakeProvider, startFakeProvider, withhold } from '../helpers/fake-provider.ts'
import { type Account, FIVE_STEPS, shareGateways } from '../helpers/in-process.ts'

const counts = countsOf('floods')

const BODY = { max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] }
const CALLERS = 1000
const PAID = 10

let provider: FakeProvider
let gateway: Account
let hold: bigint
// A thousand requests at once are an overload for a slow machine.
const start = shareGateways(() => ({ provider: provider.baseUrl, yaml: { limits: { event_loop: '1m' } } }))

/** The hold of one such request, taken from a first one's receipt. */
async function holdOf(body: object): Promise<bigint> {
  const rich = await start()
  const answer = await rich.chat({ ...body })
  expect(answer.status).toBe(200)
  return rich.receipt(answer)!.held
}

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: 3 }) })
  hold = await holdOf(BODY)
  gateway = await start({
    credit: formatMoney(hold * BigInt(PAID)),
    steps: FIVE_STEPS.map(step =>
      'use' in step && step.use === 'credits' ? { use: 'credits', with: { when_short: ['refuse'] } } : step,
    ),
  })
})
afterAll(() => provider.close())

test(`${CALLERS} requests at once on a balance for ${PAID}: exactly ${PAID} are sent, and released credit allows more`, async () => {
  for (let round = 0; round < counts(1, 10); round++) {
    provider.script(withhold(exact({ tokens: 3 })))
    const before = provider.requests.length
    const lowest = sampleBalance()
    const answers = Array.from({ length: CALLERS }, () => gateway.chat(BODY))
    let refused = 0
    const { promise: allDecided, resolve } = Promise.withResolvers<void>()
    for (const answer of answers) {
      void answer.then(({ status }) => {
        if (status !== 200 && ++refused === CALLERS - PAID) resolve()
      })
    }
    // The provider sends nothing until all other requests were refused.
    await allDecided
    // The last of the ten may still be in transit.
    await provider.waitForRequest(before + PAID - 1)
    expect(provider.requests.length - before).toBe(PAID)
    expect(gateway.balance().held).toBe(hold * BigInt(PAID))
    for (const request of provider.requests.slice(before)) request.release()

    const statuses = (await Promise.all(answers)).map(answer => answer.status)
    expect(statuses.filter(status => status === 200).length).toBe(PAID)
    for (const answer of await Promise.all(answers)) {
      if (answer.status === 200) continue
      expect(answer.headers.get('retry-after')).toBe('1')
      expect(answer.headers.get('x-should-retry')).toBe(null)
      expect(await answer.json()).toMatchObject({ error: { code: 'credit_on_hold' } })
    }
    expect(lowest.stop()).toBeGreaterThanOrEqual(0n)
    expect(gateway.balance().held).toBe(0n)

    // Each was charged 16,000 nano-dollars of its hold; the rest is available again.
    provider.script(exact({ tokens: 3 }))
    const available = gateway.balance().posted
    for (let more = 0n; more < available / hold && more < 3n; more++)
      expect((await gateway.chat(BODY)).status).toBe(200)
    await gateway.running.store.credit({
      account: gateway.accountId,
      amount: hold * BigInt(PAID) - gateway.balance().posted,
      reference: `round-${round}`,
      actor: 'test',
    })
  }
})

test('a balance that is too small is 402, and the SDKs must not retry', async () => {
  const poor = await start({ credit: '0.000001' })
  const answer = await poor.chat(BODY)
  expect(answer.status).toBe(402)
  expect(answer.headers.get('x-should-retry')).toBe('false')
  expect(await answer.json()).toMatchObject({ error: { code: 'insufficient_quota', type: 'insufficient_quota' } })
})

test('a small balance lowers the output cap, sends that cap upstream and reports it', async () => {
  const short = await start({ credit: '0.000600' })
  const index = provider.requests.length
  const answer = await short.chat({ max_tokens: 900 })
  expect(answer.status).toBe(200)
  const cap = Number(answer.headers.get('x-tollgate-max-output-tokens'))
  expect(cap).toBeGreaterThanOrEqual(64)
  expect(cap).toBeLessThan(900)
  expect(provider.requests[index]?.body).toMatchObject({ max_completion_tokens: cap })
  expect(provider.requests[index]?.body).not.toHaveProperty('max_tokens')
  expect(short.receipt(answer)!.held).toBeLessThanOrEqual(300_000n)
})

/** Reads the balance every millisecond, and remembers the lowest available amount. */
function sampleBalance(): { stop(): bigint } {
  let lowest = gateway.balance().posted
  const timer = setInterval(() => {
    const { posted, held } = gateway.balance()
    if (posted - held < lowest) lowest = posted - held
  }, 1)
  return {
    stop() {
      clearInterval(timer)
      return lowest
    },
  }
}
