/** Reasoning with calls: providers that need their reasoning back get it if the client sends back its items. */
import { describe, expect, test } from 'vitest'
import type { ChatCompletion, Chunk } from '#contract'
import { responsesInbound } from '../../../../../src/providers/dialects/inbound/responses/index.ts'
import { boxesOf } from '../../../../helpers/boxes.ts'
import type { Json } from '../../../../helpers/cases.ts'
import * as claude from '../../anthropic/helpers.ts'
import * as gemini from '../../gemini/support.ts'
import {
  answered,
  canonical,
  chunk,
  eventsOf,
  MINIMAL,
  messagesOf,
  type Response,
  refusalOf,
  streamed,
  VIEW,
} from './helpers.ts'

const TOOLS = ['weather', 'time'].map(name => ({ type: 'function', name }))

function wholeOf(completion: ChatCompletion): Response {
  const request = responsesInbound.decodeRequest({ ...MINIMAL, tools: TOOLS }, VIEW)
  return JSON.parse(request.encodeAnswer(completion).toString())
}

function streamOf(chunks: readonly Chunk[]): Response {
  const last = eventsOf(streamed(chunks, { tools: TOOLS })).at(-1)
  if (last?.type !== 'response.completed') throw new Error(`the stream ends in ${last?.type}`)
  return last.response!
}

/** The part of an item that each kind of client sends back. */
const CLIENTS: readonly (readonly [name: string, keep: (item: Json) => Json])[] = [
  ['a client that sends everything', item => item],
  // Codex drops the ids and the status of items.
  ['a client that sends back only the members it knows', ({ id: _, status: __, ...item }) => item],
]

