/** Responses that the gateway keeps, and later requests that refer to them. */
import { describe, expect, test } from 'vitest'
import { atOnce, isRefusal, type KeptAnswer } from '#contract'
import { responsesInbound } from '../../../../../src/providers/dialects/inbound/responses/index.ts'
import type { Json } from '../../../../helpers/cases.ts'
import { chunk, completion, MINIMAL, VIEW } from './helpers.ts'

/** A view that keeps answers in memory. */
function keeper() {
  const answers = new Map<string, KeptAnswer>()
  const asked: string[] = []
  const loaded: string[] = []
  const kept = {
    // biome-ignore lint/correctness/useYield: they are in memory.
    *load(answer: string, half: 'input' | 'output') {
      loaded.push(`${answer} ${half}`)
      return answers.get(answer)
    },
    find(id: string) {
      asked.push(id)
      return answers.get(id)
    },
    item: (answer: string, half: 'input' | 'output', id: string) =>
      answers.get(answer)?.[half].find(each => each['id'] === id),
    keep: (answer: KeptAnswer) => void answers.set(answer.id, JSON.parse(JSON.stringify(answer)) as KeptAnswer),
  }
  let turns = 0
  const decode = (body: Json) =>
    responsesInbound.decodeRequest({ ...MINIMAL, ...body }, { ...VIEW, exchange: `req_T${++turns}`, kept })
  const refusalOf = (body: Json) => {
    try {
      decode(body)
    } catch (error) {
      if (isRefusal(error)) return error
    }
    throw new Error('the request was not refused')
  }
  const ahead = (body: Json) => {
    atOnce(responsesInbound.readAhead!(body, kept))
    return loaded.splice(0)
  }
  return { answers, asked, ahead, decode, refusalOf, messages: (body: Json) => decode(body).body['messages'] }
}

const CALL = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }
const THOUGHT = { reasoning_content: 'Hm.', tool_calls: [CALL] }

test('a whole and a streamed answer are kept in the same form', () => {
  const { answers, decode } = keeper()
  decode({ input: 'Hi' }).encodeAnswer(completion(THOUGHT, 'tool_calls'))
  const stream = decode({ input: 'Hi', stream: true }).encodeStream()
  stream.chunk(chunk(THOUGHT, 'tool_calls'))
  expect(answers.size).toBe(1)
  stream.finish()
  const [one, other] = [...answers.values()].map(answer => JSON.stringify(answer))
  expect(other!.replaceAll('T2', 'T1')).toBe(one)
  expect(answers.get('resp_T1')).toMatchObject({
    previous: null,
    input: [{ id: 'msg_T1_i0', type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] }],
    output: [{ type: 'reasoning' }, { type: 'function_call', call_id: 'c1' }],
  })
})

test('a failed stream and store: false keep nothing', () => {
  const { answers, decode } = keeper()
  const stream = decode({ stream: true }).encodeStream()
  stream.chunk(chunk({ content: 'Hi' }))
  decode({ store: false }).encodeAnswer(completion({ content: 'Hi' }))
  expect(answers.size).toBe(0)
})

