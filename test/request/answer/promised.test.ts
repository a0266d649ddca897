/** Edits that return promises. */
import { describe, expect, test } from 'vitest'
import { type Chunk, refuse } from '#contract'
import type { Tap } from '../../../src/request/answer/taps.ts'
import { chunk, completion, finish, text, usageChunk } from './chunks.ts'
import { COMPLETE, collecting, failed, LEFT, streaming, USAGE } from './pumping.ts'

describe('an edit that returns a promise', () => {
  /** An edit whose promises the test resolves. */
  function slowEdit() {
    const waiting: {
      readonly chunk: Chunk
      readonly resolve: (result: Chunk | null) => void
      readonly reject: (error: Error) => void
    }[] = []
    const fn = (each: Chunk) => {
      if (each.choices[0]?.delta.content !== 'slow') return each
      return new Promise<Chunk | null>((resolve, reject) => void waiting.push({ chunk: each, resolve, reject }))
    }
    return { waiting, taps: [{ step: 4, kind: 'edit', fn }] as Tap[] }
  }
  const turn = () => new Promise(resolve => setImmediate(resolve))
  const contentsOf = (body: string) =>
    [...body.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => (JSON.parse(data!) as Chunk).choices[0]?.delta.content)

  test.each(['[DONE]', 'the end of the body'])('withholds later chunks, and the end (%s)', async how => {
    const { taps, waiting } = slowEdit()
    const { put, pump, ending, source, received, answer } = await streaming({ taps })
    expect(put(text('a'))).toBe(true)
    expect(put(text('slow'), text('b'))).toBe(false)
    expect(put(text('slow'), finish(), usageChunk(USAGE))).toBe(false)
    if (how === '[DONE]') put('[DONE]')
    pump.end()
    // A connection that breaks after the end has no effect.
    pump.fail({ code: 'upstream_unreachable', detail: 'reset' })
    expect(await ending()).toBeNull()
    expect(contentsOf(await received('"content":"a"'))).toEqual(['a'])
    expect(waiting).toHaveLength(1)
    waiting[0]!.resolve(text('done'))
    await turn()
    expect(await ending()).toBeNull()
    waiting[1]!.resolve(null)
    await turn()
    expect(await ending()).toEqual(COMPLETE)
    answer.finish()
    expect(contentsOf(await received('[DONE]'))).toEqual(['a', 'done', 'b', undefined])
    expect(source.resumes).toBe(0)
  })

  test('pauses upstream until it is done', async () => {
    const { taps, waiting } = slowEdit()
    const { put, ending, source } = await streaming({ taps })
    expect(put(text('slow'))).toBe(false)
    expect(source.resumes).toBe(0)
    waiting[0]!.resolve(text('done'))
    expect(await ending()).toBeNull()
    expect(source.resumes).toBe(1)
    expect(put(text('b'), finish())).toBe(true)
  })

  test('that rejects: the error names the step, and no later chunk is sent', async () => {
    const { taps, waiting } = slowEdit()
    const { put, ending, source, received } = await streaming({ taps })
    put(text('a'), text('slow'), text('b'), text('slow'))
    const cause = new Error('bug')
    waiting[0]!.reject(cause)
    expect(await ending()).toEqual({ ending: 'tapped', error: expect.objectContaining({ step: 4, cause }) })
    expect(source.aborts).toBe(1)
    expect(waiting).toHaveLength(1)
    expect(await received('"content":"a"')).not.toContain('"content":"b"')
  })

  test.each(['leaves', 'breaks'])(
    'while the connection of the client or provider ends (%s): the answer ends at once, and the result of the promise is discarded',
    async how => {
      const { taps, waiting } = slowEdit()
      const { put, pump, ending, leaves, answer, wire } = await streaming({ taps })
      put(text('a'), text('slow'), text('b'))
      if (how === 'leaves') await leaves()
      else {
        pump.fail({ code: 'upstream_unreachable', detail: 'reset' })
        answer.fail(refuse('upstream_unreachable'))
      }
      expect(await ending()).toEqual(how === 'leaves' ? LEFT : failed('upstream_unreachable'))
      waiting[0]!.resolve(text('done'))
      await turn()
      expect(wire.raw.received().toString()).not.toMatch(/done|"content":"b"/)
    },
  )

  test.each([
    ['is kept', COMPLETE],
    ['is rejected', { ending: 'tapped', error: expect.objectContaining({ step: 4 }) }],
    ['is kept for a client that has disconnected', LEFT],
  ])('of a whole answer %s', async (name, expected) => {
    const { taps, waiting } = slowEdit()
    const { put, pump, ending, leaves } = await collecting({ taps })
    put(completion('slow', 'b'))
    pump.end()
    expect(await ending()).toBeNull()
    if (name.endsWith('disconnected')) await leaves()
    if (name === 'is rejected') waiting[0]!.reject(new Error('bug'))
    else waiting[0]!.resolve(chunk({ role: 'assistant', content: 'done' }, 'stop'))
    expect(await ending()).toEqual(expected)
    if (name === 'is kept') expect(JSON.parse(pump.body!.toString())).toEqual(completion('done', 'b'))
    else expect(pump.body).toBeNull()
  })
})
