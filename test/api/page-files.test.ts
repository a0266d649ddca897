/** The page's files over a real connection: paths that are refused, then files and their headers. */
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import Koa from 'koa'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { envelope, isRefusal } from '#contract'
import { createPageFiles } from '../../src/api/page-files.ts'
import { temporaryDirectory } from '../helpers/gateway.ts'

const HTML = `<!doctype html><title>Tollgate</title><div id="page"></div>${' '.repeat(500)}`
const SCRIPT = `console.log('page')\n`.repeat(200)
const FILES = {
  'index.html': HTML,
  'favicon.svg': `<svg xmlns="http://www.w3.org/2000/svg">${'<path d="M0 0"/>'.repeat(20)}</svg>`,
  'assets/index-BQ3x_a9Z.js': SCRIPT,
  'assets/index-D-1f00aa.css': 'a{color:red}',
  'assets/plain.js': 'export {}',
  'assets/index-BQ3x_a9Z.js.map': '{"sources":["/home/someone"]}',
  'assets/shot-AAAAAAAA.png': 'not really a picture',
}

let dir: string
let built: FileServer
let unbuilt: FileServer

beforeAll(async () => {
  dir = await temporaryDirectory()
  const dist = join(dir, 'dist')
  await mkdir(join(dist, 'assets'), { recursive: true })
  for (const [name, text] of Object.entries(FILES)) await writeFile(join(dist, name), text)
  await writeFile(join(dir, 'secret.txt'), 'SECRET')
  await writeFile(join(dir, 'secret.js'), 'SECRET')
  await symlink(join(dir, 'secret.js'), join(dist, 'assets', 'link-AAAAAAAA.js'))
  built = await serveFiles(dist)
  unbuilt = await serveFiles(join(dir, 'nowhere'))
})

afterAll(async () => {
  built.close()
  unbuilt.close()
  await rm(dir, { recursive: true, force: true })
})

describe('missing files', () => {
  test.each([
    ['/../secret.txt'],
    ['/../secret.js'],
    ['/assets/../../secret.js'],
    ['/assets/..%2f..%2fsecret.js'],
    ['/%2e%2e/secret.js'],
    ['/%2e%2e%2fsecret.js'],
    ['/..%5csecret.js'],
    ['/..\\secret.js'],
    ['//etc/passwd.js'],
    ['/assets/index-BQ3x_a9Z.js%00.html'],
    ['/assets/index-BQ3x_a9Z.js/'],
    ['/ASSETS/index-BQ3x_a9Z.js'],
    ['/assets/link-AAAAAAAA.js'],
    ['/assets/index-BQ3x_a9Z.js.map'],
    ['/assets/index-00000000.js'],
    ['/.env'],
    ['/constructor.js'],
  ])('%s', async path => {
    const answer = await ask(built, path)
    expect(answer.status).toBe(404)
    expect(JSON.parse(answer.text).error.code).toBe('unknown_url')
    expect(answer.text).not.toContain('SECRET')
  })

  test.each([['/etc/passwd'], ['/%2e%2e/%2e%2e/etc/passwd'], ['/__proto__'], ['/assets/%2e%2e']])(
    '%s gets the page, which shows that the path is unknown',
    async path => {
      const answer = await ask(built, path)
      expect([answer.status, answer.text]).toEqual(path.includes('.') ? [404, expect.anything()] : [200, HTML])
    },
  )

  test('a folder that is a file is reported at start, with its name', async () => {
    const file = join(dir, 'secret.txt')
    await expect(createPageFiles(file)).rejects.toThrow(`The page in ${file} cannot be read`)
  })

  test.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])('%s is refused for pages', async method => {
    for (const path of ['/', '/keys', '/assets/plain.js']) {
      const answer = await ask(built, path, { method })
      expect([answer.status, answer.headers['allow']]).toEqual([405, 'GET, HEAD'])
    }
  })

  test.each(['/v1', '/v1/models', '/v1/chat/completions'])('%s answers that this is the dashboard', async path => {
    for (const method of ['GET', 'POST']) {
      const answer = await ask(built, path, { method })
      expect(answer.status).toBe(404)
      expect(JSON.parse(answer.text).error.message).toContain('dashboard')
    }
  })

  test.each(['/api', '/api/', '/api/keys', '/api/x.js'])('%s is left to the API', async path => {
    const answer = await ask(built, path)
    expect([answer.status, answer.text]).toEqual([200, `next: ${path}`])
    expect((await ask(unbuilt, path)).status).toBe(200)
  })
})

