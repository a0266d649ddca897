import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { EventStreamBroken, EventStreamReader } from '../../../../src/providers/dialects/bedrock/event-stream.ts'
import { countsOf } from '../../../helpers/counts.ts'
import { frame, type Headers, split, u32 } from './frames.ts'

const counts = countsOf('corpus')

const read = (pieces: readonly Buffer[], reader = new EventStreamReader()) =>
  pieces
    .flatMap(piece => reader.push(piece))
    .map(({ headers, payload }) => ({ headers: Object.fromEntries(headers), payload: payload.toString() }))

/** The reader's error for broken bytes, and the number of messages that it read before. */
function errorOf(bytes: Buffer, limitBytes?: number): { readonly message: string; readonly before: number } {
  try {
    new EventStreamReader(limitBytes).push(bytes)
  } catch (error) {
    if (error instanceof EventStreamBroken) return { message: error.message, before: error.messages.length }
    throw error
  }
  throw new Error('nothing was thrown')
}

const hello = frame({ ':message-type': 'event', a: 'b' }, '{"text":"héllo 👋"}')

/** A copy of the frame with one bit flipped. */
const damaged = (bytes: Buffer, at: number) => {
  const copy = Buffer.from(bytes)
  copy[at] = copy[at]! ^ 0x40
  return copy
}

describe('broken streams', () => {
  test.each<[name: string, bytes: Buffer, message: string]>([
    ['not an event stream', Buffer.from('<html><body>Bad gateway</body></html>'), 'checksum of a frame’s lengths'],
    ['a damaged length', damaged(hello, 3), 'checksum of a frame’s lengths'],
    ['a damaged header length', damaged(hello, 7), 'checksum of a frame’s lengths'],
    ['a damaged first checksum', damaged(hello, 8), 'checksum of a frame’s lengths'],
    ['a damaged header', damaged(hello, 14), 'checksum of a frame is wrong'],
    ['a damaged payload', damaged(hello, hello.length - 8), 'checksum of a frame is wrong'],
    ['a damaged last checksum', damaged(hello, hello.length - 1), 'checksum of a frame is wrong'],
    ['a header with a length beyond the headers', frame({ a: Buffer.from([7, 255, 255, 65]) }), 'headers of a frame'],
    ['a header that stops before its length', frame({ a: Buffer.from([7, 0]) }), 'headers of a frame'],
    ['a header without a type', frame({ a: Buffer.alloc(0) }), 'headers of a frame'],
    ['a header of unknown type', frame({ a: Buffer.from([10, 0, 0]) }), 'headers of a frame'],
  ])('%s', (_name, bytes, message) => {
    expect(errorOf(bytes).message).toContain(message)
    expect(errorOf(Buffer.concat([hello, hello, bytes]))).toMatchObject({
      message: expect.stringContaining(message),
      before: 2,
    })
  })

  test.each([
    ['shorter than a frame can be', 15, 0],
    ['with headers that do not fit', 40, 25],
    ['with headers of four gigabytes', 40, 0xffffffff],
  ])('a frame %s, with correct checksums', (_name, size, headersBytes) => {
    const prelude = frame({}).subarray(0, 12)
    const lengths = Buffer.concat([u32(size), u32(headersBytes)])
    expect(errorOf(Buffer.concat([lengths, u32(crc32(lengths)), prelude])).message).toContain('cannot hold headers')
  })

  test('a frame above the limit is refused after its first twelve bytes', () => {
    const large = frame({}, 'x'.repeat(1000))
    expect(errorOf(large.subarray(0, 12), 1015).message).toBe('a frame is longer than 1015 bytes')
    expect(read([large], new EventStreamReader(1016))).toHaveLength(1)
    expect(read([frame({}, 'x'.repeat(15 * 1024 * 1024))])).toHaveLength(1)
    expect(errorOf(frame({}, 'x'.repeat(16 * 1024 * 1024)).subarray(0, 12)).message).toContain('longer than 16777216')
  })

  test('broken bytes are refused however they are split', () => {
    const bytes = Buffer.concat([hello, damaged(hello, 20)])
    for (let size = 1; size <= bytes.length; size++) {
      expect(() => read(split(bytes, [size])), `pieces of ${size}`).toThrow('checksum of a frame is wrong')
    }
  })
})

describe('messages', () => {
  test('text headers are read, others are skipped', () => {
    const headers: Headers = {
      yes: Buffer.from([0]),
      no: Buffer.from([1]),
      byte: Buffer.from([2, 9]),
      short: Buffer.from([3, 9, 9]),
      integer: Buffer.from([4, 1, 2, 3, 4]),
      long: Buffer.from([5, 1, 2, 3, 4, 5, 6, 7, 8]),
      bytes: Buffer.from([6, 0, 2, 7, 7]),
      ':message-type': 'event',
      time: Buffer.from([8, 1, 2, 3, 4, 5, 6, 7, 8]),
      uuid: Buffer.from([9, ...Array.from({ length: 16 }, (_, i) => i)]),
    }
    expect(read([frame(headers, 'x')])).toEqual([{ headers: { ':message-type': 'event' }, payload: 'x' }])
  })

  test('a frame may have neither headers nor payload', () => {
    expect(read([frame({})])).toEqual([{ headers: {}, payload: '' }])
  })

  test('a known frame', () => {
    // The shortest frame: its length, no headers, the checksum of both lengths, and the checksum of the frame.
    expect(frame({}).toString('hex')).toBe('000000100000000005c248eb7d98c8ff')
    expect(read([Buffer.from('000000100000000005c248eb7d98c8ff', 'hex')])).toHaveLength(1)
  })

  test('the messages do not depend on how the bytes are split', () => {
    const headers = fc.dictionary(fc.stringMatching(/^[a-z:-]{1,20}$/), fc.string({ maxLength: 40 }), { maxKeys: 4 })
    const messages = fc.array(fc.record({ headers, payload: fc.string({ maxLength: 700, unit: 'grapheme' }) }), {
      maxLength: 6,
    })
    const sizes = fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 20 })
    fc.assert(
      fc.property(messages, sizes, (sent, pieces) => {
        const bytes = Buffer.concat(sent.map(({ headers, payload }) => frame(headers, payload)))
        expect(read(split(bytes, pieces))).toEqual(
          sent.map(message => ({ ...message, headers: { ...message.headers } })),
        )
        expect(read(split(bytes, [1]))).toEqual(read([bytes]))
      }),
      { numRuns: counts(50, 5000) },
    )
  })

  test('any bytes are read, refused or incomplete', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(1000), (noise, at) => {
        const bytes = Buffer.from(hello)
        Buffer.from(noise).copy(bytes, at % bytes.length)
        try {
          new EventStreamReader().push(bytes)
        } catch (error) {
          expect(error).toBeInstanceOf(EventStreamBroken)
        }
      }),
      { numRuns: counts(50, 20_000) },
    )
  })
})
