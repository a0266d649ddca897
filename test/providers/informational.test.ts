/** Informational heads in pieces of any size. transport.test.ts has whole exchanges with them. */
import { Socket } from 'node:net'
import { expect, test, vi } from 'vitest'
import { withoutInformational } from '../../src/providers/informational.ts'

const HINTS = `HTTP/1.1 103 Early Hints\r\nlink: <${'x'.repeat(16_000)}>\r\n\r\n`
const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}'

/** The bytes that a connection's reader gets when the text arrives in pieces, each after the previous one was read. */
function filtered(text: string, size: number): string {
  const bytes = Buffer.from(text)
  const waiting: Buffer[] = []
  const socket = new Socket()
  socket.read = () => waiting.shift() ?? null
  const filter = withoutInformational(socket)
  let read = ''
  for (let at = 0; at < bytes.length; at += size) {
    waiting.push(bytes.subarray(at, at + size))
    for (let piece = filter.read(); piece !== null; piece = filter.read()) read += piece
  }
  socket.destroy()
  return read
}

test.each([1, 2, 3, 4, 7, 10, 11, 4096, 100_000])('pieces of %d bytes: only the answer is read', size => {
  expect(filtered(HINTS + HINTS + ANSWER, size)).toBe(ANSWER)
  expect(filtered(`HTTP/1.1 100 Continue\r\n\r\n${ANSWER}`, size)).toBe(ANSWER)
  expect(filtered(ANSWER, size)).toBe(ANSWER)
})

test.each([1, 4096])('pieces of %d bytes: a head that is too long is left to the parser', size => {
  const long = `HTTP/1.1 103 Early Hints\r\nlink: <${'x'.repeat(40_000)}>\r\n\r\n${ANSWER}`
  expect(filtered(long, size)).toBe(long)
})

test('a head that arrives byte by byte is copied a few times, not once per byte', () => {
  const concat = vi.spyOn(Buffer, 'concat')
  filtered(HINTS + ANSWER, 1)
  const copied = concat.mock.results.reduce((sum, { value }) => sum + (value as Buffer).length, 0)
  concat.mockRestore()
  expect(copied).toBeLessThan(10 * HINTS.length)
})
