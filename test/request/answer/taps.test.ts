import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Chunk } from '#contract'
import * as taps from '../../../src/request/answer/taps.ts'
import { onlyWatched, type Tap, TapError } from '../../../src/request/answer/taps.ts'
import { countsOf } from '../../helpers/counts.ts'
import { chunk, completion, text } from './chunks.ts'

const counts = countsOf('corpus')

const watch = (step: number, fn: (chunk: Chunk) => void): Tap => ({ step, kind: 'watch', fn })
const edit = (step: number, fn: (chunk: Chunk) => Chunk | readonly Chunk[] | null): Tap => ({ step, kind: 'edit', fn })

/** Taps without promises return synchronously. */
const atOnce = <Value>(value: Value | Promise<Value>): Value => {
  expect(value).not.toBeInstanceOf(Promise)
  return value as Value
}
const throughTaps = (...of: Parameters<typeof taps.throughTaps>) => atOnce(taps.throughTaps(...of))
const completionThroughTaps = (...of: Parameters<typeof taps.completionThroughTaps>) =>
  atOnce(taps.completionThroughTaps(...of))

/** Appends to the content, to make the order visible. */
const append = (letter: string) => (each: Chunk) => text(`${each.choices[0]!.delta.content ?? ''}${letter}`)
const contents = (chunks: readonly Chunk[]) => chunks.map(each => each.choices[0]!.delta.content)

/** An edit with a result of a wrong type, as a plugin in JavaScript may have. */
const careless = (value: unknown) => edit(3, () => value as Chunk)

describe('a tap that fails', () => {
  const bug = new Error('bug')
  const throws = () => {
    throw bug
  }

  test.each<[string, Tap]>([
    ['a watch', watch(3, throws)],
    ['an edit', edit(3, throws)],
  ])('the error of %s that throws names its step', (_name, tap) => {
    const run = () => throughTaps([watch(1, () => {}), tap, watch(5, () => {})], text('a'))
    expect(run).toThrow(TapError)
    expect(run).toThrow(expect.objectContaining({ step: 3, cause: bug }))
  })

  test.each([
    ['nothing: it forgot to return', undefined],
    ['a text', 'data: x'],
    ['a number', 0],
    ['an object that is not a chunk', {}],
    ['a chunk with invalid choices', { ...text('a'), choices: 'x' }],
    ['a choice of null', { ...text('a'), choices: [null] }],
    ['a choice without a delta', { ...text('a'), choices: [{ index: 0 }] }],
    ['a list with null', [null]],
    ['a list with undefined', [text('a'), undefined]],
    ['a list in a list', [[text('a')]]],
  ])('an edit that returns %s is an error, and the answer is not silently shortened', (_name, value) => {
    const run = () => throughTaps([careless(value)], text('a'))
    expect(run).toThrow(TapError)
    expect(run).toThrow(expect.objectContaining({ step: 3 }))
    expect(() => completionThroughTaps([careless(value)], completion('a'))).toThrow(
      expect.objectContaining({ name: 'TapError', step: 3 }),
    )
  })
})

describe('the taps of a chunk', () => {
  test('run from the innermost step to the outermost', () => {
    const inOrder = [edit(0, append('0')), edit(1, append('1')), edit(1, append("1'")), edit(2, append('2'))]
    expect(contents(throughTaps(inOrder, text('x')))).toEqual(["x21'10"])
  })

  test('a watch gets the results of inner steps', () => {
    const seen: (string | null | undefined)[] = []
    const look = (step: number) => watch(step, each => void seen.push(each.choices[0]!.delta.content))
    throughTaps([look(0), edit(1, append('1')), look(2), edit(3, append('3')), look(4)], text('x'))
    expect(seen).toEqual(['x', 'x3', 'x31'])
  })

  test('an edit may return several chunks, and outer taps get each', () => {
    const seen: Chunk[] = []
    const twice = edit(2, each => [each, append('!')(each)])
    expect(contents(throughTaps([edit(0, append('0')), watch(1, each => seen.push(each)), twice], text('x')))).toEqual([
      'x0',
      'x!0',
    ])
    expect(contents(seen)).toEqual(['x', 'x!'])
  })

  test('an edit may drop a chunk, and outer taps do not get it', () => {
    const never = watch(0, () => expect.fail('this chunk was dropped'))
    expect(throughTaps([never, edit(1, () => null)], text('x'))).toEqual([])
    expect(throughTaps([never, edit(1, () => [])], text('x'))).toEqual([])
  })

  test('without taps the result is the chunk itself', () => {
    const only = text('x')
    expect(throughTaps([], only)[0]).toBe(only)
  })
})

test('the bytes of the provider may be sent if no tap edits', () => {
  expect(onlyWatched([])).toBe(true)
  expect(onlyWatched([watch(0, () => {}), watch(1, () => {})])).toBe(true)
  expect(onlyWatched([watch(0, () => {}), edit(1, each => each)])).toBe(false)
})

