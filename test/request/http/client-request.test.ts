/** Bodies that are taken without the stream, and the internals of Node.js that `takeWhole` needs, in every supported version. */
import { IncomingMessage, type IncomingMessage as Request, type ServerResponse } from 'node:http'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, test } from 'vitest'
import type { ClientRequest } from '../../../src/request/http/client-request.ts'
import { until } from '../answer/wire.ts'
import { type Listener, listen } from './listener.ts'

const listeners: Listener[] = []
afterEach(async () => {
  for (const listener of listeners.splice(0)) await listener[Symbol.asyncDispose]()
})

/** Handles each request a turn later, when its body may have arrived. */
async function serve(handle: (request: ClientRequest, response: ServerResponse) => unknown) {
  const requests: Request[] = []
  const errors: unknown[] = []
  const listener = await listen((request, response) => {
    requests.push(request)
    setImmediate(async () => {
      try {
        await handle(request as ClientRequest, response)
      } catch (error) {
        errors.push(error)
        response.destroy()
      }
    })
  })
  listeners.push(listener)
  return { ...listener, requests, errors }
}

const post = (body: string, more = '') =>
  `POST / HTTP/1.1\r\nhost: x\r\n${more}content-length: ${body.length}\r\n\r\n${body}`
const chunked = 'POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n'

/** The state of a stream, as its readers see it. */
const look = ({ readable, readableEnded, destroyed, closed, complete, aborted }: Request) => ({
  readable,
  readableEnded,
  destroyed,
  closed,
  complete,
  aborted,
})

describe('a body is not taken whole', () => {
  test.each([
    ['it does not exist', 'GET / HTTP/1.1\r\nhost: x\r\n\r\n', ''],
    ['it is empty', post(''), ''],
    ['it comes in chunks', chunked, 'body'],
    ['it is as long as the buffer of the stream', post('x'.repeat(64 * 1024)), 'x'.repeat(64 * 1024)],
  ])('if %s: the stream has the body', async (_name, bytes, body) => {
    const { send, errors } = await serve(async (request, response) => {
      await until(() => request.complete)
      expect(request.takeWhole()).toBe(null)
      response.end(`<${await text(request)}>`)
    })
    const client = await send(bytes)
    expect((await client.readResponse()).text()).toBe(`<${body}>`)
    expect(errors).toEqual([])
  })

  test('if it arrives in two pieces: the stream has both', async () => {
    const { send, errors } = await serve(async (request, response) => {
      expect(request.takeWhole()).toBe(null)
      response.end(await text(request))
    })
    const bytes = post('in two pieces')
    const client = await send(bytes.slice(0, -6))
    await new Promise(resolve => setTimeout(resolve, 20))
    await client.send(bytes.slice(-6))
    expect((await client.readResponse()).text()).toBe('in two pieces')
    expect(errors).toEqual([])
  })

  test.each<[name: string, listen: (request: Request) => unknown]>([
    ['data', request => request.on('data', () => {})],
    ['readable', request => request.on('readable', () => {})],
    ['a pipe', request => request.pipe(new PassThrough())],
  ])('if the stream has a reader already: %s', async (_name, begin) => {
    const { send, errors } = await serve((request, response) => {
      begin(request)
      expect(request.takeWhole()).toBe(null)
      response.end('ok')
    })
    const client = await send(post('body'))
    expect((await client.readResponse()).text()).toBe('ok')
    expect(errors).toEqual([])
  })

  test.each(['fin', 'reset'] as const)('if its client has disconnected, by %s', async how => {
    let taken: unknown
    const { send, requests } = await serve(async request => {
      await until(() => request.destroyed)
      taken = request.takeWhole()
    })
    const client = await send(post('body'))
    await until(() => requests.length === 1)
    client[how]()
    await until(() => taken !== undefined)
    expect(taken).toBe(null)
    expect(requests[0]!.aborted).toBe(true)
  })

  test('a second time', async () => {
    const { send, errors } = await serve((request, response) => {
      expect(String(request.takeWhole())).toBe('body')
      expect(request.takeWhole()).toBe(null)
      response.end('ok')
    })
    expect((await (await send(post('body'))).readResponse()).text()).toBe('ok')
    expect(errors).toEqual([])
  })
})

