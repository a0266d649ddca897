/** `providers`: checks what the schema cannot say, above all that no secret stands in the file and none leaves in clear. */
import { isLoopback } from './address.ts'
import type { Provider } from './configuration.ts'
import type { GatewayShape, ProviderShape } from './file-shapes.ts'
import { BY_REFERENCE, WRITTEN_OUT } from './server.ts'
import { entriesOf, pointer, type Source } from './source.ts'

const DEMO_PACE_MS = 25

/** Headers that the gateway itself builds, or that belong to one connection. */
const RESERVED_HEADERS = new Set([
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])
const SECRET_HEADER = /^(authorization|cookie)$|(^|-)(key|token|secret|password)$/

/** The providers that are sound, by name. */
export function buildProviders(source: Source, shapes: GatewayShape['providers']): Map<string, Provider> {
  const providers = new Map<string, Provider>()
  for (const [name, shape] of entriesOf(shapes)) {
    const at = pointer('providers', name)
    const remains = source.remains(at, shape)
    if (remains === null) continue
    if (shape.dialect === 'demo') checkDemo(source, at)
    else checkRemote(source, at, name, remains)
    if (source.sound(at)) providers.set(name, build(name, shape))
  }
  return providers
}

function build(name: string, shape: ProviderShape): Provider {
  const { timeouts } = shape
  return {
    name,
    dialect: shape.dialect,
    baseUrl: shape.base_url === undefined ? '' : trimmed(new URL(shape.base_url)),
    apiKey: shape.api_key ?? null,
    headers: Object.fromEntries(Object.entries(shape.headers ?? {}).map(([key, value]) => [key.toLowerCase(), value])),
    timeouts: {
      connectMs: timeouts.connect,
      firstByteMs: timeouts.first_byte,
      idleMs: timeouts.idle,
      totalMs: timeouts.total,
    },
    connections: shape.connections,
    paceMs: shape.pace ?? DEMO_PACE_MS,
  }
}

const trimmed = (url: URL) => url.origin + url.pathname.replace(/\/+$/, '')

function checkDemo(source: Source, at: string): void {
  for (const key of ['base_url', 'api_key', 'headers', 'timeouts', 'connections', 'allow_insecure']) {
    if (!source.has(at + pointer(key))) continue
    source.report(at + pointer(key), `the demo provider has no network, so it takes no "${key}"`, {
      key: true,
      suggestion: 'remove this line',
      concealed: key === 'api_key' || key === 'headers',
    })
  }
}

function checkRemote(source: Source, at: string, name: string, shape: Partial<ProviderShape>): void {
  const known = shape.dialect !== undefined
  if (known && shape.pace !== undefined) {
    source.report(`${at}/pace`, 'pace is for the demo provider only', { key: true, suggestion: 'remove this line' })
  }
  if (known && !source.has(`${at}/base_url`)) {
    source.report(at, `the provider "${name}" has no "base_url"`, { suggestion: 'write base_url: https://HOST/v1' })
  } else if (shape.base_url !== undefined) {
    checkBaseUrl(source, `${at}/base_url`, shape.base_url, shape.allow_insecure ?? true)
  }
  if (shape.api_key !== undefined) checkApiKey(source, `${at}/api_key`, shape.api_key)
  checkHeaders(source, at, shape)
}

function checkBaseUrl(source: Source, at: string, text: string, allowInsecure: boolean): void {
  const shown = source.show(at, text)
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) {
    source.report(at, `base_url ${shown} is not a URL`, { suggestion: 'write it as https://HOST/v1' })
  } else if (url.username !== '' || url.password !== '') {
    source.report(at, 'base_url holds credentials', { suggestion: 'put the key under api_key', concealed: true })
  } else if (url.search !== '' || url.hash !== '' || /[?#]$/.test(text)) {
    source.report(at, 'base_url has a query or a fragment', { suggestion: 'end it with its path', concealed: true })
  } else if (/\/chat\/completions\/?$/.test(url.pathname)) {
    source.report(at, 'base_url goes too far: the gateway adds /chat/completions', { suggestion: 'end it with /v1' })
  } else if (url.protocol === 'http:' && !isLoopback(url.hostname) && !allowInsecure) {
    source.report(at, `base_url ${shown} would send keys and prompts unencrypted`, {
      suggestion: 'use https, or say allow_insecure: true if that network is yours',
    })
  }
}

function checkApiKey(source: Source, at: string, key: string): void {
  if (!source.substituted(at)) {
    source.report(at, `the api_key ${WRITTEN_OUT}`, { suggestion: BY_REFERENCE, concealed: true })
  } else if (!/^[\x21-\x7e]+$/.test(key)) {
    source.report(at, 'the api_key is empty or holds blanks or characters that a header cannot carry', {
      suggestion: 'give the bare key, without "Bearer"',
      concealed: true,
    })
  }
}

function checkHeaders(source: Source, provider: string, { headers = {}, api_key }: Partial<ProviderShape>): void {
  const seen = new Set<string>()
  for (const [header, value] of Object.entries(headers)) {
    const at = provider + pointer('headers', header)
    const name = header.toLowerCase()
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) {
      source.report(at, `"${header}" is not a header name`, { key: true })
    } else if (RESERVED_HEADERS.has(name)) {
      source.report(at, `the gateway builds the header "${header}" itself`, {
        key: true,
        suggestion: 'remove this line',
      })
    } else if (seen.has(name)) {
      source.report(at, `the header "${header}" is here twice`, { key: true })
    } else if (name === 'authorization' && api_key !== undefined) {
      source.report(at, 'api_key already makes the Authorization header', {
        key: true,
        suggestion: 'keep one of the two',
        concealed: true,
      })
    } else if (SECRET_HEADER.test(name) && !source.substituted(at)) {
      source.report(at, `the header "${header}" ${WRITTEN_OUT}`, { suggestion: BY_REFERENCE, concealed: true })
    } else if (!/^[\x20-\x7e\x80-\xff]*$/.test(value)) {
      source.report(at, `the value of "${header}" holds a line break or a character that a header cannot carry`, {
        concealed: true,
      })
    }
    seen.add(name)
  }
}
