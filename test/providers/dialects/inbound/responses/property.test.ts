/**
 * Any sequence of chunks: the official library's own accumulation of the events is the Response that the last event
 * holds, and says the same as the whole answer that the chunks add up to. What comes back from the client is what went out.
 */
import type { ResponseOutputItem } from 'openai/resources/responses/responses'
import { expect, test } from 'vitest'
import { type Chunk, isRefusal } from '#contract'
import { responsesInbound } from '../../../../../src/providers/dialects/inbound/responses/index.ts'
import { counts } from '../../../../helpers/counts.ts'
import { seeded } from '../../../../helpers/seeded.ts'
import {
  answered,
  chunk,
  eventsOf,
  folded,
  type Json,
  MINIMAL,
  messagesOf,
  streamed,
  usageChunk,
  VIEW,
} from './helpers.ts'

const SEED = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))

interface Call {
  readonly id: string
  readonly name: string
  readonly custom: boolean
  readonly extra: Json
  text: string
}

/** What was said altogether, as a whole answer has it. */
interface Said {
  content: string
  reasoning: string
  refusal: string
  readonly details: Json[]
  extra: Json
  readonly calls: Call[]
  finish: string
}

const WORDS = ['a', 'Grüße ', '\n', '"{}"', '🚲', ' x\u2028']

/** @param tidy in the order in which models speak: thoughts, words, calls */
function draw(random: () => number, tidy: boolean): { readonly chunks: Chunk[]; readonly said: Said } {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!
  const said: Said = { content: '', reasoning: '', refusal: '', details: [], extra: {}, calls: [], finish: 'stop' }
  const chunks: Chunk[] = []
  const speak = {
    think() {
      const text = pick(WORDS)
      said.reasoning += text
      chunks.push(chunk({ reasoning_content: text }))
    },
    sign() {
      const detail = { type: 'reasoning.text', text: pick(WORDS), signature: `s${said.details.length}` }
      said.details.push(detail)
      chunks.push(chunk({ reasoning_details: [detail] }))
    },
    say() {
      const text = pick(WORDS)
      said.content += text
      chunks.push(chunk({ content: text }))
    },
    refuse() {
      const text = pick(WORDS)
      said.refusal += text
      chunks.push(chunk({ refusal: text }))
    },
    mark() {
      said.extra = { google: { thought_signature: `m${chunks.length}` } }
      chunks.push(chunk({ extra_content: said.extra }))
    },
    call() {
      const index = said.calls.length
      const extra = random() < 0.3 ? { extra_content: { google: { thought_signature: `c${index}` } } } : {}
      const call: Call = { id: `c${index}`, name: pick(['look', 'find']), custom: random() < 0.3, extra, text: '' }
      said.calls.push(call)
      chunks.push(chunk({ tool_calls: [{ index, ...wireCall(call) }] }))
      argue(call, index)
    },
    argue() {
      const index = Math.floor(random() * said.calls.length)
      const call = said.calls[index]
      if (call) argue(call, index)
    },
    idle() {
      chunks.push(chunk({ content: '' }))
    },
  }
  function argue(call: Call, index: number): void {
    const text = pick(WORDS.slice(0, 4))
    call.text += text
    const piece = call.custom ? { custom: { input: text } } : { function: { arguments: text } }
    chunks.push(chunk({ tool_calls: [{ index, ...piece }] }))
  }
  if (tidy) {
    for (const name of ['think', 'sign', 'say', 'refuse', 'call', 'argue'] as const) {
      for (let left = Math.floor(random() * 4); left > 0; left--) speak[name]()
    }
  } else {
    for (let left = Math.floor(random() * 25); left > 0; left--)
      speak[pick(Object.keys(speak) as (keyof typeof speak)[])]()
  }
  said.finish = pick(['stop', 'tool_calls', 'length', 'content_filter'])
  chunks.push(chunk({}, said.finish), usageChunk())
  return { chunks, said }
}