describe('a page that was not built', () => {
  test.each(['/', '/keys', '/operator/accounts'])('%s explains how to build it', async path => {
    const answer = await ask(unbuilt, path)
    expect(answer.status).toBe(503)
    expect(answer.headers['content-type']).toBe('text/html; charset=utf-8')
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(answer.text).toContain('npm ci &amp;&amp; npx tollgate build')
    expect(answer.text).toContain('/api')
    // Nothing in it violates the content security policy.
    expect(answer.text).not.toMatch(/<script|<style|style=/)
    expectSafe(answer)
  })

  test('has no files and accepts no other methods', async () => {
    expect((await ask(unbuilt, '/assets/plain.js')).status).toBe(404)
    expect((await ask(unbuilt, '/', { method: 'POST' })).status).toBe(405)
    expect((await ask(unbuilt, '/', { method: 'HEAD' })).text).toBe('')
  })
})

describe('files', () => {
  test.each([
    ['/', 'text/html; charset=utf-8', 'no-store', HTML],
    ['/index.html', 'text/html; charset=utf-8', 'no-store', HTML],
    ['/keys', 'text/html; charset=utf-8', 'no-store', HTML],
    ['/operator/accounts/acc_1', 'text/html; charset=utf-8', 'no-store', HTML],
    ['/apikeys', 'text/html; charset=utf-8', 'no-store', HTML],
    ['/assets/index-BQ3x_a9Z.js', 'text/javascript; charset=utf-8', 'public, max-age=31536000, immutable', SCRIPT],
    ['/assets/index-D-1f00aa.css', 'text/css; charset=utf-8', 'public, max-age=31536000, immutable', 'a{color:red}'],
    ['/assets/plain.js', 'text/javascript; charset=utf-8', 'no-cache', 'export {}'],
    ['/favicon.svg', 'image/svg+xml', 'no-cache', FILES['favicon.svg']],
    ['/assets/shot-AAAAAAAA.png', 'image/png', 'public, max-age=31536000, immutable', 'not really a picture'],
  ])('%s', async (path, type, caching, text) => {
    const answer = await ask(built, path)
    expect(answer.status).toBe(200)
    expect(answer.text).toBe(text)
    expect(answer.headers['content-type']).toBe(type)
    expect(answer.headers['cache-control']).toBe(caching)
    expect(answer.headers['content-encoding']).toBeUndefined()
    expect(answer.headers['content-length']).toBe(String(Buffer.byteLength(text)))
    expect(answer.headers['vary']).toBe('accept-encoding')
    expect(answer.headers['etag'] === undefined).toBe(caching === 'no-store')
    expectSafe(answer)
  })

  test('a query string is ignored', async () => {
    expect((await ask(built, '/keys?after=a.b')).text).toBe(HTML)
    expect((await ask(built, '/assets/index-BQ3x_a9Z.js?v=2')).text).toBe(SCRIPT)
  })

  test('refusals have the headers too', async () => {
    expectSafe(await ask(built, '/none.js'))
    expectSafe(await ask(built, '/', { method: 'POST' }))
  })

  test.each([
    ['', undefined],
    ['br', 'br'],
    ['gzip', 'gzip'],
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip;q=1.0, br;q=0.1', 'br'],
    ['br;q=0, gzip', 'gzip'],
    ['br; q=0, gzip;q=0.0', undefined],
    ['*', 'br'],
    ['*;q=0', undefined],
    ['*, br;q=0', 'gzip'],
    ['BR', 'br'],
    ['identity', undefined],
    ['deflate', undefined],
    ['br;q=nonsense, gzip', 'gzip'],
    [', ,;;q', undefined],
  ])('accept-encoding "%s" gives %s', async (accepted, coding) => {
    for (const [path, text] of [
      ['/', HTML],
      ['/assets/index-BQ3x_a9Z.js', SCRIPT],
    ] as const) {
      const answer = await ask(built, path, { headers: { 'accept-encoding': accepted } })
      expect(answer.headers['content-encoding']).toBe(coding)
      expect(Number(answer.headers['content-length'])).toBe(answer.bytes.length)
      expect(unpacked(answer)).toBe(text)
      if (coding) expect(answer.bytes.length).toBeLessThan(text.length / 4)
    }
  })

  test('a file that compression does not shrink is sent uncompressed', async () => {
    for (const path of ['/assets/index-D-1f00aa.css', '/assets/shot-AAAAAAAA.png']) {
      const answer = await ask(built, path, { headers: { 'accept-encoding': 'br, gzip' } })
      expect(unpacked(answer)).toBe(FILES[path.slice(1) as keyof typeof FILES])
      expect(answer.headers['content-encoding']).toBeUndefined()
    }
  })

  test('HEAD has the same headers without the body', async () => {
    for (const path of ['/', '/assets/index-BQ3x_a9Z.js', '/favicon.svg']) {
      for (const accepted of ['', 'br', 'gzip']) {
        const headers = { 'accept-encoding': accepted }
        const [get, head] = [await ask(built, path, { headers }), await ask(built, path, { method: 'HEAD', headers })]
        expect(head.status).toBe(200)
        expect(head.bytes.length).toBe(0)
        const { date: _one, ...expected } = get.headers
        const { date: _other, ...got } = head.headers
        expect(got).toEqual(expected)
      }
    }
  })

  test('each content and each encoding has its own tag', async () => {
    const tags: unknown[] = []
    for (const path of ['/assets/index-BQ3x_a9Z.js', '/favicon.svg', '/assets/plain.js']) {
      for (const accepted of ['', 'br', 'gzip']) {
        const { headers } = await ask(built, path, { headers: { 'accept-encoding': accepted } })
        if (path !== '/assets/plain.js' || accepted === '') tags.push(headers['etag'])
      }
    }
    expect(new Set(tags).size).toBe(7)
    for (const tag of tags) expect(tag).toMatch(/^"[\w-]{22}(-br|-gzip)?"$/)
  })

  test.each([
    ['TAG', 304],
    ['W/TAG', 304],
    ['*', 304],
    ['"other", TAG', 304],
    ['"other"', 200],
    ['', 200],
    ['TAG-br', 200],
  ])('if-none-match %s gives %i', async (template, status) => {
    const path = '/assets/index-BQ3x_a9Z.js'
    const tag = String((await ask(built, path)).headers['etag'])
    for (const method of ['GET', 'HEAD']) {
      const answer = await ask(built, path, { method, headers: { 'if-none-match': template.replace('TAG', tag) } })
      expect(answer.status).toBe(status)
      expect(answer.headers['etag']).toBe(tag)
      expect(answer.headers['cache-control']).toBe('public, max-age=31536000, immutable')
      if (status === 304) {
        expect(answer.bytes.length).toBe(0)
        expect(answer.headers['content-type']).toBeUndefined()
      }
    }
  })

  test('the page itself is never "not modified"', async () => {
    const answer = await ask(built, '/', { headers: { 'if-none-match': '*' } })
    expect([answer.status, answer.text]).toEqual([200, HTML])
  })

  test('changes on disk after the start are not served', async () => {
    const path = join(dir, 'dist', 'assets', 'plain.js')
    await writeFile(path, 'changed')
    await writeFile(join(dir, 'dist', 'assets', 'late.js'), 'late')
    expect((await ask(built, '/assets/plain.js')).text).toBe('export {}')
    expect((await ask(built, '/assets/late.js')).status).toBe(404)
  })
})

