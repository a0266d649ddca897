/** Compaction as Codex requests it: a trigger at the end of the input, and one item that later replaces the conversation. */
import { describe, expect, test } from 'vitest'
import { responsesInbound } from '../../../../../src/providers/dialects/inbound/responses/index.ts'
import type { Json } from '../../../../helpers/cases.ts'
import {
  answered,
  canonical,
  chunk,
  completion,
  eventsOf,
  MINIMAL,
  messagesOf,
  streamed,
  usageChunk,
  VIEW,
} from './helpers.ts'

const TALK = [
  { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
  { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{}' },
  { type: 'function_call_output', call_id: 'c1', output: 'seen' },
]
const REQUEST: Json = {
  input: [...TALK, { type: 'compaction_trigger' }],
  tools: [{ type: 'function', name: 'look' }],
  tool_choice: 'required',
  text: { format: { type: 'json_object' } },
  store: false,
}

test('the model is asked for a text summary and may not call tools', () => {
  const { messages, ...body } = canonical(REQUEST)
  expect(messages).toMatchObject([{ role: 'user' }, { role: 'assistant' }, { role: 'tool' }, { role: 'user' }])
  expect(body).toEqual({ model: 'm', tools: [{ type: 'function', function: { name: 'look' } }], tool_choice: 'none' })
  expect(canonical({ ...REQUEST, tools: [] })).not.toHaveProperty('tool_choice')
})

const SUMMARY = 'They said hi.'
const whole = (message: Json, finish?: string) => answered(message, { request: REQUEST, ...(finish ? { finish } : {}) })

function lastOf(...args: Parameters<typeof streamed>) {
  const events = eventsOf(streamed(...args))
  const done = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item)
  return { done, last: events.at(-1)! }
}

describe('the answer', () => {
  test.each<[string, () => Json[]]>([
    ['whole', () => whole({ content: SUMMARY, reasoning_content: 'Hm.' }).output],
    [
      'streamed',
      () => {
        const chunks = [{ reasoning_content: 'Hm.' }, { content: 'They ' }, { content: 'said hi.' }].map(each =>
          chunk(each),
        )
        const { done, last } = lastOf([...chunks, chunk({}, 'stop'), usageChunk()], REQUEST)
        expect(last).toMatchObject({
          type: 'response.completed',
          response: { output: done, usage: { output_tokens: 7 } },
        })
        return done as Json[]
      },
    ],
  ])('%s: is one item that later replaces the conversation', (_how, answer) => {
    const output = answer()
    expect(output).toEqual([{ id: 'cmp_01ABC_0', type: 'compaction', encrypted_content: expect.any(String) }])
    expect(JSON.stringify(output)).not.toContain(SUMMARY)
    const { id: _, ...item } = output[0]!
    const user = { role: 'user', content: 'Go on.' }
    for (const kept of [item, { ...item, type: 'compaction_summary' }]) {
      expect(messagesOf([kept, user])).toEqual([{ role: 'user', content: expect.stringContaining(SUMMARY) }, user])
    }
  })

  test('has no item and is incomplete if the summary is cut or missing', () => {
    const cut = { output: [], status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }
    expect(whole({ content: SUMMARY }, 'length')).toMatchObject(cut)
    const calls = [{ id: 'c', type: 'function', function: { name: 'look', arguments: '{}' } }]
    expect(whole({ content: ' ', tool_calls: calls })).toMatchObject(cut)
    const { done, last } = lastOf([chunk({ content: SUMMARY }), chunk({}, 'length')], REQUEST)
    expect([done, last.type]).toEqual([[], 'response.incomplete'])
  })
})

test('a replay, which has no boxes, requests a summary and accepts one', () => {
  const { boxes: _, ...view } = VIEW
  const item = { type: 'compaction', encrypted_content: whole({ content: SUMMARY }).output[0]!.encrypted_content }
  const user = { role: 'user', content: 'Go on.' }
  const later = responsesInbound.decodeRequest({ ...MINIMAL, input: [item, user] }, view)
  expect(later.body['messages']).toEqual([{ role: 'user', content: expect.not.stringContaining(SUMMARY) }, user])
  const trigger = responsesInbound.decodeRequest({ ...MINIMAL, ...REQUEST }, view)
  expect(trigger.body['messages']).toEqual(canonical(REQUEST)['messages'])
  const { output, status } = JSON.parse(trigger.encodeAnswer(completion({ content: SUMMARY })).toString())
  expect([output, status]).toMatchObject([[{ type: 'compaction' }], 'completed'])
  expect(JSON.stringify(output)).not.toContain(SUMMARY)
})

test('a stored trigger does not trigger again', () => {
  const input = [{ role: 'user', content: 'Hi' }, { type: 'compaction_trigger' }]
  const kept = {
    *load() {},
    find: () => ({ id: 'resp_1', input, output: [], previous: null }),
    item: () => undefined,
    keep: () => {},
  }
  const { body } = responsesInbound.decodeRequest(
    { ...MINIMAL, previous_response_id: 'resp_1' },
    { ...VIEW, kept: kept as never },
  )
  expect(body['messages']).toEqual([
    { role: 'user', content: 'Hi' },
    { role: 'user', content: 'Hello' },
  ])
})
