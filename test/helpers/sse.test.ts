import { describe, expect, it } from 'vitest'
import { contentOf, parseSse, readSse, SseError, sseEvents } from './sse.ts'

describe('what is not strict enough', () => {
  it.each([
    ['a carriage return', 'data: {}\r\n\r\n', /carriage return/],
    ['data without a space', 'data:{}\n\n', /unexpected line "data:\{\}"/],
    ['a line without a field', '{"choices":[]}\n\n', /unexpected line/],
    ['two data lines', 'data: a\ndata: b\n\n', /unexpected line "data: b"/],
    ['an event without data', 'event: error\n\n', /event "error" has no data/],
    ['an id', 'id: 1\ndata: {}\n\n', /unexpected line "id: 1"/],
    ['anything after [DONE]', 'data: [DONE]\n\ndata: {}\n\n', /after \[DONE\]/],
    ['an empty event', '\n\n', /unexpected line ""/],
  ])('%s', (_title, text, message) => {
    expect(() => parseSse(text)).toThrow(SseError)
    expect(() => parseSse(text)).toThrow(message)
  })

  it('another content type', async () => {
    await expect(readSse(new Response('data: {}\n\n'))).rejects.toThrow('content-type is "text/plain')
  })

  it('bytes that are no UTF-8', async () => {
    await expect(readSse(sseResponse([Buffer.from('data: "\xff"\n\n', 'latin1')]))).rejects.toThrow(TypeError)
  })
})

describe('what is', () => {
  it('events, comments, [DONE], and the rest of one that was cut', () => {
    expect(parseSse(': ping\n\nevent: error\ndata: {"a":1}\n\ndata: {"b":2}\n\ndata: {"c"')).toEqual({
      events: [
        { event: 'error', data: '{"a":1}' },
        { event: '', data: '{"b":2}' },
      ],
      comments: ['ping'],
      done: false,
      rest: 'data: {"c"',
    })
    expect(parseSse('data: [DONE]\n\n')).toMatchObject({ events: [], done: true, rest: '' })
  })

  it('is read the same however the bytes were split', async () => {
    const text = ': ok\n\ndata: {"choices":[{"index":0,"delta":{"content":"€😀"}}]}\n\ndata: [DONE]\n\n'
    const whole = parseSse(text)
    expect(contentOf(whole)).toBe('€😀')
    for (const size of [1, 2, 3, 7]) {
      const bytes = Buffer.from(text)
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
        bytes.subarray(at * size, at * size + size),
      )
      expect(await readSse(sseResponse(pieces))).toEqual(whole)
    }
  })

  it('a body that breaks off rejects with what had come', async () => {
    const response = sseResponse([Buffer.from('data: 1\n\ndata: 2')], new Error('reset'))
    await expect(readSse(response)).rejects.toMatchObject({
      message: 'reset',
      partial: { events: [{ data: '1' }], done: false, rest: 'data: 2' },
    })
  })

  it('events come one by one', async () => {
    const seen: string[] = []
    for await (const { data } of sseEvents(
      sseResponse([Buffer.from('data: 1\n\ndata: 2\n\n'), Buffer.from('data: 3\n\n')]),
    )) {
      seen.push(data)
    }
    expect(seen).toEqual(['1', '2', '3'])
  })
})

function sseResponse(pieces: readonly Buffer[], error?: Error): Response {
  const left = [...pieces]
  const body = new ReadableStream({
    pull(controller) {
      const piece = left.shift()
      if (piece) controller.enqueue(new Uint8Array(piece))
      else if (error) controller.error(error)
      else controller.close()
    },
  })
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}