describe('a body that arrived whole is read from the stream', () => {
  test.each<[name: string, read: (request: Request) => Promise<string>]>([
    ['by an iterator', request => text(request)],
    ['by data and end', request => byEvents(request)],
    ['by a pipe', request => text(request.pipe(new PassThrough()))],
    [
      'by readable and read()',
      request =>
        new Promise(resolve => {
          let all = ''
          request.on('readable', () => {
            for (let piece = request.read(); piece !== null; piece = request.read()) all += piece
          })
          request.on('end', () => resolve(all))
        }),
    ],
    ['as text of an encoding', request => byEvents(request.setEncoding('latin1'))],
  ])('%s', async (_name, read) => {
    const { send, errors } = await serve(async (request, response) => response.end(await read(request)))
    const client = await send(post('body'))
    expect((await client.readResponse()).text()).toBe('body')
    // The next request on the connection works too.
    await client.send(post('more'))
    expect((await client.readResponse()).text()).toBe('more')
    expect(errors).toEqual([])
  })

  function byEvents(request: Request): Promise<string> {
    return new Promise(resolve => {
      let all = ''
      request.on('data', piece => (all += piece))
      request.on('end', () => resolve(all))
    })
  }
})

describe('a body that is taken whole', () => {
  test('leaves a stream that looks read to its end, also after the client has disconnected', async () => {
    const looks: unknown[] = []
    const { send, requests } = await serve(async (request, response) => {
      if (request.url === '/') await text(request)
      else expect(String(request.takeWhole())).toBe('body')
      await new Promise(resolve => setTimeout(resolve, 10))
      looks.push(look(request))
      response.end('ok')
    })
    const client = await send(post('body'))
    await client.readResponse()
    await client.send(post('body').replace('/', '/taken'))
    await client.readResponse()
    expect(looks[1]).toEqual(looks[0])
    client.reset()
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(look(requests[1]!)).toEqual(looks[0])
  })

  test('a later reader of the stream finds its end', async () => {
    const { send, errors } = await serve(async (request, response) => {
      expect(String(request.takeWhole())).toBe('body')
      request.on('data', () => errors.push('data'))
      expect(request.read()).toBe(null)
      await new Promise(resolve => setTimeout(resolve, 10))
      response.end('ok')
    })
    expect((await (await send(post('body'))).readResponse()).text()).toBe('ok')
    expect(errors).toEqual([])
  })

  test.each([
    ['with the internal function of Node.js', true],
    ['with the stream alone', false],
  ])('listeners for its end are called: %s', async (_name, hasInternal) => {
    const events: string[] = []
    const { send } = await serve(async (request, response) => {
      for (const event of ['end', 'close']) request.on(event, () => events.push(event))
      if (!hasInternal) Object.assign(request, { _dumpAndCloseReadable: undefined })
      expect(String(request.takeWhole())).toBe('body')
      await until(() => events.length === 2)
      response.end(JSON.stringify([events, look(request)]))
    })
    const ended = {
      readable: false,
      readableEnded: true,
      destroyed: true,
      closed: true,
      complete: true,
      aborted: false,
    }
    const answer = await (await send(post('body'))).readResponse()
    expect(JSON.parse(answer.text())).toEqual([['end', 'close'], ended])
  })

  test('without that function and without listeners, the connection stays usable', async () => {
    const { send, errors } = await serve((request, response) => {
      Object.assign(request, { _dumpAndCloseReadable: undefined })
      response.end(String(request.takeWhole()))
    })
    const client = await send(post('body'))
    for (const body of ['one', 'two', 'three']) {
      await client.readResponse()
      await client.send(post(body))
    }
    expect((await client.readResponse()).text()).toBe('three')
    expect(errors).toEqual([])
  })

  test('later requests on the connection (pipelining) have their own bodies', async () => {
    const { send, errors } = await serve((request, response) => response.end(String(request.takeWhole())))
    const client = await send(post('one') + post('two') + post('three', 'connection: close\r\n'))
    const bodies = [await client.readResponse(), await client.readResponse(), await client.readResponse()]
    expect(bodies.map(answer => answer.text())).toEqual(['one', 'two', 'three'])
    expect(errors).toEqual([])
  })
})

test('a body without a reader is dropped after the answer, and the stream ends', async () => {
  const ended: unknown[] = []
  const { send, requests } = await serve((request, response) => {
    request.on('close', () => ended.push(look(request).readableEnded))
    response.end('ok')
  })
  const client = await send(post('body'))
  for (let round = 0; round < 20; round++) {
    await client.readResponse()
    await client.send(post('body'))
  }
  await client.readResponse()
  await until(() => ended.length === 21)
  expect(ended).toEqual(requests.map(() => true))
  expect(requests.map(request => request.readableLength)).toEqual(requests.map(() => 0))
})

test('Node.js has the internals that the code uses', () => {
  const { _dumpAndCloseReadable, _dump } = IncomingMessage.prototype as unknown as Record<string, unknown>
  expect([typeof _dumpAndCloseReadable, typeof _dump]).toEqual(['function', 'function'])
  expect(String(_dump)).toContain('this._dumped = true')
})