function wireCall({ id, name, custom, extra, text }: Call): Json {
  if (custom) return { id, type: 'custom', custom: { name, input: text }, ...extra }
  return { id, type: 'function', function: { name, arguments: text }, ...extra }
}

function messageOf({ content, reasoning, refusal, details, extra, calls }: Said): Json {
  return {
    role: 'assistant',
    content: content || null,
    refusal: refusal || null,
    ...(reasoning ? { reasoning_content: reasoning } : {}),
    ...(details.length > 0 ? { reasoning_details: details } : {}),
    ...(Object.keys(extra).length > 0 ? { extra_content: extra } : {}),
    ...(calls.length > 0 ? { tool_calls: calls.map(wireCall) } : {}),
  }
}

/** What is left when items of a kind are taken together: their order, and where one was interrupted, is the stream's own. */
function gist(items: readonly ResponseOutputItem[]) {
  const texts = { text: '', refusal: '', summary: '' }
  const calls: unknown[] = []
  for (const item of items) {
    if (item.type === 'reasoning') texts.summary += item.summary.map(part => part.text).join('')
    else if (item.type === 'message') {
      for (const part of item.content) {
        if (part.type === 'output_text') texts.text += part.text
        else texts.refusal += part.refusal
      }
    } else if (item.type === 'function_call') calls.push([item.call_id, item.name, item.arguments])
    else if (item.type === 'custom_tool_call') calls.push([item.call_id, item.name, item.input])
  }
  return { ...texts, calls }
}

/** The assistant's message, as the gateway reads it when a client sends everything back; its text in one piece. */
function returned(items: readonly ResponseOutputItem[]): Json | null {
  const [, message] = messagesOf([{ role: 'user', content: 'Hi' }, ...items]) as Json[]
  if (!message) return null
  const content = message['content'] as string | readonly { readonly text: string }[] | null
  return { ...message, content: Array.isArray(content) ? content.map(part => part.text).join('') : content }
}

/** No arguments are an empty object. */
function whole({ calls }: Said): Json[] {
  return calls.map(call =>
    wireCall(call.custom || call.text.trim() !== '' ? call : { ...call, text: `${call.text}{}` }),
  )
}

test(`random streams (seed ${SEED})`, async () => {
  const random = seeded(SEED)
  for (let round = 0; round < counts(120, 4_000); round++) {
    const tidy = round % 3 === 0
    const { chunks, said } = draw(random, tidy)
    const body = streamed(chunks)
    const answer = answered(messageOf(said), { finish: said.finish })
    const last = eventsOf(body).at(-1) as { readonly response: typeof answer }
    const where = `round ${round}: ${JSON.stringify(chunks)}`

    const { output_parsed: _, output_text: text, ...response } = await folded(body)
    expect(response, where).toMatchObject(last.response)
    expect(text, where).toBe(gist(answer.output).text)

    const { output, ...rest } = last.response
    const { output: wholeOutput, ...wholeRest } = answer
    expect(rest, where).toEqual(wholeRest)
    expect(gist(output), where).toEqual(gist(wholeOutput))
    expect(gist(output).calls, where).toHaveLength(said.calls.length)
    if (tidy && said.calls.every(call => Object.keys(call.extra).length === 0)) {
      expect(output, where).toEqual(wholeOutput)
    }

    expect(returned(output), where).toEqual(returned(wholeOutput))
    const { content, details, extra, calls } = said
    if (content === '' && said.refusal === '' && calls.length === 0) continue
    const message = returned(wholeOutput)!
    expect(message['reasoning_details'] ?? [], where).toEqual(details)
    expect(message['extra_content'] ?? {}, where).toEqual(extra)
    expect(message['tool_calls'] ?? [], where).toEqual(whole(said))
  }
})

