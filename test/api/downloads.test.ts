/** Downloads of long files: one per client, few pieces for a client that does not read, and fairness. */
import { once } from 'node:events'
import { createServer, get, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import Koa from 'koa'
import { expect, onTestFinished, test } from 'vitest'
import { isRefusal } from '#contract'
import { createFiles } from '../../src/api/downloads.ts'

/** A server with one route; `pieces` makes the pieces of each file from the path. */
async function serve(pieces: (path: string) => Iterable<string>) {
  const log: object[] = []
  const write = (fields: object) => void log.push(fields)
  const files = createFiles({ log: { info: write, warn: write, error: write } })
  const over: string[] = []
  const app = new Koa()
  app.silent = true
  app.use(async ctx => {
    try {
      await files.send(ctx, { owner: ctx.path, filename: 'a.csv', pieces: pieces(ctx.path) })
      over.push(ctx.path)
    } catch (error) {
      if (!isRefusal(error)) throw error
      ctx.status = error.status
      ctx.body = { code: error.code, message: error.message }
    }
  })
  const server = createServer(app.callback())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const ask = async (path: string): Promise<IncomingMessage> => {
    const request = get({ host: '127.0.0.1', port: (server.address() as AddressInfo).port, path, agent: false })
    const [response] = await once(request, 'response')
    response.on('error', () => {})
    return response
  }
  return { ask, over, log }
}

test('a client that does not read gets no second file, and few pieces are made for it; a disconnect ends the file', async () => {
  let made = 0
  let ended = 0
  const { ask, over, log } = await serve(function* () {
    try {
      for (;;) {
        made++
        yield 'x'.repeat(1_000_000)
      }
    } finally {
      ended++
    }
  })
  const first = await ask('/alice')
  const second = await ask('/alice')
  expect(second.statusCode).toBe(429)
  expect(JSON.parse(await text(second))).toEqual({
    code: 'too_many_attempts',
    message: 'Another download of yours is in progress. Try again when it has ended.',
  })
  const other = await ask('/bob')
  expect(other.statusCode).toBe(200)
  let before = -1
  while (before !== made) {
    before = made
    for (let turn = 0; turn < 200; turn++) await new Promise(resolve => setImmediate(resolve))
  }
  expect(made).toBeLessThan(60)
  first.destroy()
  await expect.poll(() => over).toContain('/alice')
  expect(ended).toBe(1)
  expect(log).toEqual([])
  expect((await ask('/alice')).statusCode).toBe(200)
})

test('a piece that cannot be made aborts the answer, and the failure is logged', async () => {
  const { ask, log, over } = await serve(function* () {
    yield 'a,b\r\n'
    throw new Error('the disk failed')
  })
  const answer = await ask('/alice')
  await expect(text(answer)).rejects.toThrow('aborted')
  expect(over).toEqual(['/alice'])
  expect(log).toMatchObject([{ err: { message: 'the disk failed' }, filename: 'a.csv' }])
})

test('with forty downloads, the event loop makes one piece of one file per turn', async () => {
  let turn = 0
  let counting = true
  const count = () => {
    turn++
    if (counting) setImmediate(count)
  }
  setImmediate(count)
  const turns: number[] = []
  const { ask } = await serve(function* (path) {
    for (let piece = 0; piece < 5; piece++) {
      turns.push(turn)
      yield `${path} ${piece}\r\n`
    }
  })
  const names = Array.from({ length: 40 }, (_, index) => `/${index}`)
  const answers = await Promise.all(names.map(async name => text(await ask(name))))
  counting = false
  expect(answers).toEqual(names.map(name => [0, 1, 2, 3, 4].map(piece => `${name} ${piece}\r\n`).join('')))
  expect(turns).toHaveLength(200)
  expect(new Set(turns).size).toBe(200)
})
