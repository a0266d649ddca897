/**
 * The dashboard's page: the files that the build has made, read once at start, compressed once, and served from memory. A
 * path from outside is looked up in a table and never reaches the file system.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative, sep } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { Context, Middleware } from 'koa'
import { refuse } from '#contract'

/** Scripts and styles from here only, and none in the page itself; nobody frames it, nothing is sent elsewhere. */
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

/** What a build may have; other files (source maps) are nobody's business. */
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

/** Compressed in themselves. */
const PACKED: ReadonlySet<string> = new Set(['.png', '.woff2'])

const INDEX = '/index.html'

const CACHING = {
  /** It names the files of this build: after the next one it must not be an old one. */
  index: 'no-store',
  /** Another content would have another name. */
  hashed: 'public, max-age=31536000, immutable',
  /** Kept, but asked about each time. */
  other: 'no-cache',
}

type Coding = 'br' | 'gzip' | 'identity'

interface PageFile {
  readonly type: string
  readonly caching: string
  /** Without the quotes; null: not worth one. */
  readonly etag: string | null
  /** As it is, and compressed where that makes it smaller. */
  readonly bodies: Readonly<Partial<Record<Coding, Buffer>>> & { readonly identity: Buffer }
}

/**
 * Reads the built page in `folder`. Where there is none, every page says how to make it. Paths below `/api` are left to
 * others.
 */
export async function createPageFiles(folder: string): Promise<Middleware> {
  const files = await readFiles(folder)
  const index = files.get(INDEX)
  return (ctx, next) => {
    const { path } = ctx
    ctx.set(HEADERS)
    if (path === '/api' || path.startsWith('/api/')) return next()
    // A client whose base URL is this listener's would take the page for an answer.
    if (path === '/v1' || path.startsWith('/v1/')) {
      throw refuse('unknown_url', { message: `This is the dashboard. Clients are served on the \`listen\` address.` })
    }
    const file = files.get(path) ?? (path.includes('.') ? undefined : index)
    if (!file && (index || path.includes('.'))) throw refuse('unknown_url')
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') {
      throw refuse('method_not_allowed', { headers: { allow: 'GET, HEAD' } })
    }
    if (file) send(ctx, file)
    else sendUnbuilt(ctx)
  }
}

function send(ctx: Context, { type, caching, etag, bodies }: PageFile): void {
  const coding = codingFor(ctx.get('accept-encoding'), bodies)
  ctx.set({ 'cache-control': caching, vary: 'accept-encoding' })
  // Other bytes, another tag.
  const tag = etag && `"${coding === 'identity' ? etag : `${etag}-${coding}`}"`
  if (tag) {
    ctx.set('etag', tag)
    if (names(ctx.get('if-none-match'), tag)) {
      ctx.status = 304
      return
    }
  }
  ctx.status = 200
  if (coding !== 'identity') ctx.set('content-encoding', coding)
  ctx.type = type
  // Koa sends no body for HEAD, and its length all the same.
  ctx.body = bodies[coding]!
}

/** `br` before `gzip` before nothing, of those that the client takes (RFC 9110, 12.5.3). */
function codingFor(accepted: string, bodies: PageFile['bodies']): Coding {
  const weights = new Map<string, number>()
  for (const part of accepted.split(',')) {
    const [name = '', ...parameters] = part.split(';').map(each => each.trim().toLowerCase())
    const weight = parameters.find(each => each.startsWith('q='))
    weights.set(name, weight === undefined ? 1 : Number(weight.slice(2)))
  }
  const takes = (name: Coding) => (weights.get(name) ?? weights.get('*') ?? 0) > 0
  return (['br', 'gzip'] as const).find(name => bodies[name] && takes(name)) ?? 'identity'
}

/** Whether the client has these bytes already: a list of tags, weak ones too, or `*`. */
function names(header: string, tag: string): boolean {
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
<p>Clients are served all the same, and the API below <code>/api</code> works.</p>
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
    return [name, await toFile(name, await readFile(path))] as const
  })
  return new Map(await Promise.all(files))
}

async function toFile(name: string, identity: Buffer): Promise<PageFile> {
  const extension = extname(name)
  const caching = name === INDEX ? CACHING.index : isHashed(name) ? CACHING.hashed : CACHING.other
  return {
    type: TYPES[extension]!,
    caching,
    etag: name === INDEX ? null : createHash('sha256').update(identity).digest('base64url').slice(0, 22),
    bodies: PACKED.has(extension) ? { identity } : await compress(identity),
  }
}

/** `/assets/index-BQ3x_a9Z.js`: the build puts a hash of the content there. */
function isHashed(name: string): boolean {
  return /^\/assets\/.+-[\w-]{8,}\.\w+$/.test(name)
}

const deflate = { br: promisify(brotliCompress), gzip: promisify(gzip) }

/** As small as can be: it is done once, on threads of its own. */
async function compress(identity: Buffer): Promise<PageFile['bodies']> {
  const [br, gz] = await Promise.all([
    deflate.br(identity, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: identity.length } }),
    deflate.gzip(identity, { level: constants.Z_BEST_COMPRESSION }),
  ])
  return {
    identity,
    ...(br.length < identity.length ? { br } : {}),
    ...(gz.length < identity.length ? { gzip: gz } : {}),
  }
}
