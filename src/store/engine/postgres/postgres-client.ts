/**
 * What the client of PostgreSQL is told of an address. Only what is named here is taken from it: a name for the connection, or
 * a limit for statements, would break what the gateway relies on. Nothing comes from the environment.
 */
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import type { ClientConfig } from 'pg'
import { decodedPart, parseServer } from '../../../common/server-address.ts'

const PORT = 5432
/** These the client checks as `verify-full`. */
const LIBPQ_MODES = ['prefer', 'require', 'verify-ca']

export function clientConfig(address: string): ClientConfig {
  const url = parseServer(address)
  if (url === null) throw new Error('the address is none')
  const asked = url.searchParams
  const written = decodedPart(url.hostname).replace(/^\[(.+)\]$/, '$1')
  const options = asked.get('options')
  return {
    user: asked.get('user') ?? decodedPart(url.username),
    password: asked.get('password') ?? decodedPart(url.password),
    host: asked.get('host') ?? written,
    port: Number(asked.get('port') ?? url.port) || PORT,
    database: decodedPart(url.pathname.slice(1)),
    ssl: tlsOf(asked),
    ...(options === null ? {} : { options }),
    ...(asked.get('sslnegotiation') === 'direct' ? { sslnegotiation: 'direct' as const } : {}),
  }
}

/** False: without TLS. */
function tlsOf(asked: URLSearchParams): ConnectionOptions | false {
  const mode = asked.get('sslmode')
  if (mode === 'disable') return false
  const files = { ca: fileOf('sslrootcert', asked), cert: fileOf('sslcert', asked), key: fileOf('sslkey', asked) }
  const given = Object.fromEntries(Object.entries(files).filter(([, text]) => text !== undefined))
  if (mode === 'no-verify') return { ...given, rejectUnauthorized: false }
  const isAsked =
    mode !== null || asked.get('sslnegotiation') === 'direct' || /^(?:true|1)$/.test(asked.get('ssl') ?? '')
  if (!isAsked && Object.keys(given).length === 0) return false
  if (asked.get('uselibpqcompat') !== 'true' || !LIBPQ_MODES.includes(mode ?? '')) return given
  if (files.ca === undefined || mode === 'prefer') return { ...given, rejectUnauthorized: false }
  return { ...given, checkServerIdentity: () => undefined }
}

/** Its text. `system` stands for the CAs that Node.js trusts. */
function fileOf(name: string, asked: URLSearchParams): string | undefined {
  const path = asked.get(name) ?? ''
  if (path === '' || path === 'system') return undefined
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`${name} cannot be read: ${(error as Error).message}`, { cause: error })
  }
}
