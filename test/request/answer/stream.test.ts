import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Chunk, refuse } from '#contract'
import type { Client } from '../../../src/request/answer/client.ts'
import { finishes, hasContent, StreamAnswer } from '../../../src/request/answer/stream.ts'
import type { Tap } from '../../../src/request/answer/taps.ts'
import { countsOf } from '../../helpers/counts.ts'
import { parseSse } from '../../helpers/sse.ts'
import { chunk, finish, text, usage, usageChunk } from './chunks.ts'

const counts = countsOf('corpus')

/** A stream to a client that records its bytes. */
function started(taps: readonly Tap[] = [], keepsUp = true) {
  const sent = { text: '', end: null as 'ended' | null }
  const client = {
    writeStream(frame: Buffer) {
      sent.text += frame.toString()
      return keepsUp
    },
    endStream(frame: Buffer) {
      sent.text += frame.toString()
      sent.end = 'ended'
    },
  }
  const answer = new StreamAnswer(client as unknown as Client, taps)
  return {
    answer,
    sent,
    put: (...chunks: Chunk[]) => chunks.map(each => answer.chunk(each, Buffer.from(JSON.stringify(each)))),
    /** The client's events as letters: content, `f` for a finish, `u` for usage, `e` for an error, `.` for the end. */
    seen: () =>
      parseSse(sent.text)
        .events.map(({ data }) => letter(JSON.parse(data)))
        .join('') + (parseSse(sent.text).done ? '.' : ''),
  }
}

function letter(data: Chunk & { error?: unknown }): string {
  if (data.error) return 'e'
  if (data.usage) return 'u'
  const [choice] = data.choices
  return `${choice?.delta.content ?? ''}${choice?.finish_reason ? 'f' : ''}`
}

const refusal = refuse('upstream_truncated')

describe('withheld chunks:', () => {
  test('none before a finish reason', () => {
    const { put, seen } = started()
    put(chunk({ role: 'assistant', content: '' }), text('a'), text('b'))
    expect(seen()).toBe('ab')
  })

  test('a finish and everything after it, until the end', () => {
    const { put, seen, answer, sent } = started()
    put(text('a'), finish(), usageChunk(usage(1, 1)))
    expect(seen()).toBe('a')
    answer.finish()
    expect(seen()).toBe('afu.')
    expect(sent.end).toBe('ended')
  })

  test('content in the same chunk as its finish', () => {
    const { put, seen, answer } = started()
    put(text('a'), chunk({ content: 'b' }, 'stop'))
    expect(seen()).toBe('a')
    answer.finish()
    expect(seen()).toBe('abf.')
  })

  test('a second finish and empty chunks after the first', () => {
    const { put, seen, answer } = started()
    put(text('a'), finish(), chunk({ role: 'assistant', content: '' }), finish(), usageChunk(usage(1, 1)))
    expect(seen()).toBe('a')
    answer.finish()
    expect(seen()).toBe('affu.')
  })

  test('until another choice continues', () => {
    const { put, seen, answer } = started()
    put(text('a', 0), text('b', 1), finish(0))
    expect(seen()).toBe('ab')
    put(text('c', 1))
    expect(seen()).toBe('abfc')
    put(finish(1), usageChunk(usage(1, 3)))
    expect(seen()).toBe('abfc')
    answer.finish()
    expect(seen()).toBe('abfcfu.')
  })

  test('until another choice continues and ends in the same chunk', () => {
    const { put, seen, answer } = started()
    put(text('a', 0), finish(0), chunk({ content: 'b' }, 'stop', 1))
    expect(seen()).toBe('af')
    answer.finish()
    expect(seen()).toBe('afbf.')
  })

  test('a choice that continues after its finish: the finish is revoked', () => {
    const { put, seen, answer } = started()
    put(chunk({ content: 'a' }, 'stop'), chunk({ content: 'b' }, 'stop'), usageChunk(usage(1, 2)))
    expect(seen()).toBe('a')
    put(text('c'))
    expect(seen()).toBe('abuc')
    put(finish())
    answer.finish()
    expect(seen()).toBe('abucf.')
  })

  test('none are sent when the answer fails', () => {
    const { put, seen, answer } = started()
    put(text('a'), finish(), text('b'), finish(), usageChunk(usage(1, 2)))
    expect(seen()).toMatch(/^a.?b$/)
    answer.fail(refusal)
    expect(seen()).toMatch(/^a.?be$/)
  })

  test('a finish in a chunk with several choices', () => {
    const { put, seen, answer } = started()
    put({ ...text('a'), choices: [...text('a').choices, ...finish(1).choices] })
    expect(seen()).toBe('')
    answer.finish()
    expect(seen()).toBe('a.')
  })

  test('an answer without chunks ends with [DONE]', () => {
    const { answer, sent } = started()
    answer.finish()
    expect(sent).toEqual({ text: 'data: [DONE]\n\n', end: 'ended' })
  })
})