describe('a later request', () => {
  const begun = () => {
    const all = keeper()
    all.decode({ input: 'Look.' }).encodeAnswer(completion(THOUGHT, 'tool_calls'))
    return all
  }
  const RESULT = { type: 'function_call_output', call_id: 'c1', output: 'seen' }
  const LOOP = [
    { role: 'user', content: 'Look.' },
    { role: 'assistant', content: null, reasoning_content: 'Hm.', tool_calls: [CALL] },
    { role: 'tool', tool_call_id: 'c1', content: 'seen' },
  ]

  test('that refers to an earlier response, or to its items, equals one that sends everything', () => {
    const { messages } = begun()
    expect(messages({ input: [RESULT], previous_response_id: 'resp_T1' })).toEqual(LOOP)
    const references = ['msg_T1_i0', 'rs_T1_0', 'fc_T1_1'].map(id => ({ type: 'item_reference', id }))
    expect(messages({ input: [...references, RESULT] })).toEqual(LOOP)
    // An id without a type is a reference too.
    expect(messages({ input: [...references.map(({ id }) => ({ id })), RESULT] })).toEqual(LOOP)
  })

  test('uses the effort of an earlier item unless it sets its own', () => {
    const { answers, decode } = keeper()
    const update = { type: 'configuration_update', reasoning: { effort: 'high' } }
    decode({ input: [{ role: 'user', content: 'Hi' }, update] }).encodeAnswer(completion({ content: 'Hi' }))
    expect(answers.get('resp_T1')!.input[1]).toEqual({ ...update, id: 'item_T1_i1' })
    const effort = (more: Json) => decode({ previous_response_id: 'resp_T1', ...more }).body['reasoning_effort']
    expect(effort({})).toBe('high')
    expect(effort({ reasoning: { effort: 'low' } })).toBe('low')
    expect(effort({ reasoning: { effort: 'low' }, input: [{ type: 'item_reference', id: 'item_T1_i1' }] })).toBe('high')
  })

  test('preloads the items it refers to, and no others', () => {
    const { ahead, decode } = begun()
    decode({ previous_response_id: 'resp_T1' }).encodeAnswer(completion({ content: 'Hi' }))
    const all = ['resp_T2 output', 'resp_T2 input', 'resp_T1 output', 'resp_T1 input']
    expect(ahead({ previous_response_id: 'resp_T2', input: 'Go on.' })).toEqual(all)
    const references = [{ type: 'item_reference', id: 'rs_T1_0' }, { id: 'msg_T2_i0' }]
    const others = [{ role: 'user', content: 'Hi' }, { type: 'message', id: 'msg_T1_0' }, { id: 'else' }, null, 7]
    expect(ahead({ input: [...others, ...references] })).toEqual(['resp_T1 output', 'resp_T2 input'])
    // A later step refuses invalid bodies and missing responses.
    for (const body of [null, 7, [], { previous_response_id: 7 }, { input: {} }])
      expect(ahead(body as Json)).toEqual([])
    expect(ahead({ previous_response_id: 'resp_T9' })).toEqual(['resp_T9 output', 'resp_T9 input'])
  })

  test('starts at the last summary and needs no earlier response', () => {
    const { answers, decode, messages } = begun()
    const trigger = { type: 'compaction_trigger' }
    const compacted = decode({ input: [RESULT, trigger], previous_response_id: 'resp_T1' })
    expect(compacted.body['messages']).toMatchObject([
      { role: 'user' },
      { role: 'assistant' },
      { role: 'tool' },
      { role: 'user' },
    ])
    compacted.encodeAnswer(completion({ content: 'It was seen.' }))
    answers.delete('resp_T1')
    const summary = { role: 'user', content: expect.stringContaining('It was seen.') }
    const go = { role: 'user', content: 'Go on.' }
    expect(messages({ input: 'Go on.', previous_response_id: 'resp_T2' })).toEqual([summary, go])
    // A client may send the summary itself, with items that it wants to keep.
    const input = [go, ...answers.get('resp_T2')!.output]
    decode({ input, previous_response_id: 'resp_T2' }).encodeAnswer(completion({ content: 'Done.' }))
    answers.delete('resp_T2')
    expect(messages({ input: 'Go on.', previous_response_id: 'resp_T4' })).toEqual([
      go,
      summary,
      { role: 'assistant', content: 'Done.' },
      go,
    ])
  })

  test('keeps the items that references resolved to', () => {
    const { answers, decode, messages } = begun()
    const input = [{ type: 'item_reference', id: 'fc_T1_1' }, RESULT]
    decode({ input }).encodeAnswer(completion({ content: 'Done.' }))
    answers.delete('resp_T1')
    expect(messages({ input: 'Thanks.', previous_response_id: 'resp_T2' })).toMatchObject([
      { role: 'assistant', tool_calls: [CALL] },
      { role: 'tool' },
      { role: 'assistant', content: 'Done.' },
      { role: 'user', content: 'Thanks.' },
    ])
  })

  test.each<[name: string, body: Json, code: string, param: string]>([
    ['an unknown response', { previous_response_id: 'resp_T9' }, 'previous_response_not_found', 'previous_response_id'],
    ['a response of another kind', { previous_response_id: 7 }, 'invalid_type', 'previous_response_id'],
    ['an item of an unknown response', { input: [{ id: 'msg_T9_0' }] }, 'item_not_found', 'input[0]'],
    ['an unknown item', { input: [{ id: 'msg_T1_7' }] }, 'item_not_found', 'input[0]'],
    ['an id that the gateway did not give', { input: [{ id: '../../etc' }] }, 'item_not_found', 'input[0]'],
    ['a reference without an id', { input: [{ type: 'item_reference' }] }, 'missing_required_parameter', 'input[0].id'],
  ])('is refused: %s', (_name, body, code, param) => {
    expect(begun().refusalOf(body)).toMatchObject({ code, param })
  })

  test('is refused if an earlier response is missing, or if there are too many', () => {
    const { answers, decode, messages, refusalOf } = begun()
    for (let turn = 2; turn <= 1001; turn++) {
      decode({ previous_response_id: `resp_T${turn - 1}` }).encodeAnswer(completion({ content: 'Hi' }))
    }
    expect(messages({ previous_response_id: 'resp_T1000' })).toHaveLength(2001)
    expect(refusalOf({ previous_response_id: 'resp_T1001' })).toMatchObject({ code: 'invalid_value' })
    answers.delete('resp_T500')
    const refusal = refusalOf({ previous_response_id: 'resp_T1000' })
    expect(refusal).toMatchObject({ code: 'previous_response_not_found' })
    expect(refusal.message).toBe(
      `The conversation of the previous response "resp_T1000" has a gap: the response "resp_T500" before it was deleted or has expired. Send the whole conversation in 'input'.`,
    )
    expect(refusalOf({ previous_response_id: 'resp_T500' }).message).toContain('"resp_T500" not found. It was deleted')
  })
})
