/** Servers that are too old, or not state servers. This test writes their answers. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { openRedisState } from '../../src/state/redis-state.ts'

const clock = { now: () => 0 }
const log = { info() {}, warn() {}, error() {} }

/** Answers each command; null: no answer. */
async function answering(answer: (command: string) => string | null): Promise<number> {
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.on('data', bytes => {
      for (const [, command] of bytes.toString().matchAll(/\*\d+\r\n\$\d+\r\n(\w+)\r\n/g)) {
        const text = answer(command!.toLowerCase())
        if (text !== null) socket.write(text)
      }
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

const info = (text: string) => (command: string) => (command === 'info' ? `$${text.length}\r\n${text}\r\n` : '+OK\r\n')

test.each<[string, (command: string) => string | null, string, string]>([
  [
    'Redis 5',
    info('redis_version:5.0.14\r\nredis_mode:standalone\r\n'),
    'is Redis 5.0.14, which is too old',
    'Redis 6.2',
  ],
  ['Redis 6.0', info('redis_version:6.0.20\r\n'), 'is Redis 6.0.20, which is too old', 'Redis 6.2'],
  ['silence', () => null, 'cannot be reached: no answer within 2000 ms', 'start it'],
  ['HTTP', () => 'HTTP/1.1 400 Bad Request\r\n\r\n', 'is not a state server', 'Redis or Valkey'],
])('%s is refused with a sentence and a suggestion', async (_name, answer, words, suggestion) => {
  const port = await answering(answer)
  const error = await openRedisState({ url: `redis://:hidden@127.0.0.1:${port}`, clock, log }).catch(each => each)
  expect(error.name).toBe('StateError')
  expect(error.message).toContain(`the server at 127.0.0.1:${port} ${words}`)
  expect(error.suggestion).toContain(suggestion)
  expect(error.message + error.suggestion).not.toContain('hidden')
})