describe('an answer that fails', () => {
  test.each<[string, Chunk[], string]>([
    ['before its first chunk', [], 'e'],
    ['in the middle', [text('a')], 'ae'],
    ['after its finish', [text('a'), finish()], 'ae'],
    ['after its usage', [text('a'), finish(), usageChunk(usage(1, 1))], 'ae'],
    ['after one of two finishes was sent', [text('a'), finish(0), text('b', 1), finish(1)], 'afbe'],
  ])('%s ends in one error event: no finish, no [DONE]', (_name, chunks, seen) => {
    const stream = started()
    stream.put(...chunks)
    stream.answer.fail(refusal)
    expect(stream.seen()).toBe(seen)
    expect(stream.sent.end).toBe('ended')
    const last = parseSse(stream.sent.text).events.at(-1)!
    expect(JSON.parse(last.data)).toEqual({
      error: {
        message: "The model provider's answer broke off before its end.",
        type: 'server_error',
        param: null,
        code: 'upstream_truncated',
      },
      created: "The model provider's answer broke off before its end.",
    })
  })

  test('a message with line breaks stays one event', () => {
    const { answer, sent } = started()
    answer.fail(refuse('upstream_rejected', { message: 'a\n\ndata: [DONE]\r\n\r\nb' }))
    const { events, done } = parseSse(sent.text)
    expect(events).toHaveLength(1)
    expect(done).toBe(false)
  })
})

test('withheld chunks are limited: `tailTooLong` above 256 KiB', () => {
  const { put, answer, sent } = started()
  const padding = chunk({ p: 'x'.repeat(1000) })
  put(text('a'), finish())
  for (let i = 0; i < 200; i++) put(padding)
  expect(answer.tailTooLong).toBe(false)
  for (let i = 0; i < 100; i++) put(padding)
  expect(answer.tailTooLong).toBe(true)
  expect(sent.text.length).toBeLessThan(1000)
  // Content of another choice releases the withheld chunks, and the count restarts.
  put(text('b', 1), finish(1))
  expect(answer.tailTooLong).toBe(false)
})

test('the result is whether the client keeps up with written chunks; withheld ones do not count', () => {
  const { put } = started([], false)
  expect(put(text('a'), finish(), usageChunk(usage(1, 1)), text('b', 1))).toEqual([false, true, true, false])
})

describe('with taps', () => {
  const watch = (fn: (chunk: Chunk) => void): Tap => ({ step: 0, kind: 'watch', fn })
  const edit = (fn: (chunk: Chunk) => Chunk | readonly Chunk[] | null): Tap => ({ step: 0, kind: 'edit', fn })

  test('the bytes of the provider are sent unchanged if taps only watch, even if a watch changes its chunk', () => {
    const raw = Buffer.from('{"provider":"s own bytes"}')
    const { answer, sent } = started([watch(each => Object.assign(each, { scribbled: true }))])
    answer.chunk(text('a'), raw)
    expect(sent.text).toBe('data: {"provider":"s own bytes"}\n\n')
  })

  test('an edited chunk is encoded again', () => {
    const { answer, sent } = started([edit(each => ({ ...each, extra: 1 }))])
    answer.chunk(text('a'), Buffer.from('not this'))
    expect(JSON.parse(sent.text.slice(6))).toEqual({ ...text('a'), extra: 1 })
  })

  test('the edited chunk decides what is withheld', () => {
    const cut = edit(each => (each.choices[0]?.delta.content === 'b' ? [text('x'), finish(0, 'content_filter')] : each))
    const { put, seen, answer } = started([cut])
    put(text('a'), text('b'))
    expect(seen()).toBe('ax')
    answer.finish()
    expect(seen()).toBe('axf.')
  })

  const dropFinishes = edit(each => (finishes(each) ? null : each))
  const blankFinishes = edit(each => {
    for (const choice of each.choices) Object.assign(choice, { finish_reason: null })
    return each
  })

  test.each<[string, Tap, string]>([
    ['dropped', dropFinishes, 'afu.'],
    ['blanked', blankFinishes, 'afu.'],
  ])('a finish that an edit has %s is sent anyway, before the usage', (_name, tap, whole) => {
    const { put, seen, answer, sent } = started([tap])
    put(text('a'), finish(0, 'length'), usageChunk(usage(1, 1)))
    expect(seen()).toBe('a')
    answer.finish()
    expect(seen()).toBe(whole)
    expect(sent.text).toContain('"delta":{},"finish_reason":"length"')
  })

  test('a finish is not added for a choice that an edit has removed, or has finished itself', () => {
    const { put, seen, answer } = started([edit(each => (each.choices[0]?.index === 1 ? null : each))])
    put(text('a'), text('b', 1), finish(1), finish(0))
    answer.finish()
    expect(seen()).toBe('af.')
  })

  test('a finish that an edit sends later is not sent twice', () => {
    let kept: readonly Chunk[] = []
    const later = edit(each => {
      const out = kept
      kept = [each]
      return out
    })
    const { put, seen, answer } = started([later])
    put(text('a'), text('b'), finish(), usageChunk(usage(1, 1)), chunk({}))
    expect(seen()).toBe('ab')
    answer.finish()
    expect(seen()).toBe('abfu.')
  })

  test('a failure sends no finish that an edit has dropped', () => {
    const { put, seen, answer } = started([dropFinishes])
    put(text('a'), finish())
    answer.fail(refusal)
    expect(seen()).toBe('ae')
  })

  test('a dropped chunk is not sent, and the client keeps up', () => {
    const { put, seen } = started([edit(() => null)], false)
    expect(put(text('a'), text('b'))).toEqual([true, true])
    expect(seen()).toBe('')
  })

  test('of several chunks from one edit, the client must keep up with each', () => {
    const { put } = started([edit(each => [each, finish()])], false)
    expect(put(text('a'))).toEqual([false])
  })

  test('the error of a tap is thrown, and nothing is written', () => {
    const { put, sent } = started([
      watch(() => {
        throw new Error('bug')
      }),
    ])
    expect(() => put(text('a'))).toThrow('watch or edit of step 0 threw')
    expect(sent.text).toBe('')
  })
})

