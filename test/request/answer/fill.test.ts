/** The positions of filled-in finish reasons in a stream of a provider that omits them. */
import { describe, expect, test } from 'vitest'
import { chunksOf, parseSse } from '../../helpers/sse.ts'
import { chunk, finish, text, usageChunk } from './chunks.ts'
import { COMPLETE, failed, streaming, USAGE } from './pumping.ts'

describe('in a stream a missing finish reason is filled in', () => {
  const USAGE_AT_END = usageChunk(USAGE)
  const filled = finish()
  const BEGUN = [0, 1].map(index => chunk({ role: 'assistant' }, null, index))

  test.each<[name: string, events: (object | string)[], leaves: object[]]>([
    ['before the usage', [text('a'), USAGE_AT_END, '[DONE]'], [text('a'), filled, USAGE_AT_END]],
    [
      'before a usage beside an empty piece',
      [text('a'), { ...text(''), usage: USAGE }, '[DONE]'],
      [text('a'), { ...text(''), usage: null }, filled, USAGE_AT_END],
    ],
    [
      'before the last of several usages',
      [text('a'), USAGE_AT_END, USAGE_AT_END, '[DONE]'],
      [text('a'), filled, USAGE_AT_END],
    ],
    [
      'after content that follows a usage',
      [text('a'), USAGE_AT_END, text('b'), '[DONE]'],
      [text('a'), text('b'), filled, USAGE_AT_END],
    ],
    [
      'not if one comes after the usage',
      [text('a'), USAGE_AT_END, finish(0, 'length'), '[DONE]'],
      [text('a'), finish(0, 'length'), USAGE_AT_END],
    ],
    ['not if one arrives', [text('a'), filled, USAGE_AT_END, '[DONE]'], [text('a'), filled, USAGE_AT_END]],
    [
      'for each choice',
      [text('a', 0), text('b', 1), USAGE_AT_END, '[DONE]'],
      [
        text('a', 0),
        text('b', 1),
        { ...filled, choices: [0, 1].map(index => ({ index, delta: {}, finish_reason: 'stop' })) },
        USAGE_AT_END,
      ],
    ],
  ])('%s', async (_name, events, leaves) => {
    for (const taps of [[], [{ step: 0, kind: 'watch', fn: async () => {} }] as const]) {
      const { put, answer, received, ending, meter } = await streaming({ includeUsage: true, fillsFinish: true, taps })
      put(...BEGUN, ...events)
      let end = await ending()
      while (end === null) end = await ending()
      expect(end).toEqual(COMPLETE)
      expect(meter.usage).toEqual(USAGE)
      answer.finish()
      const whole = (await received('[DONE]\n\n')).replace(/^[0-9a-f]+\r\n|\r\n/gm, '')
      expect(chunksOf(parseSse(whole.slice(0, whole.indexOf('[DONE]\n\n') + 8)))).toEqual([...BEGUN, ...leaves])
    }
  })

  test('its usage is known when the stream breaks off after it', async () => {
    const { put, pump, ending, meter } = await streaming({ includeUsage: true, fillsFinish: true })
    put(text('a'), USAGE_AT_END)
    pump.end()
    expect(await ending()).toEqual(failed('upstream_truncated'))
    expect(meter.usage).toEqual(USAGE)
  })
})
