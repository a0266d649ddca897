/**
 * Random chunk streams: the Response in the last event matches the events before it and the whole answer of the same chunks.
 * Items that the client sends back are restored unchanged.
 */
import { expect, test } from 'vitest'
import type { Chunk } from '#contract'
import { responsesInbound } from '../../../../../src/providers/dialects/inbound/responses/index.ts'
import type { Json } from '../../../../helpers/cases.ts'
import { countsOf } from '../../../../helpers/counts.ts'
import { seeded } from '../../../../helpers/seeded.ts'
import { type DrawnAnswer, draw, messageOf, spoiler, wireCall } from './chunks.ts'
import {
  answered,
  chunk,
  type Event,
  eventsOf,
  type Item,
  MINIMAL,
  messagesOf,
  streamed,
  usageChunk,
  VIEW,
} from './helpers.ts'

const counts = countsOf('corpus')
const SEED = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))

test('final events are sent only at the end', () => {
  const encoder = responsesInbound.decodeRequest({ ...MINIMAL, stream: true }, VIEW).encodeStream()
  encoder.chunk(chunk({ content: 'Hi' }))
  expect(encoder.chunk(chunk({}, 'stop')).length).toBe(0)
  expect(encoder.chunk(usageChunk()).length).toBe(0)
  expect(encoder.finish().toString()).toMatch(
    /^event: response\.output_text\.done\n.*event: response\.completed\n[^\n]*\n\n$/s,
  )
})

/** Items joined by kind: only a stream has their order and interruptions. */
function gist(items: readonly Item[]) {
  const texts = { text: '', refusal: '', summary: '' }
  const calls: unknown[] = []
  for (const item of items) {
    if (item.type === 'reasoning') texts.summary += item.summary!.map(part => part.text).join('')
    else if (item.type === 'message') {
      for (const part of item.content!) {
        if (part.type === 'output_text') texts.text += part.text!
        else texts.refusal += part.refusal!
      }
    } else if (item.type === 'function_call') calls.push([item.call_id, item['name'], item['arguments']])
    else if (item.type === 'custom_tool_call') calls.push([item.call_id, item['name'], item['input']])
  }
  return { ...texts, calls }
}

/** The assistant's message as the gateway reads it when a client sends everything back, its text joined. */
function returned(items: readonly Item[]): Json | null {
  const [, message] = messagesOf([{ role: 'user', content: 'Hi' }, ...items]) as Json[]
  if (!message) return null
  const content = message['content'] as string | readonly { readonly text: string }[] | null
  return { ...message, content: Array.isArray(content) ? content.map(part => part.text).join('') : content }
}

/** Each item in its final form, in the order in which the items began. */
function endedItems(events: readonly Event[]): Item[] {
  const items: Item[] = []
  for (const { type, output_index: index, item } of events) {
    if (type === 'response.output_item.done') items[index as number] = item!
  }
  return items
}

/** The deltas joined by kind. */
function deltasOf(events: readonly Event[]) {
  const sum = (kind: string) => events.map(({ type, delta }) => (type === kind ? String(delta) : '')).join('')
  return {
    text: sum('response.output_text.delta'),
    refusal: sum('response.refusal.delta'),
    summary: sum('response.reasoning_summary_text.delta'),
  }
}

const textsOf = ({ calls: _calls, ...texts }: ReturnType<typeof gist>) => texts

/** Missing arguments become an empty object. */
function whole({ calls }: DrawnAnswer): Json[] {
  return calls.map(call =>
    wireCall(call.custom || call.text.trim() !== '' ? call : { ...call, text: `${call.text}{}` }),
  )
}

test(`random streams (seed ${SEED})`, () => {
  const random = seeded(SEED)
  for (let round = 0; round < counts(120, 4_000); round++) {
    const tidy = round % 3 === 0
    const { chunks, drawn } = draw(random, tidy)
    const body = streamed(chunks)
    const answer = answered(messageOf(drawn), { finish: drawn.finish })
    const events = eventsOf(body)
    const last = events.at(-1)!.response!
    const where = `round ${round}: ${JSON.stringify(chunks)}`

    const { output, ...rest } = last
    const { output: wholeOutput, ...wholeRest } = answer
    expect(rest, where).toEqual(wholeRest)
    expect(gist(output), where).toEqual(gist(wholeOutput))
    expect(endedItems(events), where).toEqual(output)
    expect(deltasOf(events), where).toEqual(textsOf(gist(output)))
    expect(gist(output).calls, where).toHaveLength(drawn.calls.length)
    if (tidy && drawn.calls.every(call => Object.keys(call.extra).length === 0)) {
      expect(output, where).toEqual(wholeOutput)
    }

    expect(returned(output), where).toEqual(returned(wholeOutput))
    const { content, details, extra, calls } = drawn
    if (content === '' && drawn.refusal === '' && calls.length === 0) continue
    const message = returned(wholeOutput)!
    expect(message['reasoning_details'] ?? [], where).toEqual(details)
    expect(message['extra_content'] ?? {}, where).toEqual(extra)
    expect(message['tool_calls'] ?? [], where).toEqual(whole(drawn))
  }
})

test(`invalid values in a provider's chunks do not break the stream (seed ${SEED})`, () => {
  const random = seeded(SEED)
  const spoil = spoiler(random)
  for (let round = 0; round < counts(100, 2_000); round++) {
    const { chunks } = draw(random, false)
    const spoiled = chunks.map(each => ({ ...each, choices: each.choices.map(spoil) as Chunk['choices'] }))
    const events = eventsOf(streamed(spoiled))
    expect(endedItems(events), JSON.stringify(spoiled)).toEqual(events.at(-1)!.response!.output)
  }
})
