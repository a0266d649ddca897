import { describe, expect, test } from 'vitest'
import { definePlugin } from '#contract'
import { openBench, STANDARD_STEPS } from '../../src/testing/index.ts'

const NO_SETTINGS = { type: 'object', additionalProperties: false, properties: {} } as const

test('an error in the steps is reported with its place', async () => {
  await expect(openBench({ steps: [{ use: 'api-key' }, { use: 'shema' }] })).rejects.toThrow(
    /"shema"[\s\S]*did you mean "schema"/,
  )
  await expect(openBench({ clock: 'soon' })).rejects.toThrow('"soon" is not a time')
})

test.each([
  ['an error status', { status: 500 }, 502, 'upstream_error', 0],
  ['no connection', { fault: 'unreachable' }, 502, 'upstream_unreachable', 0],
  ['silence', { fault: 'silent' }, 200, 'upstream_timeout', 0],
  ['a break', { content: ['a', 'b', 'c'], fault: 'reset', after: 2 }, 200, 'upstream_truncated', 2],
  ['silence in the middle', { content: ['a', 'b', 'c'], fault: 'silent', after: 1 }, 200, 'upstream_timeout', 1],
  ['garbage', { content: ['a', 'b', 'c'], fault: 'garbage', after: 1 }, 200, 'upstream_invalid', 1],
] as const)('%s of the provider reaches the client of a stream', async (_name, said, status, code, chunks) => {
  await using bench = await openBench()
  bench.upstream.script(said)
  const answer = await bench.chat({ stream: true })
  expect(answer).toMatchObject({ status, error: { code } })
  expect(answer.events.filter(event => typeof event === 'object' && event !== null && 'choices' in event)).toHaveLength(
    chunks,
  )
  expect(bench.ledger.openHolds()).toBe(0)
})

test.each([0, 1, 2, 3])(
  'a client that disconnects after %i events pays for those and the prompt, and the upstream request is aborted',
  async events => {
    await using bench = await openBench()
    bench.upstream.script({ content: ['a', 'b', 'c', 'd', 'e'] })
    const answer = await bench.chat({ stream: true }, { leaveAfter: events })
    expect(answer.left).toBe(true)
    expect(answer.events).toHaveLength(events)
    expect(bench.record(answer)?.outcome).toBe('client_left')
    expect(bench.upstream.calls[0]!.end).toBe('aborted')
    const { charged, source } = bench.ledger.receipt(answer)!
    expect(charged! > 0n).toBe(true)
    expect(source).toBe(events > 0 ? 'estimated' : 'prompt_estimated')
    expect(bench.ledger.balance()).toEqual({ posted: 10_000_000_000n - charged!, held: 0n })
  },
)

describe('time', () => {
  test('stops until it is advanced', async () => {
    const steps = [
      STANDARD_STEPS[0]!,
      { use: 'rate-limit', with: { per: 'key', requests: '1 per hour' } },
      ...STANDARD_STEPS.slice(1),
    ]
    await using bench = await openBench({ steps, clock: '2027-06-01T00:00:00Z' })
    expect(new Date(bench.clock.now()).toISOString()).toBe('2027-06-01T00:00:00.000Z')
    expect((await bench.chat()).status).toBe(200)
    expect((await bench.chat()).status).toBe(429)
    await bench.clock.pass(3_599_000)
    expect((await bench.chat()).status).toBe(429)
    await bench.clock.pass(1_000)
    expect((await bench.chat()).status).toBe(200)
  })

  test('advances by itself while the gateway waits for a retry', async () => {
    await using bench = await openBench({ steps: [...STANDARD_STEPS.slice(0, 3), { use: 'route' }] })
    bench.upstream.script([{ status: 503 }, { content: 'Well again.' }])
    expect((await bench.chat()).content).toBe('Well again.')
    expect(bench.upstream.calls).toHaveLength(2)
  })
})

test('the upstream request and the answer to the client, whole and streamed', async () => {
  await using bench = await openBench({ credit: '1' })
  bench.upstream.script(({ body }, nth) => ({ content: [`${nth}:`, String(body?.['stream'] ?? false)] }))
  const whole = await bench.chat({ max_tokens: 7 })
  const stream = await bench.chat({ stream: true })
  expect([whole.content, stream.content]).toEqual(['0:false', '1:true'])
  expect([whole.isWhole, stream.events.at(-1)]).toEqual([true, '[DONE]'])
  expect(bench.upstream.calls[0]).toMatchObject({
    provider: 'p',
    body: { model: 'upstream-model', max_completion_tokens: 7 },
  })
  // Ten prompt tokens and two of the answer, at $1 and $2 a million.
  expect(bench.ledger.receipt(whole)).toMatchObject({ charged: 14_000n, source: 'reported' })
  expect(bench.ledger.verify().violations).toEqual([])
})

test('a reload in the middle of a stream: it continues with its step, which is then disposed', async () => {
  const lives: string[] = []
  const mine = definePlugin({
    name: 'mine',
    settings: NO_SETTINGS,
    create() {
      const number = lives.filter(life => life.startsWith('created')).length + 1
      lives.push(`created ${number}`)
      return {
        async handle(ctx, next) {
          ctx.exchange.note(`step ${number}`)
          await next()
          lives.push(`step ${number} is over`)
        },
        dispose: () => void lives.push(`disposed ${number}`),
      }
    },
  })
  await using bench = await openBench({ plugins: [mine], steps: [{ use: 'mine' }, ...STANDARD_STEPS] })
  bench.upstream.script({
    async onPiece(nth) {
      if (nth === 2) await bench.reload()
    },
  })
  const first = await bench.chat({ stream: true })
  bench.upstream.script({})
  const second = await bench.chat()
  expect([first, second].map(answer => bench.trail(answer)[0]?.note)).toEqual(['step 1', 'step 2'])
  expect(first.events.at(-1)).toBe('[DONE]')
  expect(lives).toEqual(['created 1', 'created 2', 'step 1 is over', 'disposed 1', 'step 2 is over'])
})

test('a crash in the middle of a stream: recovery releases what was held', async () => {
  await using bench = await openBench({ store: 'file' })
  let found: Awaited<ReturnType<typeof bench.crash>> | null = null
  bench.upstream.script({
    async onPiece(nth) {
      if (nth !== 2) return
      expect(bench.ledger.openHolds()).toBe(1)
      found = await bench.crash()
    },
  })
  await bench.chat({ stream: true })
  expect(found).toMatchObject({
    report: { settled: 1 },
    openHolds: 0,
    violations: [],
    balances: [{ posted: 10_000_000_000n, held: 0n }],
  })
})
