/**
 * Converts an address to the configuration of the PostgreSQL client. Only the options below are used, because the gateway sets the
 * connection's name and timeouts itself. Variables of the environment are ignored.
 */
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import type { ClientConfig } from 'pg'
import { decodedPart, parseServer } from '../../../common/server-address.ts'

const PORT = 5432
/** The client checks these like `verify-full`. */
const LIBPQ_MODES = ['prefer', 'require', 'verify-ca']

export function clientConfig(address: string): ClientConfig {
  const url = parseServer(address)
  if (url === null) throw new Error('the address is not a URL of a server')
  const parameters = url.searchParams
  const written = decodedPart(url.hostname).replace(/^\[(.+)\]$/, '$1')
  const options = parameters.get('options')
  return {
    user: parameters.get('user') ?? decodedPart(url.username),
    password: parameters.get('password') ?? decodedPart(url.password),
    host: parameters.get('host') ?? written,
    port: Number(parameters.get('port') ?? url.port) || PORT,
    database: decodedPart(url.pathname.slice(1)),
    ssl: tlsOf(parameters),
    ...(options === null ? {} : { options }),
    ...(parameters.get('sslnegotiation') === 'direct' ? { sslnegotiation: 'direct' as const } : {}),
  }
}

/** False: without TLS. */
function tlsOf(parameters: URLSearchParams): ConnectionOptions | false {
  const mode = parameters.get('sslmode')
  if (mode === 'disable') return false
  const files = {
    ca: fileOf('sslrootcert', parameters),
    cert: fileOf('sslcert', parameters),
    key: fileOf('sslkey', parameters),
  }
  const given = Object.fromEntries(Object.entries(files).filter(([, text]) => text !== undefined))
  if (mode === 'no-verify') return { ...given, rejectUnauthorized: false }
  const isAsked =
    mode !== null || parameters.get('sslnegotiation') === 'direct' || /^(?:true|1)$/.test(parameters.get('ssl') ?? '')
  if (!isAsked && Object.keys(given).length === 0) return false
  if (parameters.get('uselibpqcompat') !== 'true' || !LIBPQ_MODES.includes(mode ?? '')) return given
  if (files.ca === undefined || mode === 'prefer') return { ...given, rejectUnauthorized: false }
  return { ...given, checkServerIdentity: () => undefined }
}

/** The file's text. `system` means the CAs that Node.js trusts. */
function fileOf(name: string, parameters: URLSearchParams): string | undefined {
  const path = parameters.get(name) ?? ''
  if (path === '' || path === 'system') return undefined
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`${name} cannot be read: ${(error as Error).message}`, { cause: error })
  }
}