function expectSafe({ headers }: Answer): void {
  const policy = String(headers['content-security-policy'])
  expect(policy).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
      "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  )
  expect(headers).toMatchObject({
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'permissions-policy': expect.stringContaining('camera=()'),
  })
}

interface FileServer {
  readonly port: number
  close(): void
}

async function serveFiles(folder: string): Promise<FileServer> {
  const app = new Koa()
  app.use(async (ctx, next) => {
    try {
      await next()
    } catch (error) {
      if (!isRefusal(error)) throw error
      ctx.status = error.status
      ctx.set(error.headers)
      ctx.body = envelope(error)
    }
  })
  app.use(await createPageFiles(folder))
  app.use(ctx => {
    ctx.body = `next: ${ctx.path}`
  })
  const server = createServer(app.callback())
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return { port: (server.address() as AddressInfo).port, close: () => void server.close() }
}

interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly bytes: Buffer
  readonly text: string
}

/** Not `fetch`, which would normalize the path and decompress the body. */
function ask(
  { port }: FileServer,
  path: string,
  options: { readonly method?: string; readonly headers?: Record<string, string> } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path, agent: false, ...options }, async response => {
      const bytes = Buffer.concat(await response.toArray())
      resolve({ status: response.statusCode!, headers: response.headers, bytes, text: bytes.toString() })
    })
    asked.once('error', reject).end()
  })
}

function unpacked({ headers, bytes, text }: Answer): string {
  if (headers['content-encoding'] === 'br') return brotliDecompressSync(bytes).toString()
  if (headers['content-encoding'] === 'gzip') return gunzipSync(bytes).toString()
  return text
}