/** Of everything that a request may hold, something. */
const RICH: Json = {
  ...MINIMAL,
  instructions: 'Be brief.',
  stream: true,
  input: [
    {
      type: 'additional_tools',
      role: 'developer',
      tools: [{ type: 'custom', name: 'exec', format: { type: 'text' } }],
    },
    { role: 'developer', content: [{ type: 'input_text', text: 'x' }] },
    { role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'low' }] },
    {
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: 'Hm.' }],
      content: [{ type: 'reasoning_text', text: 'Hm.' }],
      encrypted_content: answered({
        content: 'x',
        reasoning_details: [{ type: 'reasoning.encrypted', data: 'd' }],
      }).output.map(item => (item.type === 'reasoning' ? item.encrypted_content : null))[0],
    },
    {
      role: 'assistant',
      content: [
        { type: 'output_text', text: 'x' },
        { type: 'refusal', refusal: 'no' },
      ],
    },
    { type: 'function_call', call_id: 'c1', name: 'find', namespace: 'crm', arguments: '{}' },
    { type: 'custom_tool_call', call_id: 'c2', name: 'exec', input: 'x' },
    { type: 'function_call_output', call_id: 'c1', output: [{ type: 'input_file', file_data: 'x', filename: 'f' }] },
    { type: 'custom_tool_call_output', call_id: 'c2', output: 'x' },
    { type: 'tool_search_call', call_id: 'c3', execution: 'client', arguments: {} },
    { type: 'tool_search_output', call_id: 'c3', tools: [{ type: 'function', name: 'mail' }] },
    { type: 'image_generation_call', id: 'i', result: 'AAAA' },
  ],
  tools: [
    { type: 'function', name: 'look', description: 'Looks.', parameters: { type: 'object' }, strict: true },
    { type: 'custom', name: 'patch', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
    { type: 'namespace', name: 'crm', description: 'C', tools: [{ type: 'function', name: 'find' }] },
    { type: 'tool_search', execution: 'client', parameters: {} },
  ],
  tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'look' }] },
  text: { format: { type: 'json_schema', name: 'n', schema: {} }, verbosity: 'low' },
  reasoning: { effort: 'low', summary: 'auto' },
  include: ['reasoning.encrypted_content'],
  metadata: { a: 'b' },
}

/** A copy in which here and there a value is another, or a member is missing. */
function spoiler(random: () => number) {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!
  const spoil = (value: unknown): unknown => {
    if (random() < 0.02)
      return pick([null, 0, -1.5, '', 'x', true, [], {}, [null], [[]], { type: 'x' }, { type: null }])
    if (Array.isArray(value)) return value.map(spoil)
    if (typeof value !== 'object' || value === null) return value
    const members = Object.entries(value).filter(() => random() > 0.02)
    return Object.fromEntries(members.map(([name, inner]) => [name, spoil(inner)]))
  }
  return spoil
}

test(`a provider that sends nonsense in its chunks does not break the stream (seed ${SEED})`, async () => {
  const random = seeded(SEED)
  const spoil = spoiler(random)
  for (let round = 0; round < counts(100, 2_000); round++) {
    const { chunks } = draw(random, false)
    const spoiled = chunks.map(each => ({ ...each, choices: each.choices.map(spoil) as Chunk['choices'] }))
    const body = streamed(spoiled)
    const { output_parsed: _, output_text: __, ...response } = await folded(body)
    const last = eventsOf(body).at(-1) as { readonly response: object }
    expect(response, JSON.stringify(spoiled)).toMatchObject(last.response)
  }
})

test(`requests with something wrong are refused in words, or read (seed ${SEED})`, () => {
  const spoil = spoiler(seeded(SEED))
  let read = 0
  let refused = 0
  for (let round = 0; round < counts(2_000, 100_000); round++) {
    const body = spoil(RICH)
    try {
      const request = responsesInbound.decodeRequest(body, VIEW)
      JSON.stringify(request.body)
      request.encodeStream().finish()
      read++
    } catch (error) {
      if (!isRefusal(error)) throw new Error(`round ${round}: ${JSON.stringify(body)}`, { cause: error })
      expect(error.status, JSON.stringify(body)).toBe(400)
      expect(error.message).not.toMatch(/undefined|\[object/)
      refused++
    }
  }
  expect(Math.min(read, refused)).toBeGreaterThan(10)
})
