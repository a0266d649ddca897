/** Reads of kept responses: each part once, and only parts that the request names. */

import { expect, test } from 'vitest'
import { atOnce, isRefusal } from '#contract'
import { responsesInbound } from '../../../src/providers/dialects/inbound/responses/index.ts'
import { AnswerHistory } from '../../../src/request/send/answer-history.ts'
import type { LocalStore } from '../../../src/store/local-store.ts'
import type { Responses } from '../../../src/store/store.ts'
import { completion } from '../../providers/dialects/inbound/responses/helpers.ts'
import { fund, testStore } from '../../store/helpers.ts'

const WORDS = 'so many words '.repeat(100)
const MOST = { responseBytes: 2 ** 30, accountBytes: 2 ** 32 }

/** A store that counts reads of kept responses. */
async function counting() {
  const store = await testStore()
  const account = await fund(store, 1n)
  const seen = { reads: 0, bytes: 0 }
  const read: Responses['read'] = function* counted(id, of, part) {
    const found = yield* store.responses.read(id, of, part)
    seen.reads++
    seen.bytes += found?.length ?? 0
    return found
  }
  return { store: { ...store, responses: { ...store.responses, read } } as LocalStore, account, seen }
}

type Counting = Awaited<ReturnType<typeof counting>>

function answersOf({ store, account }: Counting, mostBytes = 2 ** 30) {
  const room = {
    held: 0,
    take: (bytes: number) => (room.held += bytes) > 0,
    give: (bytes: number) => (room.held -= bytes),
  }
  return { room, kept: new AnswerHistory({ store, account, mostBytes, bodyBytes: 0, room: room as never }) }
}

/** Sends a request of a conversation and keeps its answer. Returns the id of the response. */
async function ask(all: Counting, exchange: string, body: object) {
  const { kept } = answersOf(all)
  const request = responsesInbound.decodeRequest({ model: 'm', ...body }, { exchange, createdAt: 1, kept })
  request.encodeAnswer(completion({ content: WORDS }))
  const { id, parts } = kept.toKeep!
  const response = { id, parts, account: all.account, keepMs: 1000, used: kept.used, most: MOST }
  expect(await all.store.responses.keep(response)).toBe('kept')
  return id
}

/** Like the AI SDK: each request contains the user's messages, and refers to the model's. */
async function byReferences(all: Counting, turns: number) {
  const input: object[] = []
  for (let turn = 0; turn < turns; turn++) {
    input.push({ role: 'user', content: WORDS })
    const id = await ask(all, `req_R${turns}x${turn}`, { input })
    input.push({ type: 'item_reference', id: `${id.replace('resp', 'msg')}_0` })
  }
  return { input }
}

async function byPrevious(all: Counting, turns: number) {
  let previous: string | null = null
  for (let turn = 0; turn < turns; turn++) {
    previous = await ask(all, `req_P${turns}x${turn}`, { input: WORDS, previous_response_id: previous })
  }
  return { input: WORDS, previous_response_id: previous }
}

test.each([
  ['references', byReferences, 1],
  ['previous_response_id', byPrevious, 2],
])('a conversation by %s reads as many bytes as its messages have', async (_name, converse, parts) => {
  const all = await counting()
  for (const turns of [10, 40]) {
    const body = await converse(all, turns)
    Object.assign(all.seen, { reads: 0, bytes: 0 })
    const { kept } = answersOf(all)
    atOnce(responsesInbound.readAhead!(body, kept))
    expect(all.seen.reads).toBe(turns * parts)
    // The overhead of an item is smaller than its text.
    expect(all.seen.bytes).toBeLessThan(2 * parts * turns * WORDS.length)
    // The parts are in memory now: decoding reads nothing.
    const { body: asked } = responsesInbound.decodeRequest(
      { model: 'm', ...body },
      { exchange: 'req_A', createdAt: 1, kept },
    )
    expect(asked['messages']).toHaveLength(parts === 1 ? 2 * turns : 2 * turns + 1)
    expect(all.seen.reads).toBe(turns * parts)
  }
})

test('a read uses memory once, and again for each further use of the item', async () => {
  const all = await counting()
  const { input } = await byReferences(all, 1)
  const { kept, room } = answersOf(all)
  const reference = input[1] as { id: string }
  const answer = reference.id.replace('msg', 'resp').replace('_0', '')
  const item = () => kept.item(answer, 'output', reference.id)
  expect(item()).toBeDefined()
  const once = room.held
  expect(once).toBe(all.seen.bytes)
  item()
  expect(room.held).toBeGreaterThan(once + WORDS.length)
  const twice = room.held
  expect(kept.find(answer)).toMatchObject({ id: answer, previous: null })
  // The input is new; the output was read twice already.
  expect(room.held).toBeGreaterThan(twice + 2 * WORDS.length)
  expect(all.seen.reads).toBe(2)
  kept.release()
  expect(room.held).toBe(0)
})

test('more bytes than the body limit are refused', async () => {
  const all = await counting()
  const body = await byPrevious(all, 3)
  const { kept } = answersOf(all, 3 * WORDS.length)
  const refusalOf = (work: () => unknown) => {
    try {
      work()
    } catch (error) {
      if (isRefusal(error)) return error.code
    }
    return null
  }
  expect(refusalOf(() => atOnce(responsesInbound.readAhead!(body, kept)))).toBe('request_too_large')
  const decode = () =>
    responsesInbound.decodeRequest({ model: 'm', ...body }, { exchange: 'req_A', createdAt: 1, kept })
  expect(refusalOf(decode)).toBe('request_too_large')
})
