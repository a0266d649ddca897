/** Text pieces that pass unparsed: the counted, withheld and sent content stays the same. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Dialect, StreamItem } from '#contract'
import { countsOf } from '../../helpers/counts.ts'
import { chunk, finish, text, usageChunk } from './chunks.ts'
import { chatOf, failed, openai, ROLE, streaming, USAGE } from './pumping.ts'

const counts = countsOf('corpus')

/** The number of parsed chunks. */
let parses = 0

/** The dialect with or without its text pieces. */
function dialectOf(hasPieces: boolean): Dialect {
  const plain = (item: StreamItem): StreamItem => {
    if (item.kind !== 'chunk' || !item.text) return item
    const { kind, chunk, raw, usage } = item
    return { kind, chunk, raw, usage }
  }
  const counted = (item: StreamItem): StreamItem => {
    if (item.kind !== 'chunk' || !item.text) return item
    const { kind, raw, usage, text } = item
    return {
      kind,
      raw,
      usage,
      text,
      get chunk() {
        parses++
        return item.chunk
      },
    }
  }
  return {
    ...openai,
    decodeStream(view) {
      const decoder = openai.decodeStream(view)
      return {
        push: bytes => decoder.push(bytes).map(hasPieces ? counted : plain),
        end: () => decoder.end().map(hasPieces ? counted : plain),
      }
    },
  }
}

async function outcome(hasPieces: boolean, events: readonly (object | string)[], fillsFinish: boolean) {
  const stream = await streaming({ dialect: dialectOf(hasPieces), fillsFinish })
  const { put, pump, ending, answer, meter, received, wire } = stream
  meter.begin(chatOf('hello'), 1000)
  for (const event of events) put(event)
  pump.end()
  const over = await ending()
  if (over?.ending === 'complete') answer.finish()
  else answer.fail({ message: 'm', type: 'server_error', param: null, code: 'upstream_truncated' } as never)
  const sent = await received(over?.ending === 'complete' ? '[DONE]' : 'upstream_truncated')
  await wire[Symbol.asyncDispose]()
  const { countedTokens, started, finished, complete, unfinished } = meter
  return { over, sent, countedTokens, started, finished, complete, unfinished, spent: meter.spent(complete) }
}

test('text pieces are counted and sent like parsed chunks, whatever is between them', async () => {
  const index = fc.constantFrom(0, 0, 0, 1)
  const event = fc.oneof(
    {
      arbitrary: fc.tuple(fc.constantFrom(' the', ' é', '\n"', ''), index).map(([content, at]) => text(content, at)),
      weight: 8,
    },
    index.map(at => finish(at)),
    fc.constantFrom<object | string>(ROLE, usageChunk(USAGE), chunk({}), { id: 'no chunk' }, '[DONE]', '{'),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(event, { maxLength: 12 }), fc.boolean(), async (events, fillsFinish) => {
      expect(await outcome(true, events, fillsFinish)).toEqual(await outcome(false, events, fillsFinish))
    }),
    { numRuns: counts(60, 1000) },
  )
})

test('text pieces are not parsed, until a choice has finished or the client has disconnected', async () => {
  parses = 0
  const { put, received, client, leaves, meter } = await streaming({ dialect: dialectOf(true) })
  put(ROLE, text('a'), text('b'), text('c'))
  await received('"content":"c"')
  expect([parses, meter.countedTokens]).toEqual([0, 3])
  put(text('x', 1), text('y', 1), finish(1), text('z', 1), text('d'))
  expect(parses).toBeGreaterThan(0)
  expect(await received('"content":"d"')).toContain('"content":"z"')
  await leaves()
  put(text('e'), text('f'))
  expect([client.left, meter.countedTokens]).toEqual([true, 7])
})

test('text pieces above the cap of the request end the answer', async () => {
  const { put, ending, meter, source } = await streaming()
  meter.begin(chatOf('hello'), 1)
  for (let pieces = 0; pieces < 100; pieces++) put(text('a'))
  expect(await ending()).toEqual(failed('upstream_invalid'))
  expect([meter.countedTokens, source.aborts]).toEqual([67, 1])
})
