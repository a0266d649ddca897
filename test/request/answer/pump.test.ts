import { describe, expect, test } from 'vitest'
import type { ChatCompletion, Chunk, Dialect } from '#contract'
import { StreamPump } from '../../../src/request/answer/pump.ts'
import { StreamAnswer } from '../../../src/request/answer/stream.ts'
import { type Tap, TapError } from '../../../src/request/answer/taps.ts'
import { bodyOf } from '../../../src/request/answer/whole.ts'
import { parseSse } from '../../helpers/sse.ts'
import { chunk, completion, finish, text, usage, usageChunk } from './chunks.ts'
import { COMPLETE, collecting, failed, LEFT, openai, parts, ROLE, streaming, USAGE } from './pumping.ts'
import { until } from './wire.ts'

describe('a stream that fails', () => {
  test.each<[name: string, events: (object | string)[], code: string]>([
    ['nothing at all', [], 'upstream_invalid'],
    ['the role only', [ROLE], 'upstream_truncated'],
    ['content without a finish', [ROLE, text('a')], 'upstream_truncated'],
    ['content and usage without a finish', [text('a'), usageChunk(USAGE)], 'upstream_truncated'],
    ['[DONE] at once', ['[DONE]'], 'upstream_truncated'],
    ['[DONE] without a finish', [text('a'), '[DONE]'], 'upstream_truncated'],
    ['[DONE] after an empty finish', [text('a'), finish(0, ''), '[DONE]'], 'upstream_truncated'],
    ['one of two choices unfinished', [text('a', 0), text('b', 1), finish(0)], 'upstream_truncated'],
    ['no JSON', [text('a'), '{"choices": [{'], 'upstream_invalid'],
    ['an error', [text('a'), { error: { message: 'x', type: 'server_error' } }], 'upstream_error'],
    ['an error at once', [{ error: { code: 429, message: 'x' } }], 'upstream_rate_limited'],
    ['an error after the finish', [text('a'), finish(), { error: { message: 'x' } }], 'upstream_error'],
    ['the finish reason "error"', [text('a'), finish(0, 'error')], 'upstream_error'],
    ['the finish reason "error" of one choice', [text('a'), finish(0), finish(1, 'error')], 'upstream_error'],
    [
      'no end after the finish',
      [text('a'), finish(), ...Array(300).fill(chunk({ p: 'x'.repeat(1000) }))],
      'upstream_invalid',
    ],
    ['content after the finish, and no other one', [text('a'), finish(), text('b')], 'upstream_truncated'],
  ])('%s: %s', async (_name, events, code) => {
    const { put, pump, ending, answer, client } = await streaming()
    if (events.length > 0) put(...events)
    pump.end()
    expect(await ending()).toEqual(failed(code))
    // No finish was sent: the error event is consistent. Before the first content nothing was sent at all.
    expect(client.headSent).toBe(events.some(event => JSON.stringify(event).includes('"content":"a"')))
    answer.fail({ message: 'm', type: 'server_error', param: null, code } as never)
  })

  test('with an event above the size limit: earlier content was sent', async () => {
    const { put, pump, ending, source, client } = await streaming({ largestBytes: 1000 })
    put(text('a'))
    for (let sent = 0; sent < 1000; sent += 100) pump.data(Buffer.alloc(100, 'x'))
    expect(source.aborts).toBe(0)
    pump.data(Buffer.from('x'))
    expect(await ending()).toEqual(failed('upstream_too_large'))
    expect([source.aborts, client.headSent]).toEqual([1, true])
  })

  test('with an event that does not fit into the memory', async () => {
    const held: number[] = []
    const holds = (bytes: number) => held.push(bytes) < 3
    const { pump, ending } = await streaming({ holds })
    for (let pieces = 0; pieces < 20; pieces++) pump.data(Buffer.alloc(64 * 1024, 'x'))
    expect(await ending()).toEqual(failed('overloaded'))
    // The first 256 KiB of a stream are not counted.
    expect(held).toEqual([5, 6, 7].map(pieces => pieces * 64 * 1024))
  })

  test('is aborted upstream at once', async () => {
    const { put, source, pump } = await streaming()
    put(text('a'), { error: { message: 'x' } }, text('b'), finish(), '[DONE]')
    expect(source.aborts).toBe(1)
    // Later bytes are ignored.
    expect(put(text('c'))).toBe(true)
    pump.end()
    pump.fail({ code: 'upstream_truncated', detail: '' })
    expect(source.aborts).toBe(1)
  })

  test('the first failure counts', async () => {
    const { pump, ending } = await streaming()
    pump.fail({ code: 'upstream_timeout', detail: 'one' })
    pump.fail({ code: 'upstream_truncated', detail: 'two' })
    pump.end()
    expect(await ending()).toEqual({ ending: 'failed', failure: { code: 'upstream_timeout', detail: 'one' } })
  })

  test('a decoder that throws ends this answer, without an exception', async () => {
    const dialect: Dialect = {
      ...openai,
      decodeStream: () => ({
        push: () => {
          throw new RangeError('too deep')
        },
        end: () => [],
      }),
    }
    const { put, ending, source } = await streaming({ dialect })
    expect(() => put(text('a'))).not.toThrow()
    expect(await ending()).toEqual({
      ending: 'failed',
      failure: { code: 'upstream_invalid', detail: 'the stream could not be read: RangeError: too deep' },
    })
    expect(source.aborts).toBe(1)
  })

  test('if the answer ended before the source was connected, the source is aborted', async () => {
    const { common, source } = await parts({})
    const answer = new StreamAnswer(common.client, [])
    const view = { model: 'm', includeUsage: false, exchange: 'req_1', createdAt: 1_700_000_000 }
    const pump = new StreamPump(common, openai.decodeStream(view), answer)
    pump.data(Buffer.from('data: {"error":{"message":"x"}}\n\n'))
    pump.feedFrom(source)
    expect(source.aborts).toBe(1)
  })
})

