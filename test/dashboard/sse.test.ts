import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { eventsOf, readStream, Sentences, type StreamEvent } from '../../src/dashboard/lib/sse.ts'

function bodyOf(...pieces: (string | Uint8Array)[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  return new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(typeof piece === 'string' ? encoder.encode(piece) : piece)
      controller.close()
    },
  })
}

async function all(body: ReadableStream<Uint8Array>): Promise<StreamEvent[]> {
  const events: StreamEvent[] = []
  for await (const event of readStream(body)) events.push(event)
  return events
}

const chunk = (delta: object, rest: object = {}) => JSON.stringify({ choices: [{ index: 0, delta, ...rest }] })

describe('the data of an event', () => {
  test.each<[what: string, data: string, events: StreamEvent[]]>([
    ['no JSON', '{"a', [{ kind: 'error', code: 'unreadable_answer', message: 'A part of the answer is not JSON.' }]],
    [
      'JSON that is not an object',
      '7',
      [{ kind: 'error', code: 'unreadable_answer', message: 'A part of the answer is not JSON.' }],
    ],
    [
      'an error',
      '{"error":{"message":"Too long.","code":"upstream_timeout"}}',
      [{ kind: 'error', code: 'upstream_timeout', message: 'Too long.' }],
    ],
    [
      'an error without words',
      '{"error":{}}',
      [{ kind: 'error', code: 'unknown', message: 'The answer ended in an error.' }],
    ],
    ['the end', '[DONE]', [{ kind: 'done' }]],
    ['nothing to show', chunk({ role: 'assistant', content: '' }), []],
    ['no choices', '{"choices":[]}', []],
    ['null for everything', '{"choices":[{"delta":null,"finish_reason":null}],"usage":null,"error":null}', []],
    ['text', chunk({ content: ' Hi' }), [{ kind: 'text', text: ' Hi' }]],
    ['a refusal', chunk({ content: null, refusal: 'No.' }), [{ kind: 'text', text: 'No.' }]],
    ['a thought', chunk({ reasoning_content: 'Hm' }), [{ kind: 'thought', text: 'Hm' }]],
    ['a thought by its other name', chunk({ reasoning: 'Hm' }), [{ kind: 'thought', text: 'Hm' }]],
    [
      'the last text with its reason',
      chunk({ content: '!' }, { finish_reason: 'length' }),
      [
        { kind: 'text', text: '!' },
        { kind: 'finish', reason: 'length' },
      ],
    ],
    [
      'usage',
      '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":-1}}',
      [{ kind: 'usage', promptTokens: 3, completionTokens: 0 }],
    ],
  ])('%s', (_, data, events) => {
    expect(eventsOf(data)).toEqual(events)
  })
})

describe('a stream', () => {
  test('that breaks off yields its complete events only', async () => {
    const events = await all(bodyOf(`data: ${chunk({ content: 'a' })}\n\ndata: ${chunk({ content: 'b' })}\n`))
    expect(events).toEqual([{ kind: 'text', text: 'a' }])
  })

  test('that fails rejects', async () => {
    const body = new ReadableStream<Uint8Array>({ pull: controller => controller.error(new Error('cut')) })
    await expect(all(body)).rejects.toThrow('cut')
  })

  test('is cancelled when its reader stops', async () => {
    let cancelled = false
    const body = new ReadableStream<Uint8Array>({
      pull: controller => controller.enqueue(new TextEncoder().encode(`data: ${chunk({ content: 'a' })}\n\n`)),
      cancel() {
        cancelled = true
      },
    })
    for await (const event of readStream(body)) if (event.kind === 'text') break
    expect(cancelled).toBe(true)
  })

  test('a character split over two pieces is joined', async () => {
    const bytes = new TextEncoder().encode(`data: ${chunk({ content: '€' })}\n\n`)
    const cut = bytes.indexOf(0xe2) + 1
    expect(await all(bodyOf(bytes.slice(0, cut), bytes.slice(cut)))).toEqual([{ kind: 'text', text: '€' }])
  })

  test('comments, names and ids of events are ignored', async () => {
    const events = await all(bodyOf(': waiting\n\nevent: message\nid: 3\ndata: [DONE]\n\n'))
    expect(events).toEqual([{ kind: 'done' }])
  })

  test('pieces and line ends do not change the events', async () => {
    const ends = fc.constantFrom('\n', '\r\n', '\r')
    const data = ['a', 'é', ' €'].map(content => chunk({ content }))
    const lines = fc.array(fc.constantFrom('', ': c', 'event: x', ...data), { maxLength: 20 })
    await fc.assert(
      fc.asyncProperty(lines, ends, fc.array(fc.nat(400), { maxLength: 8 }), async (given, end, cuts) => {
        const blocks = given.map(line => (line.startsWith('{') ? `data: ${line}${end}` : line) + end)
        // Whether a lone carriage return ends a line shows only in the next character.
        const bytes = new TextEncoder().encode(`${blocks.join('')}${end}: last\n`)
        const places = [0, ...new Set(cuts.filter(cut => cut < bytes.length)), bytes.length].sort((a, b) => a - b)
        const pieces = places.slice(1).map((place, index) => bytes.slice(places[index], place))
        expect(await all(bodyOf(...pieces))).toEqual(
          given.flatMap(line => (line.startsWith('{') ? eventsOf(line) : [])),
        )
      }),
    )
  })
})

describe('sentences', () => {
  test.each<[pieces: string[], said: string[], rest: string]>([
    [['Hel', 'lo'], ['', ''], 'Hello'],
    [['One. T', 'wo! Three'], ['One.', 'Two!'], 'Three'],
    [['It costs $1', '.50 here'], ['', ''], 'It costs $1.50 here'],
    [['He said "no." ', 'Then'], ['He said "no."', ''], 'Then'],
    [['a\n', 'b\n\nc'], ['a', 'b'], 'c'],
    [['你好。再', '见'], ['你好。', ''], '再见'],
    [[''], [''], ''],
  ])('%j', (pieces, said, rest) => {
    const sentences = new Sentences()
    expect(pieces.map(piece => sentences.add(piece))).toEqual(said)
    expect(sentences.end()).toBe(rest)
    expect(sentences.end()).toBe('')
  })
})

test('text without the end of a sentence is announced in parts', () => {
  const sentences = new Sentences()
  const said = Array.from({ length: 30 }, () => sentences.add('word '.repeat(20))).filter(text => text !== '')
  expect(said.length).toBeGreaterThan(1)
  expect(`${said.join(' ')} ${sentences.end()}`.split(/\s+/)).toHaveLength(600)
})
