/** A conversation with thinking and calls, whose client sends the assistant's message back as it got it. */
import { expect, test } from 'vitest'
import type { ChatMessage, ChatRequest } from '#contract'
import {
  blockStart,
  blockStop,
  chatOf,
  chunksOf,
  delta,
  dialect,
  type Event,
  end,
  folded,
  HI,
  itemsOfEvents,
  start,
  target,
  text,
  view,
} from './helpers.ts'

const CONTENT = [
  { type: 'thinking', thinking: 'Both at once.', signature: 'EqQB+/=' },
  { type: 'redacted_thinking', data: 'EmwKAh==' },
  { type: 'text', text: 'Let me look.' },
  { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Zürich' } },
  { type: 'tool_use', id: 'toolu_2', name: 'time', input: {} },
]

function whole(): ChatMessage {
  const message = { id: 'msg_1', type: 'message', content: CONTENT, stop_reason: 'tool_use' }
  const answer = dialect.decodeAnswer(Buffer.from(JSON.stringify(message)), view())
  if ('failure' in answer) throw new Error(answer.failure.detail)
  return answer.completion.choices[0]!.message as ChatMessage
}

function streamed(): ChatMessage {
  const events: Event[] = [
    blockStart(0, { type: 'thinking', thinking: '', signature: '' }),
    delta(0, 'thinking_delta', { thinking: 'Both ' }),
    delta(0, 'thinking_delta', { thinking: 'at once.' }),
    delta(0, 'signature_delta', { signature: 'EqQB' }),
    delta(0, 'signature_delta', { signature: '+/=' }),
    blockStop(0),
    blockStart(1, CONTENT[1]!),
    blockStop(1),
    ...text(2, 'Let me ', 'look.'),
    blockStart(3, { ...CONTENT[3]!, input: {} }),
    delta(3, 'input_json_delta', { partial_json: '{"city":"Zür' }),
    delta(3, 'input_json_delta', { partial_json: 'ich"}' }),
    blockStop(3),
    blockStart(4, CONTENT[4]!),
    blockStop(4),
  ]
  return folded(chunksOf(itemsOfEvents([start(), ...events, ...end('tool_use')]))).message as ChatMessage
}

test.each([
  ['whole', whole],
  ['streamed', streamed],
])('%s: the provider gets its own blocks back', (_name, answer) => {
  const messages: ChatRequest['messages'] = [
    ...HI,
    answer(),
    { role: 'tool', tool_call_id: 'toolu_1', content: 'rain' },
    { role: 'tool', tool_call_id: 'toolu_2', content: 'noon' },
  ]
  const tools = ['weather', 'time'].map(name => ({ type: 'function', function: { name } }))
  const { body, dropped } = dialect.encodeRequest(chatOf({ messages, tools, reasoning_effort: 'high' }), target())
  const sent = JSON.parse(body.toString())
  expect(sent.messages).toEqual([
    { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
    { role: 'assistant', content: CONTENT },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'toolu_1', content: 'rain' },
        { type: 'tool_result', tool_use_id: 'toolu_2', content: 'noon' },
      ],
    },
  ])
  expect(sent.thinking).toEqual({ type: 'enabled', budget_tokens: 3276 })
  expect(dropped).toEqual([])
})