describe.each(CLIENTS)('%s', (_client, keep) => {
  const nextTurn = ({ output }: Response): Json =>
    canonical({
      input: [
        { role: 'user', content: 'Hi' },
        ...output.map(keep),
        ...output.flatMap(item =>
          item.type === 'function_call'
            ? [{ type: 'function_call_output', call_id: item.call_id, output: 'rain' }]
            : [],
        ),
      ],
      tools: TOOLS,
      reasoning: { effort: 'high' },
    })

  const BLOCKS = [
    { type: 'thinking', thinking: 'Both at once.', signature: 'EqQB+/=' },
    { type: 'redacted_thinking', data: 'EmwKAh==' },
    { type: 'text', text: 'Let me look.' },
    { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Zürich' } },
    { type: 'tool_use', id: 'toolu_2', name: 'time', input: {} },
  ]

  function claudeWhole(): Response {
    const message = { id: 'msg_1', type: 'message', content: BLOCKS, stop_reason: 'tool_use' }
    const answer = claude.dialect.decodeAnswer(Buffer.from(JSON.stringify(message)), claude.view())
    if ('failure' in answer) throw new Error(answer.failure.detail)
    return wholeOf(answer.completion)
  }

  function claudeStream(): Response {
    const events = [
      claude.blockStart(0, { type: 'thinking', thinking: '', signature: '' }),
      claude.delta(0, 'thinking_delta', { thinking: 'Both ' }),
      claude.delta(0, 'thinking_delta', { thinking: 'at once.' }),
      claude.delta(0, 'signature_delta', { signature: 'EqQB+/=' }),
      claude.blockStop(0),
      claude.blockStart(1, BLOCKS[1]!),
      claude.blockStop(1),
      ...claude.text(2, 'Let me ', 'look.'),
      claude.blockStart(3, { ...BLOCKS[3]!, input: {} }),
      claude.delta(3, 'input_json_delta', { partial_json: '{"city":"Zürich"}' }),
      claude.blockStop(3),
      claude.blockStart(4, BLOCKS[4]!),
      claude.blockStop(4),
    ]
    const items = claude.itemsOfEvents([claude.start(), ...events, ...claude.end('tool_use')], true)
    return streamOf(claude.chunksOf(items))
  }

  test.each([
    ['whole', claudeWhole],
    ['streamed', claudeStream],
  ])('Anthropic, %s: gets its own blocks back and continues its reasoning', (_how, answer) => {
    const response = answer()
    expect(response.output.map(({ type }) => type)).toEqual(['reasoning', 'message', 'function_call', 'function_call'])
    const { body } = claude.dialect.encodeRequest(claude.chatOf(nextTurn(response)), claude.target())
    const sent = JSON.parse(body.toString())
    expect(sent.messages[1]).toEqual({ role: 'assistant', content: BLOCKS })
    expect(sent.messages[2].content).toMatchObject([{ tool_use_id: 'toolu_1' }, { tool_use_id: 'toolu_2' }])
    expect(sent.thinking).toMatchObject({ type: 'enabled' })
  })

  const PARTS = [
    { text: 'Hm.', thought: true },
    { functionCall: { name: 'weather', args: { city: 'Zürich' } }, thoughtSignature: 'c2ln' },
    { functionCall: { name: 'time', args: {} } },
  ]
  const answer = gemini.parts(PARTS, { finishReason: 'STOP' })

  function geminiWhole(): Response {
    const decoded = gemini.studio.decodeAnswer(Buffer.from(JSON.stringify(answer)), gemini.view)
    if ('failure' in decoded) throw new Error(decoded.failure.detail)
    return wholeOf(decoded.completion)
  }

  function geminiStream(): Response {
    const items = gemini.decoded([
      gemini.sse(gemini.parts(PARTS.slice(0, 1)), gemini.parts(PARTS.slice(1), { finishReason: 'STOP' })),
    ])
    return streamOf(items.flatMap(item => (item.kind === 'chunk' ? [item.chunk] : [])))
  }

  test.each([
    ['whole', geminiWhole],
    ['streamed', geminiStream],
  ])('Google, %s: gets its signature back with its call', (_how, respond) => {
    const response = respond()
    expect(response.output.map(({ type }) => type)).toEqual(['reasoning', 'function_call', 'function_call'])
    const { wire } = gemini.encode(nextTurn(response), 'gemini-3.6-flash')
    expect(wire.contents[1].parts).toMatchObject([
      { functionCall: { name: 'weather', args: { city: 'Zürich' } }, thoughtSignature: 'c2ln' },
      { functionCall: { name: 'time' } },
    ])
  })
})

/** Reasoning of an OpenAI-compatible model that shows it and does not sign it. */
describe('reasoning without a signature', () => {
  const CALL = { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{}' } }
  const SHOWN = { reasoning: { summary: 'auto' } }
  const BOXED = { ...SHOWN, include: ['reasoning.encrypted_content'] }
  const RESULT = { type: 'function_call_output', call_id: 'c1', output: 'rain' }

  const whole = (request: Json): Json[] =>
    answered({ reasoning_content: 'Hm. 🤔', tool_calls: [CALL] }, { finish: 'tool_calls', request }).output

  function stream(request: Json): Json[] {
    const chunks = [
      chunk({ reasoning_content: 'Hm. ' }),
      chunk({ reasoning_content: '🤔' }),
      chunk({ tool_calls: [{ index: 0, ...CALL }] }, 'tool_calls'),
    ]
    return eventsOf(streamed(chunks, request)).flatMap(event =>
      event.type === 'response.output_item.done' ? [event.item!] : [],
    )
  }

  const turn = (thought: Json, call: Json) => [{ role: 'user', content: 'Hi' }, thought, call, RESULT]

  test.each([
    ['whole', whole],
    ['streamed', stream],
  ])('%s: is sealed if the client requests it, and the provider gets it back', (_how, answer) => {
    const [thought, call] = answer(BOXED) as [Json, Json]
    expect(thought).toMatchObject({ type: 'reasoning', summary: [{ text: 'Hm. 🤔' }] })
    expect(thought['encrypted_content']).toMatch(/^tollgate2\.[\w-]+$/)
    // Some clients send back only the box.
    for (const kept of [thought, { ...thought, summary: [] }]) {
      expect(messagesOf(turn(kept, call))).toMatchObject([
        {},
        { role: 'assistant', reasoning_content: 'Hm. 🤔', tool_calls: [CALL] },
        { role: 'tool' },
      ])
    }
    expect(answer(SHOWN)[0]).not.toHaveProperty('encrypted_content')
    expect(answer({ ...SHOWN, include: ['message.output_text.logprobs'] })[0]).not.toHaveProperty('encrypted_content')
  })

  test.each([
    ['no summary setting', {}],
    ['no summary', { reasoning: { effort: 'high', summary: null } }],
    ['the summary none', { reasoning: { summary: 'none' } }],
    ['encrypted content alone', { include: ['reasoning.encrypted_content'] }],
  ])('a request with %s: no summary is shown, and the provider gets its reasoning back', (_name, request) => {
    for (const answer of [whole, stream]) {
      const [thought, call] = answer(request) as [Json, Json]
      expect(thought).toMatchObject({ type: 'reasoning', summary: [], encrypted_content: expect.any(String) })
      expect(messagesOf(turn(thought, call))).toMatchObject([{}, { reasoning_content: 'Hm. 🤔' }, {}])
    }
    const events = eventsOf(streamed([chunk({ reasoning_content: 'Hm.' }), chunk({ content: 'Hi' }, 'stop')], request))
    expect(events.filter(({ type }) => type.includes('reasoning_summary'))).toEqual([])
  })

  test('the older name requests a summary too', () => {
    const [thought] = whole({ reasoning: { generate_summary: 'detailed' } })
    expect(thought).toMatchObject({ summary: [{ text: 'Hm. 🤔' }] })
  })

  test('a changed box, or one of another account, is an error that names its place', () => {
    const [thought, call] = whole(BOXED) as [Json, Json]
    const box = thought['encrypted_content'] as string
    const theirs = `tollgate2.${boxesOf('acct_2').seal('{"text":"Hm."}')}`
    const damaged = [box.slice(0, -8), `${box.slice(0, 20)}${box[20] === 'A' ? 'B' : 'A'}${box.slice(21)}`]
    for (const encrypted_content of [theirs, ...damaged, 'tollgate2.']) {
      const refusal = refusalOf({ ...MINIMAL, input: turn({ ...thought, encrypted_content }, call) })
      expect(refusal).toMatchObject({ code: 'invalid_value', param: 'input[1].encrypted_content' })
      expect(refusal.message).toContain('another account')
      expect(refusal.message).not.toContain(encrypted_content)
    }
  })
})