describe('the taps of a whole answer', () => {
  test('get one chunk per choice, without the usage', () => {
    const seen: Chunk[] = []
    const answer = completion('a', 'b')
    expect(completionThroughTaps([watch(0, each => seen.push(each))], answer)).toEqual(answer)
    expect(seen).toEqual([
      chunk({ role: 'assistant', content: 'a' }, 'stop'),
      chunk({ role: 'assistant', content: 'b' }, 'stop', 1),
    ])
  })

  test('keep all fields of the answer', () => {
    const message = {
      role: 'assistant',
      content: null,
      refusal: null,
      reasoning_content: 'hm',
      tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'a', arguments: '{}' } }],
      annotations: [],
      audio: null,
    }
    const answer = { ...completion(message), service_tier: 'default', system_fingerprint: null }
    const choices = [{ ...answer.choices[0]!, logprobs: { content: [] } }]
    expect(completionThroughTaps([edit(0, each => ({ ...each }))], { ...answer, choices })).toEqual({
      ...answer,
      choices,
    })
  })

  test('a change of the content and of the finish reason is in the answer', () => {
    const filtered = edit(0, each => ({
      ...each,
      choices: [{ ...each.choices[0]!, delta: { role: 'assistant', content: '***' }, finish_reason: 'content_filter' }],
    }))
    expect(completionThroughTaps([filtered], completion('a')).choices).toEqual([
      { index: 0, message: { role: 'assistant', content: '***' }, finish_reason: 'content_filter' },
    ])
  })

  test('several chunks are joined: the text, and the last finish reason', () => {
    const parts = edit(0, each => [chunk({ role: 'assistant', content: 'a' }), each, chunk({ content: 'z' }, 'length')])
    expect(completionThroughTaps([parts], completion('b')).choices).toEqual([
      { index: 0, message: { role: 'assistant', content: 'abz' }, finish_reason: 'length' },
    ])
    const noFinish = edit(0, each => [each, text('!')])
    expect(completionThroughTaps([noFinish], completion('b')).choices[0]).toMatchObject({ finish_reason: 'stop' })
  })

  test('a dropped choice keeps an empty message', () => {
    const second = edit(0, each => (each.choices[0]!.index === 1 ? null : each))
    expect(completionThroughTaps([second], completion('a', 'b')).choices).toEqual([
      { index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' },
      { index: 1, message: { role: 'assistant', content: '' }, finish_reason: 'stop' },
    ])
  })

  test('the usage stays, whatever the taps do', () => {
    expect(completionThroughTaps([edit(0, () => null)], completion('a')).usage).toEqual(completion('a').usage)
  })
})

describe('taps that return promises', () => {
  type Output = 'itself' | 'another' | 'two' | 'none'
  /** The results of a tap for each chunk, in order, and whether they are promises. */
  type Plan = readonly { readonly output: Output; readonly later: boolean; readonly watches: boolean }[]
  const plans: fc.Arbitrary<readonly Plan[]> = fc.array(
    fc.array(
      fc.record({
        output: fc.constantFrom<Output>('itself', 'another', 'two', 'none'),
        later: fc.boolean(),
        watches: fc.boolean(),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    { maxLength: 4 },
  )

  function tapsOf(plans: readonly Plan[], mayPromise: boolean, log: string[]): Tap[] {
    return plans.map((plan, step) => {
      let calls = 0
      let isAtWork = false
      const make = (each: Chunk) => {
        expect(isAtWork).toBe(false)
        const { output, later, watches } = plan[calls % plan.length]!
        log.push(`${step}.${calls++} ${each.choices[0]!.delta.content}`)
        const out = {
          itself: each,
          another: append(String(step))(each),
          two: [each, append('+')(each)],
          none: null,
        }[watches ? 'itself' : output]
        if (!later || !mayPromise) return out
        isAtWork = true
        return new Promise<typeof out>(resolve => setImmediate(resolve, out)).finally(() => {
          isAtWork = false
        })
      }
      return plan[0]!.watches ? watch(step, each => make(each) as never) : edit(step, each => make(each) as Chunk)
    })
  }

  test('have the same results as without promises, in the same order, and no tap is called while it is busy', async () => {
    await fc.assert(
      fc.asyncProperty(plans, fc.integer({ min: 1, max: 3 }), async (plans, choices) => {
        const answer = completion(...['a', 'b', 'c'].slice(0, choices))
        const [atOnce, later]: [string[], string[]] = [[], []]
        const expected = completionThroughTaps(tapsOf(plans, false, atOnce), answer)
        expect(await taps.completionThroughTaps(tapsOf(plans, true, later), answer)).toEqual(expected)
        expect(later).toEqual(atOnce)
      }),
      { numRuns: counts(50, 3_000) },
    )
  })

  test.each<[string, unknown]>([
    ['rejects', () => Promise.reject(new Error('bug'))],
    ['resolves with an invalid chunk', () => Promise.resolve(undefined)],
    ['resolves with an invalid second chunk', null],
  ])('the error of a tap that %s names its step', async (_name, how) => {
    let calls = 0
    const fn = typeof how === 'function' ? how : async () => (calls++ === 0 ? text('a') : (undefined as never))
    const twice = edit(5, each => [each, each])
    await expect(taps.throughTaps([edit(3, fn as never), twice], text('a'))).rejects.toMatchObject({
      name: 'TapError',
      step: 3,
    })
  })
})
