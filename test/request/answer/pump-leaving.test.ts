/** A client that disconnects from its stream, and a gateway that cuts it. */
import { describe, expect, test } from 'vitest'
import { StreamPump } from '../../../src/request/answer/pump.ts'
import { StreamAnswer } from '../../../src/request/answer/stream.ts'
import { finish, text, usage, usageChunk } from './chunks.ts'
import { COMPLETE, chatOf, LEFT, openai, type PumpOptions, parts, ROLE, streaming, USAGE } from './pumping.ts'
import { until } from './wire.ts'

describe('the client disconnects from a stream', () => {
  const MOMENTS: [name: string, events: (object | string)[], finished: boolean][] = [
    ['before anything came', [], false],
    ['after the role', [ROLE], false],
    ['after some content', [ROLE, text('a'), text('b')], false],
    ['after the finish of one of two choices', [text('a', 0), text('b', 1), finish(0)], false],
    ['after the finish', [text('a'), finish()], true],
    ['after the usage', [text('a'), finish(), usageChunk(USAGE)], true],
  ]

  for (const how of ['fin', 'reset'] as const) {
    test.each(MOMENTS)(`cancel: %s (${how})`, async (_name, events, finished) => {
      const { put, leaves, ending, source } = await streaming()
      if (events.length > 0) put(...events)
      await leaves(how)
      expect(await ending()).toEqual(finished ? null : LEFT)
      expect(source.aborts).toBe(finished ? 0 : 1)
    })
  }

  test.each(MOMENTS)('drain: %s; the rest is read for its usage', async (_name, events) => {
    const { put, pump, leaves, ending, source, meter } = await streaming({ onDisconnect: 'drain' })
    if (events.length > 0) put(...events)
    await leaves()
    expect(await ending()).toBeNull()
    put(text('c', 1), finish(0), finish(1), usageChunk(USAGE), '[DONE]')
    pump.end()
    expect(await ending()).toEqual(LEFT)
    expect(source.aborts).toBe(0)
    expect(meter.usage).toEqual(USAGE)
  })

  test('after the finish the pump waits two seconds for the usage', async () => {
    const { put, leaves, ending, source, deadlineClock, meter } = await streaming()
    put(text('a'), finish())
    await leaves()
    deadlineClock.advance(1_999)
    expect(await ending()).toBeNull()
    put(usageChunk(USAGE))
    expect(meter.usage).toEqual(USAGE)
    deadlineClock.advance(1)
    expect(await ending()).toEqual(LEFT)
    expect(source.aborts).toBe(1)
  })

  test('the wait ends early when the usage and the end arrive', async () => {
    const { put, leaves, ending, source, deadlineClock } = await streaming()
    put(text('a'), finish())
    await leaves()
    const before = deadlineClock.watched
    put(usageChunk(USAGE), '[DONE]')
    expect(await ending()).toEqual(LEFT)
    expect(source.aborts).toBe(0)
    expect(deadlineClock.watched).toBe(before)
  })

  test('a request that waits for a connection is not sent, even with drain', async () => {
    const { leaves, ending, source } = await streaming({ onDisconnect: 'drain' })
    source.isSent = false
    await leaves()
    expect(await ending()).toEqual(LEFT)
    expect(source.aborts).toBe(1)
  })

  test('draining takes thirty seconds at most', async () => {
    const { put, leaves, ending, source, deadlineClock } = await streaming({ onDisconnect: 'drain' })
    put(text('a'))
    await leaves()
    for (let second = 0; second < 29; second++) {
      deadlineClock.advance(1_000)
      put(text('b'))
    }
    expect(await ending()).toBeNull()
    deadlineClock.advance(1_000)
    expect(await ending()).toEqual(LEFT)
    expect(source.aborts).toBe(1)
  })

  test('a provider that repeats its finish gets two seconds once', async () => {
    const { put, leaves, ending, deadlineClock } = await streaming({ onDisconnect: 'drain' })
    put(text('a'))
    await leaves()
    deadlineClock.advance(10_000)
    put(finish())
    deadlineClock.advance(1_500)
    put(finish(), text('b'))
    deadlineClock.advance(499)
    expect(await ending()).toBeNull()
    deadlineClock.advance(1)
    expect(await ending()).toEqual(LEFT)
  })

  test('while the stream drains, one finished choice of two is not the end', async () => {
    const { put, leaves, ending, deadlineClock } = await streaming({ onDisconnect: 'drain' })
    put(text('a', 0), text('b', 1))
    await leaves()
    put(finish(0))
    deadlineClock.advance(10_000)
    expect(await ending()).toBeNull()
    put(finish(1))
    deadlineClock.advance(2_000)
    expect(await ending()).toEqual(LEFT)
  })

  test('a failure while the stream drains is not reported to the client', async () => {
    const { put, pump, leaves, ending } = await streaming({ onDisconnect: 'drain' })
    put(text('a'))
    await leaves()
    pump.fail({ code: 'upstream_truncated', detail: '' })
    expect(await ending()).toEqual(LEFT)
  })

  test('if the client disconnected before the source was connected, the source is aborted', async () => {
    const { common, wire, client, source, ending } = await parts({})
    wire.raw.reset()
    await until(() => client.left)
    const decoder = openai.decodeStream({
      model: 'm',
      includeUsage: false,
      exchange: 'req_1',
      createdAt: 1_700_000_000,
    })
    const pump = new StreamPump(common, decoder, new StreamAnswer(client, []))
    pump.feedFrom(source)
    expect(source.aborts).toBe(1)
    expect(await ending()).toEqual(LEFT)
  })

  type Events = readonly (object | string)[]
  test.each<[name: string, options: PumpOptions, before: Events, after: Events | null, spent: unknown]>([
    ['before anything', {}, [], null, [6, 0, 'estimated']],
    ['after its usage', {}, [usageChunk(usage(7, 1))], null, [7, 1, 'reported']],
    ['after a usage of zeros', {}, [usageChunk(usage(0, 0))], null, [6, 0, 'estimated']],
    ['and then half a minute passes', { onDisconnect: 'drain' }, [ROLE], [], [6, 0, 'estimated']],
    ['and then a token comes', { onDisconnect: 'drain' }, [], [text('a')], [6, 1, 'estimated']],
    ['after a finish without a token', {}, [finish()], [], null],
  ])('the usage after a disconnect before the first token: %s', async (_name, options, before, after, spent) => {
    const { put, pump, leaves, ending, meter, deadlineClock } = await streaming(options)
    meter.begin(chatOf('Hello'), 100)
    if (before.length > 0) put(...before)
    await leaves()
    if (after && after.length > 0) put(...after)
    if (after) deadlineClock.advance(30_000)
    expect(await ending()).toEqual(LEFT)
    expect(meter.abandoned).toBe(spent !== null)
    const used = meter.spent(false)
    expect(used && [used.input, used.output, used.source]).toEqual(spent)
    pump.end()
    expect(meter.abandoned).toBe(spent !== null)
  })

  test.each<[name: string, of: (pump: StreamPump) => void]>([
    ['the provider fails', pump => pump.fail({ code: 'upstream_error', detail: '' })],
    ['the answer ends by itself', pump => pump.end()],
  ])(
    '%s while the stream drains, before the first token: the same charge as without the disconnect',
    async (_name, end) => {
      const { pump, leaves, ending, meter } = await streaming({ onDisconnect: 'drain' })
      meter.begin(chatOf('Hello'), 100)
      await leaves()
      end(pump)
      expect(await ending()).toEqual(LEFT)
      expect(meter.abandoned).toBe(false)
      expect(meter.spent(false)).toBeNull()
    },
  )

  test('a request that was not sent, or was answered by an error, used nothing', async () => {
    const { leaves, ending, source, meter } = await streaming()
    source.isBillable = false
    await leaves()
    expect(await ending()).toEqual(LEFT)
    expect(meter.abandoned).toBe(false)
  })

  test('disconnecting twice, or after the end, does nothing', async () => {
    const { put, pump, leaves, ending, source } = await streaming()
    put(finish(), '[DONE]')
    pump.end()
    expect(await ending()).toEqual(COMPLETE)
    await leaves()
    pump.leave()
    expect(await ending()).toEqual(COMPLETE)
    expect(source.aborts).toBe(0)
  })

  test('content that arrives after the disconnect is counted: the provider sent it', async () => {
    const { put, leaves, meter } = await streaming({ onDisconnect: 'drain' })
    put(text('a'))
    await leaves()
    put(text('b'), text('c'))
    expect(meter.countedTokens).toBe(3)
  })
})

describe('a stream that is cut', () => {
  test.each<[string, object[]]>([
    ['before anything', []],
    ['in the middle', [text('a')]],
    ['after its finish', [text('a'), finish()]],
  ])('%s', async (_name, events) => {
    const { put, pump, ending, source } = await streaming()
    if (events.length > 0) put(...events)
    pump.cut()
    expect(await ending()).toEqual({ ending: 'cut' })
    expect(source.aborts).toBe(1)
    pump.cut()
    pump.leave()
    expect(source.aborts).toBe(1)
  })

  test('while it drains', async () => {
    const { put, pump, leaves, ending, deadlineClock, meter } = await streaming({ onDisconnect: 'drain' })
    put(text('a'))
    await leaves()
    pump.cut()
    expect(await ending()).toEqual({ ending: 'cut' })
    expect(deadlineClock.watched).toBe(0)
    expect(meter.abandoned).toBe(true)
  })
})