test('in any order of finishes, the last one is not sent early, no content is lost or moved, and each finished choice has one', () => {
  const event = fc.tuple(fc.constantFrom('content', 'finish', 'empty', 'both'), fc.nat({ max: 2 }))
  fc.assert(
    fc.property(fc.array(event, { maxLength: 30 }), fc.boolean(), (events, ends) => {
      const { put, answer, sent } = started()
      const chunks = events.map(([kind, index], at): Chunk => {
        if (kind === 'content') return text(`${at}`, index)
        if (kind === 'finish') return finish(index)
        return kind === 'both' ? chunk({ content: `${at}` }, 'stop', index) : chunk({}, null, index)
      })
      const received = () => parseSse(sent.text).events.map(({ data }) => JSON.parse(data) as Chunk)
      const contents = (of: readonly Chunk[]) => of.filter(hasContent).map(each => each.choices[0]!.delta)
      const finished = (of: readonly Chunk[]) => new Set(of.filter(finishes).map(each => each.choices[0]!.index))
      for (const [at, each] of chunks.entries()) {
        put(each)
        const left = contents(received()).length
        expect(contents(received())).toEqual(contents(chunks).slice(0, left))
        // A finish was sent only if content followed it.
        const last = received().findLastIndex(finishes)
        const before = contents(received().slice(0, last + 1)).length
        if (last >= 0) expect(contents(chunks.slice(0, at + 1)).length, `after ${at}`).toBeGreaterThan(before)
      }
      if (ends) {
        answer.finish()
        expect(contents(received())).toEqual(contents(chunks))
        expect(finished(received())).toEqual(finished(chunks))
        expect(parseSse(sent.text).done).toBe(true)
      } else {
        answer.fail(refusal)
        expect(received().at(-1)).toMatchObject({ error: { code: 'upstream_truncated' } })
        expect(parseSse(sent.text).done).toBe(false)
      }
    }),
    { numRuns: counts(125, 20_000) },
  )
})

describe('the content of a chunk', () => {
  test.each([
    ['stop', true],
    ['length', true],
    ['anything', true],
    ['', false],
    [null, false],
    [undefined, false],
  ])('the finish reason %j finishes: %j', (reason, yes) => {
    const each = chunk({})
    expect(
      finishes({
        ...each,
        choices: [{ index: 0, delta: {}, ...(reason === undefined ? {} : { finish_reason: reason }) }],
      }),
    ).toBe(yes)
  })

  test.each<[Chunk['choices'][number]['delta'], boolean]>([
    [{ content: 'a' }, true],
    [{ content: '' }, false],
    [{ content: null }, false],
    [{ role: 'assistant' }, false],
    [{}, false],
    [{ reasoning_content: 'a' }, true],
    [{ reasoning: 'a' }, true],
    [{ refusal: 'a' }, true],
    [{ audio: { id: 'a' } }, true],
    [{ function_call: { name: 'a' } }, true],
    [{ tool_calls: [{ index: 0, id: 'a' }] }, true],
    [{ tool_calls: [] }, false],
    [{ tool_calls: null as unknown as [] }, false],
    [{ content: [{ type: 'thinking' }] as unknown as string }, true],
    [{ obfuscation: 'xx' }, false],
  ])('%j is content: %j', (delta, yes) => {
    expect(hasContent(chunk(delta))).toBe(yes)
  })

  test('a chunk without choices has neither', () => {
    expect(finishes(usageChunk(usage(1, 1)))).toBe(false)
    expect(hasContent(usageChunk(usage(1, 1)))).toBe(false)
  })
})