describe('a stream that succeeds', () => {
  test('begins with its first content', async () => {
    const { common, source } = await parts({})
    let begun = 0
    const onBegun = () => void begun++
    const view = { model: 'm', includeUsage: false, exchange: 'req_1', createdAt: 1_700_000_000 }
    const answer = new StreamAnswer(common.client, [])
    const pump = new StreamPump({ ...common, onBegun }, openai.decodeStream(view), answer)
    pump.feedFrom(source)
    const put = (chunk: object) => pump.data(Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`))
    put(ROLE)
    expect(begun).toBe(0)
    put(text('a'))
    put(text('b'))
    expect(begun).toBe(1)
  })

  test.each<[name: string, events: (object | string)[], end: boolean]>([
    ['with [DONE] and an end', [ROLE, text('a'), finish(), usageChunk(USAGE), '[DONE]'], true],
    ['with [DONE]; the end may come later', [ROLE, text('a'), finish(), usageChunk(USAGE), '[DONE]'], false],
    ['without [DONE]', [text('a'), finish(), usageChunk(USAGE)], true],
    ['without usage', [text('a'), finish(), '[DONE]'], true],
    ['without content', [finish(), usageChunk(USAGE), '[DONE]'], true],
    ['with two finishes', [text('a'), finish(), finish(), usageChunk(USAGE), '[DONE]'], true],
    ['with usage beside the finish', [text('a'), { ...finish(), usage: USAGE }, '[DONE]'], true],
    ['with usage first', [usageChunk(USAGE), text('a'), finish(), '[DONE]'], true],
    ['with one finish for two choices, and [DONE]', [text('a', 0), text('b', 1), finish(0), '[DONE]'], true],
    ['with more after [DONE]', [text('a'), finish(), '[DONE]', text('b'), { error: { message: 'x' } }], true],
  ])('%s', async (_name, events, end) => {
    const { put, pump, ending, source } = await streaming()
    put(...events)
    if (end) pump.end()
    expect(await ending()).toEqual(COMPLETE)
    expect(source.aborts).toBe(0)
  })

  test('a finish reason in every chunk: all text is delivered, counted and watched, and the stream finishes once', async () => {
    const seen: string[] = []
    const fn = (each: Chunk) => void seen.push(...each.choices.map(({ delta }) => String(delta?.content)))
    const { put, meter, answer, received, ending } = await streaming({ taps: [{ step: 0, kind: 'watch', fn }] })
    put(...['a', 'b', 'c'].map(content => chunk({ role: 'assistant', content }, 'stop')), '[DONE]')
    expect(await ending()).toEqual(COMPLETE)
    answer.finish()
    const all = await received('[DONE]\n\n')
    expect([...all.matchAll(/"content":"(.)"/g)].map(match => match[1])).toEqual(['a', 'b', 'c'])
    expect(all.match(/"finish_reason":"stop"/g)).toHaveLength(1)
    expect(seen).toEqual(['a', 'b', 'c'])
    expect(meter).toMatchObject({ countedTokens: 3, finish: 'stop' })
  })

  test('content after a finish reason, and [DONE]: the finish is sent after the content', async () => {
    const { put, meter, answer, received, ending } = await streaming({ includeUsage: true })
    put(text('a'), finish(0, 'length'), text('b'), usageChunk(USAGE), '[DONE]')
    expect(await ending()).toEqual(COMPLETE)
    answer.finish()
    const all = await received('[DONE]\n\n')
    expect(all).toMatch(/"a".*"b".*"length".*"prompt_tokens":7/s)
    expect(all.match(/"length"/g)).toHaveLength(1)
    expect(meter).toMatchObject({ countedTokens: 2, usage: USAGE })
  })

  test('an event without its blank line still counts when the body ends', async () => {
    const { pump, ending, meter } = await streaming()
    pump.data(Buffer.from(`data: ${JSON.stringify(text('a'))}\n\ndata: ${JSON.stringify(finish())}`))
    expect(await ending()).toBeNull()
    pump.end()
    expect(await ending()).toEqual(COMPLETE)
    expect(meter).toMatchObject({ started: true, finished: true, countedTokens: 1 })
  })

  test('its usage is known, whether the client sees it or not', async () => {
    for (const includeUsage of [false, true]) {
      const { put, meter, answer, received } = await streaming({ includeUsage })
      put(text('a'), finish(), usageChunk(USAGE), '[DONE]')
      answer.finish()
      expect(meter.usage).toEqual(USAGE)
      expect((await received('[DONE]\n\n')).includes('prompt_tokens')).toBe(includeUsage)
    }
  })

  test('of several usages the last one counts', async () => {
    const { put, meter } = await streaming()
    put({ ...text('a'), usage: usage(7, 1) }, { ...finish(), usage: usage(7, 5) }, '[DONE]')
    expect(meter.usage).toEqual(usage(7, 5))
  })

  test('the client gets content at once, and the end only after `finish()`', async () => {
    const { put, answer, received } = await streaming()
    put(ROLE, text('a'))
    expect(await received('"content":"a"')).not.toContain('finish_reason":"stop"')
    put(text('b'), finish(), '[DONE]')
    const before = await received('"content":"b"')
    expect(before).not.toContain('"stop"')
    expect(before).not.toContain('[DONE]')
    answer.finish()
    expect(await received('[DONE]')).toContain('"stop"')
  })

  test('if the body does not end within a second after [DONE], the connection is not kept', async () => {
    const { put, deadlineClock, source, client } = await streaming()
    put(finish(), '[DONE]')
    client.release()
    deadlineClock.advance(999)
    expect(source.aborts).toBe(0)
    deadlineClock.advance(1)
    expect(source.aborts).toBe(1)
    deadlineClock.advance(10_000)
    expect(source.aborts).toBe(1)
  })

  test('a body that ends after its [DONE] is not watched any further', async () => {
    const { put, pump, deadlineClock, source } = await streaming()
    const before = deadlineClock.watched
    put(finish(), '[DONE]')
    expect(deadlineClock.watched).toBe(before + 1)
    pump.end()
    expect(deadlineClock.watched).toBe(before)
    deadlineClock.advance(5_000)
    expect(source.aborts).toBe(0)
  })
})

describe('a client that does not keep up with a stream', () => {
  const large = text('x'.repeat(64 * 1024))

  test('pauses the source, and resumes it by reading', async () => {
    const { put, wire, source } = await streaming()
    wire.raw.pause()
    let puts = 0
    while (put(large)) if (++puts > 5_000) throw new Error('this client keeps up with everything')
    const before = source.resumes
    wire.raw.resume()
    await until(() => source.resumes > before)
  })

  test('resumes the source by disconnecting, too', async () => {
    const { put, source, leaves, ending } = await streaming({ onDisconnect: 'drain' })
    while (put(large));
    await leaves()
    expect(source.resumes).toBeGreaterThan(0)
    // After the disconnect, writes no longer pause the source.
    for (let i = 0; i < 20; i++) expect(put(large)).toBe(true)
    expect(await ending()).toBeNull()
  })
})

describe('a tap that throws in the middle of a stream', () => {
  test.each<Tap['kind']>(['watch', 'edit'])('%s: the error names the step, and the source is aborted', async kind => {
    const cause = new Error('bug')
    const fn = (each: Chunk) => {
      if (each.choices[0]?.delta.content === 'b') throw cause
      return each
    }
    const { put, ending, source, received } = await streaming({ taps: [{ step: 4, kind, fn } as Tap] })
    put(text('a'), text('b'), text('c'))
    expect(await ending()).toEqual({ ending: 'tapped', error: expect.objectContaining({ step: 4, cause }) })
    expect(source.aborts).toBe(1)
    expect(await received('"content":"a"')).not.toContain('"content":"b"')
  })
})

describe('a whole answer that fails', () => {
  const noFinish = completion('a')
  noFinish.choices[0]!.finish_reason = 'error'

  test.each<[name: string, body: object | string, code: string]>([
    ['nothing', '', 'upstream_invalid'],
    ['no JSON', '{"choices": [', 'upstream_invalid'],
    ['an error', { error: { message: 'x' } }, 'upstream_error'],
    ['the finish reason "error"', noFinish, 'upstream_error'],
  ])('%s', async (_name, body, code) => {
    const { put, pump, ending, meter } = await collecting()
    put(body)
    pump.end()
    expect(await ending()).toEqual(failed(code))
    expect(pump.body).toBeNull()
    // Nothing was delivered and nothing is charged.
    expect(meter).toMatchObject({ started: false, usage: null })
  })

  test('without memory for it: the source is aborted', async () => {
    const { pump, ending, source } = await collecting({ holds: bytes => bytes < 100 })
    pump.data(Buffer.alloc(99, 'x'))
    expect(source.aborts).toBe(0)
    pump.data(Buffer.from('x'))
    expect(await ending()).toEqual(failed('overloaded'))
    expect(source.aborts).toBe(1)
  })

  test('too large: the source is aborted, and the bytes are not kept', async () => {
    const largestBytes = 8 * 1024 * 1024
    const { pump, ending, source } = await collecting({ largestBytes })
    const piece = Buffer.alloc(1024 * 1024, 'x')
    for (let size = 0; size < largestBytes; size += piece.length) {
      expect(pump.data(piece)).toBe(true)
      expect(source.aborts).toBe(0)
    }
    pump.data(Buffer.from('x'))
    expect(await ending()).toEqual(failed('upstream_too_large'))
    expect(source.aborts).toBe(1)
    pump.data(piece)
    pump.end()
    expect(source.aborts).toBe(1)
  })

  test('a decoder that throws ends this answer, without an exception', async () => {
    const decodeAnswer = () => {
      throw new RangeError('too deep')
    }
    const { put, pump, ending } = await collecting({ dialect: { ...openai, decodeAnswer } })
    put('{}')
    expect(() => pump.end()).not.toThrow()
    expect(await ending()).toEqual(failed('upstream_invalid'))
  })

  test.each<Tap['kind']>(['watch', 'edit'])('the error of a %s names its step', async kind => {
    const fn = () => {
      throw new Error('bug')
    }
    const { put, pump, ending } = await collecting({ taps: [{ step: 4, kind, fn } as Tap] })
    put(completion('a'))
    pump.end()
    const end = await ending()
    expect(end).toMatchObject({ ending: 'tapped', error: { step: 4 } })
    expect((end as { error: unknown }).error).toBeInstanceOf(TapError)
  })
})

describe('a whole answer that succeeds', () => {
  test('is kept until the gateway sends it', async () => {
    const { put, pump, ending, meter, client } = await collecting()
    put(completion('abcdefgh'))
    expect(await ending()).toBeNull()
    pump.end()
    expect(await ending()).toEqual(COMPLETE)
    expect(JSON.parse(pump.body!.toString())).toEqual(completion('abcdefgh'))
    expect(meter).toMatchObject({ started: true, finished: true, countedTokens: 2, usage: usage(3, 1) })
    expect(client.headSent).toBe(false)
  })

  test('may come in pieces, cut anywhere', async () => {
    const { pump, ending } = await collecting()
    for (const byte of Buffer.from(JSON.stringify(completion('na\u00efve \u{1f600}')))) pump.data(Buffer.of(byte))
    pump.end()
    expect(await ending()).toEqual(COMPLETE)
    expect(JSON.parse(pump.body!.toString())).toEqual(completion('na\u00efve \u{1f600}'))
  })

  test.each([
    ['of the declared length, in one piece', 0, []],
    ['of the declared length, in two pieces', 0, [100]],
    ['shorter than declared', 1, []],
    ['longer than declared', -1, [-1]],
  ])('may be %s', async (_name, more, cuts) => {
    const { pump, ending, source } = await collecting()
    const bytes = Buffer.from(JSON.stringify(completion('abcdefgh')))
    source.expectedBytes = bytes.length + more
    let at = 0
    for (const cut of [...cuts, bytes.length]) {
      pump.data(bytes.subarray(at, cut < 0 ? bytes.length + cut : cut))
      at = cut < 0 ? bytes.length + cut : cut
    }
    pump.end()
    expect(await ending()).toEqual(COMPLETE)
    expect(JSON.parse(pump.body!.toString())).toEqual(completion('abcdefgh'))
  })

  test('all choices are counted', async () => {
    const { put, pump, meter } = await collecting()
    put({ ...completion('abcdefgh', 'abcdefgh', { role: 'assistant', content: null, tool_calls: [] }), usage: null })
    pump.end()
    expect(meter).toMatchObject({ countedTokens: 4, usage: null })
  })

  test('is the answer after the taps', async () => {
    const fn = (each: Chunk) => ({
      ...each,
      choices: [{ ...each.choices[0]!, delta: { role: 'assistant', content: '***' } }],
    })
    const { put, pump } = await collecting({ taps: [{ step: 0, kind: 'edit', fn }] })
    put(completion('secret'))
    pump.end()
    expect(JSON.parse(pump.body!.toString())).toEqual(completion('***'))
  })
})

describe('the client disconnects from a whole answer', () => {
  test.each<[name: string, body: string | null]>([
    ['before anything came', null],
    ['in the middle', '{"choices":['],
  ])('cancel: %s', async (_name, body) => {
    const { put, leaves, ending, source, meter } = await collecting()
    if (body) put(body)
    await leaves()
    expect(await ending()).toEqual(LEFT)
    expect(source.aborts).toBe(1)
    expect(meter.started).toBe(false)
  })

  test('drain: the rest is read for its usage', async () => {
    const { pump, leaves, ending, source, meter } = await collecting({ onDisconnect: 'drain' })
    const bytes = Buffer.from(JSON.stringify(completion('a')))
    pump.data(bytes.subarray(0, 20))
    await leaves()
    expect(await ending()).toBeNull()
    pump.data(bytes.subarray(20))
    pump.end()
    expect(await ending()).toEqual(LEFT)
    expect(source.aborts).toBe(0)
    expect(meter).toMatchObject({ started: true, usage: usage(3, 1) })
    expect(pump.body).toBeNull()
  })

  test('drain: thirty seconds at most', async () => {
    const { leaves, ending, source, deadlineClock } = await collecting({ onDisconnect: 'drain' })
    await leaves()
    deadlineClock.advance(29_999)
    expect(await ending()).toBeNull()
    deadlineClock.advance(1)
    expect(await ending()).toEqual(LEFT)
    expect(source.aborts).toBe(1)
  })

  test('drain: a failure is not reported to the client', async () => {
    const { put, pump, leaves, ending } = await collecting({ onDisconnect: 'drain' })
    await leaves()
    put('{"choices": [')
    pump.end()
    expect(await ending()).toEqual(LEFT)
  })

  test('a cut by the gateway is reported as such', async () => {
    const { pump, ending, source } = await collecting()
    pump.cut()
    expect(await ending()).toEqual({ ending: 'cut' })
    expect(source.aborts).toBe(1)
  })
})

describe('the bytes of a whole answer', () => {
  const raw = Buffer.from('{"the provider’s":"own"}')
  const answer: ChatCompletion = completion('a')
  const look: Tap = { step: 0, kind: 'watch', fn: () => {} }
  const edit: Tap = { step: 0, kind: 'edit', fn: each => each }

  test.each<[name: string, raw: Buffer | null, taps: Tap[], own: boolean]>([
    ['are those of the provider', raw, [], true],
    ['are those of the provider if it is only watched', raw, [look], true],
    ['are new when it is edited', raw, [look, edit], false],
    ['are new when the provider’s cannot be used', null, [look], false],
    ['are new when the provider’s cannot be used and no tap reads', null, [], false],
  ])('%s', (_name, bytes, taps, own) => {
    const body = bodyOf({ completion: answer, raw: bytes }, taps)
    if (own) expect(body).toBe(raw)
    else expect(JSON.parse(body.toString())).toEqual(answer)
  })
})

test('the client gets a strictly formatted stream, whatever the provider sent', async () => {
  const { pump, answer, received } = await streaming({ includeUsage: true })
  const pretty = JSON.stringify(chunk({ role: 'assistant', content: 'a\nb' }), null, 2)
    .replace(/^/gm, 'data:')
    .replaceAll('\n', '\r\n')
  pump.data(Buffer.from(`\ufeff: hi\r\n\r\nevent: x\nid: 7\n${pretty}\r\n\r\n`))
  pump.data(
    Buffer.from(`data:${JSON.stringify(finish())}\r\rdata: ${JSON.stringify(usageChunk(USAGE))}\n\ndata: [DONE]`),
  )
  pump.end()
  answer.finish()
  const whole = (await received('[DONE]\n\n')).replace(/^[0-9a-f]+\r\n|\r\n/gm, '')
  const { events, done } = parseSse(whole.slice(0, whole.indexOf('[DONE]\n\n') + 8))
  expect(done).toBe(true)
  expect(events.map(({ data }) => JSON.parse(data))).toEqual([
    chunk({ role: 'assistant', content: 'a\nb' }),
    finish(),
    usageChunk(USAGE),
  ])
})
