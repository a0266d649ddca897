/**
 * Serves the files of the dashboard from memory: read at the start, compressed at their first request. Paths of requests are looked up in a
 * table and never reach the file system.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative, sep } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { Context, Middleware } from 'koa'
import { refuse } from '#contract'

/** Scripts and styles from this origin only, none inline; no frames, no requests elsewhere. */
const HEADERS = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "font-src 'self'",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
}

/** The served types; other files of a build, such as source maps, are not served. */
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.webmanifest': 'application/manifest+json',
}

/** Already compressed formats. */
const PACKED: ReadonlySet<string> = new Set(['.png', '.woff2'])

const INDEX = '/index.html'

const CACHING = {
  /** Never cached: it names the files of this build. */
  index: 'no-store',
  /** Cached for ever: another content has another name. */
  hashed: 'public, max-age=31536000, immutable',
  /** Cached, but revalidated each time. */
  other: 'no-cache',
}

type Packing = 'br' | 'gzip'

/** The bytes of a file in one encoding. */
interface EncodedBytes {
  readonly coding: Packing | 'identity'
  readonly bytes: Buffer
}

interface PageFile {
  readonly type: string
  readonly caching: string
  /** Without quotes; null: no tag. */
  readonly etag: string | null
  readonly identity: Buffer
  /** The bytes in this encoding; null: they are not fewer. Compressed once, on another thread, at the first request. */
  readonly packed: (coding: Packing) => Promise<Buffer | null>
}

/**
 * Reads the build in `folder`. Without a build, every page shows how to build the dashboard. Does not serve paths below `/api`.
 */
export async function createPageFiles(folder: string): Promise<Middleware> {
  const files = await readFiles(folder)
  const index = files.get(INDEX)
  return async (ctx, next) => {
    const { path } = ctx
    ctx.set(HEADERS)
    if (path === '/api' || path.startsWith('/api/')) return next()
    // A client with this listener as its base URL would read the page as an answer.
    if (path === '/v1' || path.startsWith('/v1/')) {
      throw refuse('unknown_url', { message: `This is the dashboard. Clients are served on the \`listen\` address.` })
    }
    const file = files.get(path) ?? (path.includes('.') ? undefined : index)
    if (!file && (index || path.includes('.'))) throw refuse('unknown_url')
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') {
      throw refuse('method_not_allowed', { headers: { allow: 'GET, HEAD' } })
    }
    if (file) await send(ctx, file)
    else sendUnbuilt(ctx)
  }
}

async function send(ctx: Context, file: PageFile): Promise<void> {
  const { type, caching, etag } = file
  const { coding, bytes } = await encodingFor(ctx.get('accept-encoding'), file)
  ctx.set({ 'cache-control': caching, vary: 'accept-encoding' })
  // Each encoding has its own tag.
  const tag = etag && `"${coding === 'identity' ? etag : `${etag}-${coding}`}"`
  if (tag) {
    ctx.set('etag', tag)
    if (matchesTag(ctx.get('if-none-match'), tag)) {
      ctx.status = 304
      return
    }
  }
  ctx.status = 200
  if (coding !== 'identity') ctx.set('content-encoding', coding)
  ctx.type = type
  // For HEAD, Koa sends the length of the body without the body.
  ctx.body = bytes
}

/** The encoding for a client: `br`, else `gzip`, else none (RFC 9110, 12.5.3). */
async function encodingFor(accepted: string, { identity, packed }: PageFile): Promise<EncodedBytes> {
  const weights = new Map<string, number>()
  for (const part of accepted.split(',')) {
    const [name = '', ...parameters] = part.split(';').map(each => each.trim().toLowerCase())
    const weight = parameters.find(each => each.startsWith('q='))
    weights.set(name, weight === undefined ? 1 : Number(weight.slice(2)))
  }
  for (const coding of ['br', 'gzip'] as const) {
    const weight = weights.get(coding) ?? weights.get('*') ?? 0
    // An invalid number counts as 0.
    if (!(weight > 0)) continue
    const bytes = await packed(coding)
    if (bytes) return { coding, bytes }
  }
  return { coding: 'identity', bytes: identity }
}

/** Whether the client has these bytes: `If-None-Match` is a list of tags, also weak ones, or `*`. */
function matchesTag(header: string, tag: string): boolean {
  return header.split(',').some(each => each.trim() === '*' || each.trim().replace(/^W\//, '') === tag)
}

function sendUnbuilt(ctx: Context): void {
  ctx.status = 503
  ctx.set('cache-control', 'no-store')
  ctx.type = TYPES['.html']!
  ctx.body = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Tollgate</title></head>
<body>
<h1>The dashboard is not built yet</h1>
<p>Run <code>npm ci &amp;&amp; npx tollgate build</code> where the gateway is installed, and start it again: building needs the
development packages.</p>
<p>The gateway serves its clients, and the API below <code>/api</code> works.</p>
</body>
</html>
`
}

async function readFiles(folder: string): Promise<ReadonlyMap<string, PageFile>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw new Error(`The page in ${folder} cannot be read: ${(error as Error).message}`, { cause: error })
  })
  const paths = entries
    .filter(entry => entry.isFile() && Object.hasOwn(TYPES, extname(entry.name)))
    .map(entry => join(entry.parentPath, entry.name))
  const files = paths.map(async path => {
    const name = `/${relative(folder, path).split(sep).join('/')}`
    return [name, toFile(name, await readFile(path))] as const
  })
  return new Map(await Promise.all(files))
}

function toFile(name: string, identity: Buffer): PageFile {
  const extension = extname(name)
  const caching = name === INDEX ? CACHING.index : isHashed(name) ? CACHING.hashed : CACHING.other
  return {
    type: TYPES[extension]!,
    caching,
    etag: name === INDEX ? null : createHash('sha256').update(identity).digest('base64url').slice(0, 22),
    identity,
    packed: PACKED.has(extension) ? async () => null : createPacked(identity),
  }
}

/** The build puts a hash of the content into the name: `/assets/index-BQ3x_a9Z.js`. */
function isHashed(name: string): boolean {
  return /^\/assets\/.+-[\w-]{8,}\.\w+$/.test(name)
}

const brotli = promisify(brotliCompress)
const deflate = promisify(gzip)

/** The highest level takes a tenth of a second for a large file, at its first request only. */
const COMPRESS: Readonly<Record<Packing, (bytes: Buffer) => Promise<Buffer>>> = {
  br: bytes => brotli(bytes, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } }),
  gzip: bytes => deflate(bytes, { level: constants.Z_BEST_COMPRESSION }),
}

function createPacked(identity: Buffer): PageFile['packed'] {
  const made = new Map<Packing, Promise<Buffer | null>>()
  return coding => {
    let bytes = made.get(coding)
    if (!bytes) {
      bytes = COMPRESS[coding](identity).then(packed => (packed.length < identity.length ? packed : null))
      made.set(coding, bytes)
    }
    return bytes
  }
}
