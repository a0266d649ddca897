/**
 * AWS Signature Version 4 (HMAC-SHA-256 over a canonical form of the request), and the API keys that Bedrock accepts
 * instead. Pure: the time is passed in.
 *
 * No library, because the code is short and tested with AWS's vectors. aws4fetch signs with WebCrypto, so asynchronously;
 * @smithy/signature-v4, AWS's own, is asynchronous too and has further dependencies.
 */
import { createHash, createHmac } from 'node:crypto'

/** An AWS key pair; temporary credentials also have a session token. */
export interface AwsCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
}

export interface SignedRequest {
  readonly method: string
  /** The path of the request line, percent-encoded, without the query: `/model/a%3A0/converse`. */
  readonly path: string
  /** The query without `?`, percent-encoded; empty without one. */
  readonly query?: string
  /** The headers that will be sent and should be signed, including `host`. Names in any case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer | string
  readonly region: string
  /** `bedrock` for the runtime (not the host's name), `bedrock-mantle` for the OpenAI-compatible endpoint. */
  readonly service: string
  readonly credentials: AwsCredentials
  /** Milliseconds since the epoch. AWS refuses a time that differs by more than five minutes. */
  readonly nowMs: number
}

/** The headers to add to the request: `authorization`, `x-amz-date` and, for temporary credentials, `x-amz-security-token`. */
export function signRequest(request: SignedRequest): Record<string, string> {
  const { credentials, region, service, nowMs } = request
  const time = new Date(nowMs).toISOString().replace(/[-:]|\.\d{3}/g, '')
  const added: Record<string, string> = {
    'x-amz-date': time,
    ...(credentials.sessionToken === undefined ? {} : { 'x-amz-security-token': credentials.sessionToken }),
  }
  const headers = canonicalHeaders({ ...request.headers, ...added })
  if (!headers.some(([name]) => name === 'host')) throw new TypeError('signRequest: the headers have no host')
  const names = headers.map(([name]) => name).join(';')
  const canonical = canonicalRequest(request, headers, names)
  const scope = `${time.slice(0, 8)}/${region}/${service}/aws4_request`
  const key = [time.slice(0, 8), region, service, 'aws4_request'].reduce<string | Buffer>(
    hmac,
    `AWS4${credentials.secretAccessKey}`,
  )
  const signature = hmac(key, `${ALGORITHM}\n${time}\n${scope}\n${sha256(canonical)}`).toString('hex')
  return {
    ...added,
    authorization: `${ALGORITHM} Credential=${credentials.accessKeyId}/${scope}, SignedHeaders=${names}, Signature=${signature}`,
  }
}

/** The header for Bedrock API keys, long-term or short-lived (`bedrock-api-key-…`). */
export function authorizeBedrock(apiKey: string): Record<string, string> {
  return { authorization: `Bearer ${apiKey}` }
}

const ALGORITHM = 'AWS4-HMAC-SHA256'

const sha256 = (data: Buffer | string) => createHash('sha256').update(data).digest('hex')
const hmac = (key: Buffer | string, data: string) => createHmac('sha256', key).update(data).digest()

/** Headers that connections and proxies change, and the signature itself. */
const NOT_SIGNED: ReadonlySet<string> = new Set([
  'authorization',
  'connection',
  'expect',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
  'x-amzn-trace-id',
])

function canonicalHeaders(headers: Readonly<Record<string, string>>): (readonly [name: string, value: string])[] {
  return Object.entries(headers)
    .map(([name, value]) => [name.toLowerCase(), value.trim().replace(/\s+/g, ' ')] as const)
    .filter(([name]) => !NOT_SIGNED.has(name))
    .sort(([a], [b]) => (a < b ? -1 : 1))
}

function canonicalRequest(
  { method, path, query, body }: SignedRequest,
  headers: readonly (readonly [string, string])[],
  names: string,
): string {
  const lines = headers.map(([name, value]) => `${name}:${value}\n`).join('')
  return `${method}\n${canonicalPath(path)}\n${canonicalQuery(query ?? '')}\n${lines}\n${names}\n${sha256(body)}`
}

/** Encoded once more than it is sent: `%3A` becomes `%253A`. Only S3 signs the path unchanged and keeps dots. */
function canonicalPath(path: string): string {
  const kept: string[] = []
  for (const segment of path.split('/')) {
    if (segment === '..') kept.pop()
    else if (segment !== '' && segment !== '.') kept.push(encode(segment))
  }
  const end = kept.length > 0 && path.endsWith('/') ? '/' : ''
  return `/${kept.join('/')}${end}`
}

function canonicalQuery(query: string): string {
  return query
    .split('&')
    .filter(pair => pair !== '')
    .map(pair => {
      const [name, value] = pair.split(/=(.*)/s) as [string, string | undefined]
      return [encode(decodeURIComponent(name)), encode(decodeURIComponent(value ?? ''))] as const
    })
    .sort(([nameA, valueA], [nameB, valueB]) => compare(nameA, nameB) || compare(valueA, valueB))
    .map(pair => pair.join('='))
    .join('&')
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

/** Encodes everything except the unreserved characters of RFC 3986; `encodeURIComponent` keeps five more. */
function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, letter => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`)
}
