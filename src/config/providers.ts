/** `providers`: checks beyond the schema. Secrets must not be in the file and are never sent over plain HTTP. */

import { azurePlaceOf, checkAzure } from './azure.ts'
import { expectedBaseUrl } from './base-urls.ts'
import type { Credential, Provider } from './configuration.ts'
import type { GatewayShape, ProviderShape } from './file-shapes.ts'
import { BY_REFERENCE, WRITTEN_IN_CLEAR } from './gateway-section.ts'
import { isLoopback } from './listen-address.ts'
import { type Listeners, ownListener } from './own-listeners.ts'
import { checkServiceAccount, serviceAccountOf } from './service-account.ts'
import { entriesOf, pointer, type Source } from './yaml/source.ts'

const DEMO_PACE_MS = 25

/** Headers that the gateway builds itself, or that belong to a connection. */
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
  'via',
])
/** Also reserved in requests to providers. */
const RESERVED_TOWARDS_PROVIDERS = new Set(['accept', 'x-request-id'])
/** The header of an API key, where it is not `authorization`. */
const KEY_HEADERS: Readonly<Partial<Record<ProviderShape['dialect'], string>>> = {
  anthropic: 'x-api-key',
  azure: 'api-key',
  gemini: 'x-goog-api-key',
}
/** Headers that may contain a credential. */
export const SECRET_HEADER = /^(authorization|cookie)$|(^|-)(key|token|secret|password)$/

/** The providers without problems, by name. `listeners` are the gateway's own. */
export function buildProviders(
  source: Source,
  shapes: GatewayShape['providers'],
  listeners: Listeners,
): Map<string, Provider> {
  const providers = new Map<string, Provider>()
  for (const [name, shape] of entriesOf(shapes)) {
    const at = pointer('providers', name)
    const remains = source.remains(at, shape)
    if (remains === null) continue
    if (shape.dialect === 'demo') checkDemo(source, at)
    else checkRemote(source, at, name, remains)
    checkReturn(source, `${at}/base_url`, remains.base_url, listeners)
    if (source.sound(at)) providers.set(name, build(name, shape))
  }
  return providers
}

function build(name: string, shape: ProviderShape): Provider {
  const { timeouts } = shape
  return {
    name,
    ...(shape.dialect === 'azure' ? { azure: azurePlaceOf(shape) } : {}),
    dialect: shape.dialect,
    ...(shape.profile === undefined ? {} : { profile: shape.profile }),
    baseUrl: shape.base_url === undefined ? '' : trimmed(new URL(shape.base_url)),
    credentials: credentialsOf(shape),
    headers: Object.fromEntries(Object.entries(shape.headers ?? {}).map(([key, value]) => [key.toLowerCase(), value])),
    timeouts: {
      connectMs: timeouts.connect,
      firstByteMs: timeouts.first_byte,
      idleMs: timeouts.idle,
      totalMs: timeouts.total,
    },
    connections: shape.connections,
    fillsFinish: shape.missing_finish === 'stop',
    paceMs: shape.pace ?? DEMO_PACE_MS,
  }
}

function credentialsOf({ api_key, api_keys, aws, service_account: file }: ProviderShape): Credential[] {
  if (file !== undefined) return [serviceAccountOf(file)]
  if (aws === undefined) return api_key === undefined ? [...(api_keys ?? [])] : [api_key]
  const { access_key_id: accessKeyId, secret_access_key: secretAccessKey, session_token: sessionToken, region } = aws
  return [{ accessKeyId, secretAccessKey, sessionToken, region }]
}

const trimmed = (url: URL) => url.origin + url.pathname.replace(/\/+$/, '')

/** The keys for credentials. A provider has at most one of them. */
const CREDENTIAL_KEYS = ['api_key', 'api_keys', 'service_account', 'aws'] as const

function checkDemo(source: Source, at: string): void {
  for (const key of [
    'profile',
    'base_url',
    ...CREDENTIAL_KEYS,
    'api_version',
    'auth',
    'headers',
    'timeouts',
    'connections',
    'missing_finish',
    'allow_insecure',
  ]) {
    if (!source.has(at + pointer(key))) continue
    source.report(at + pointer(key), `"${key}" has no effect at the demo provider, which uses no network`, {
      rule: 'useless-key',
      key: true,
      suggestion: 'remove this line',
      concealed: key === 'headers' || (CREDENTIAL_KEYS as readonly string[]).includes(key),
    })
  }
}

function checkRemote(source: Source, at: string, name: string, shape: Partial<ProviderShape>): void {
  const known = shape.dialect !== undefined
  if (known && shape.pace !== undefined) {
    source.report(`${at}/pace`, 'pace is for the demo provider only', {
      rule: 'useless-key',
      key: true,
      suggestion: 'remove this line',
    })
  }
  if (known && shape.dialect !== 'openai' && source.has(`${at}/profile`)) {
    source.report(`${at}/profile`, 'profile is only for the dialect openai', {
      rule: 'useless-key',
      key: true,
      suggestion: 'remove this line',
    })
  }
  if (known && !source.mayHave(`${at}/base_url`)) {
    source.report(at, `the provider "${name}" has no "base_url"`, {
      rule: 'missing-key',
      suggestion: 'write base_url: https://HOST/v1',
    })
  } else if (shape.base_url !== undefined) {
    checkBaseUrl(source, `${at}/base_url`, shape.base_url, shape)
  }
  checkTimeouts(source, `${at}/timeouts`, shape.timeouts)
  checkCredentials(source, at, shape)
  if (known) checkAzure(source, at, shape)
  checkHeaders(source, at, shape)
}

function checkBaseUrl(
  source: Source,
  at: string,
  text: string,
  { dialect = 'demo', allow_insecure: allowInsecure = true }: Partial<ProviderShape>,
): void {
  const shown = source.show(at, text)
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) {
    source.report(at, `base_url ${shown} is not a URL`, { suggestion: 'write it as https://HOST/v1' })
  } else if (url.username !== '' || url.password !== '') {
    source.report(at, 'base_url contains credentials', {
      rule: 'written-secret',
      suggestion: 'put the key under api_key',
      concealed: true,
    })
  } else if (url.search !== '' || url.hash !== '' || /[?#]$/.test(text)) {
    source.report(at, 'base_url has a query or a fragment', { suggestion: 'end it with its path', concealed: true })
  } else if (/\/chat\/completions\/?$/.test(url.pathname)) {
    source.report(at, 'base_url is too long: the gateway adds /chat/completions', { suggestion: 'end it with /v1' })
  } else if (url.protocol === 'http:' && !isLoopback(url.hostname) && !allowInsecure) {
    source.report(at, `base_url ${shown} would send keys and prompts unencrypted`, {
      suggestion: 'use https, or write allow_insecure: true if you trust that network',
    })
  } else {
    const likelier = expectedBaseUrl(dialect, url)
    if (likelier === null) return
    source.report(at, `base_url ${shown} is not a base URL of the dialect ${dialect}`, {
      suggestion: `write it as ${likelier}`,
    })
  }
}

/** Reports a base URL that leads back to this gateway. */
function checkReturn(source: Source, at: string, text: string | undefined, listeners: Listeners): void {
  const url = text === undefined || !source.sound(at) ? null : URL.parse(text)
  const own = url && ownListener(url, listeners)
  if (!own) return
  const where = source.has(`/${own}`) ? ` (line ${source.position(`/${own}`).line})` : ''
  const message = `base_url ${source.show(at, text)} is this gateway's own "${own}"${where}: each request would return to it`
  source.report(at, message, { suggestion: 'write the address of the provider' })
}

/** Checks only timeouts in the file: with a short total, the defaults of the others need not be changed. */
function checkTimeouts(source: Source, at: string, timeouts: Partial<ProviderShape['timeouts']> = {}): void {
  const { total } = timeouts
  for (const name of ['connect', 'first_byte', 'idle'] as const) {
    const span = timeouts[name]
    if (!source.has(`${at}/${name}`) || span === undefined || total === undefined || span <= total) continue
    const long = source.has(`${at}/total`)
      ? source.show(`${at}/total`, `${total}ms`)
      : `${total / 60_000}m, the default`
    source.report(`${at}/${name}`, `${name} is longer than total (${long}), so it has no effect`, {
      rule: 'useless-key',
      suggestion: `make ${name} shorter, or total longer`,
    })
  }
}

function checkCredentials(source: Source, at: string, shape: Partial<ProviderShape>): void {
  const { dialect, api_key, api_keys, aws } = shape
  const keys = CREDENTIAL_KEYS.filter(key => source.has(`${at}/${key}`))
  for (const key of keys.slice(1)) {
    source.report(`${at}/${key}`, `this provider already has a credential: ${keys[0]}`, {
      rule: 'useless-key',
      key: true,
      suggestion: 'keep one of the two',
      concealed: true,
    })
  }
  if (api_key !== undefined) checkApiKey(source, `${at}/api_key`, api_key)
  for (const [index, key] of (api_keys ?? []).entries()) checkApiKey(source, `${at}/api_keys/${index}`, key)
  checkServiceAccount(source, `${at}/service_account`, shape)
  if (aws === undefined) return
  if (dialect !== undefined && dialect !== 'bedrock' && dialect !== 'bedrock-invoke') {
    source.report(`${at}/aws`, 'aws is only for the dialects bedrock and bedrock-invoke', {
      rule: 'useless-key',
      key: true,
      concealed: true,
    })
  }
  for (const key of ['access_key_id', 'secret_access_key', 'session_token'] as const) {
    if (aws[key] !== undefined) checkApiKey(source, `${at}/aws/${key}`, aws[key])
  }
  if (aws.region !== undefined && !/^[a-z]{2}(-[a-z]+)+-\d$/.test(aws.region)) {
    const shown = source.show(`${at}/aws/region`, aws.region)
    source.report(`${at}/aws/region`, `${shown} is not an AWS region`, { suggestion: 'write it as eu-central-1' })
  }
}

function checkApiKey(source: Source, at: string, key: string): void {
  // `remains` removes broken entries of maps, but not of lists.
  if (!source.sound(at)) return
  if (!source.substituted(at)) {
    source.report(at, `the ${nameAt(at)} ${WRITTEN_IN_CLEAR}`, {
      rule: 'written-secret',
      suggestion: BY_REFERENCE,
      concealed: true,
    })
  } else if (!/^[\x21-\x7e]+$/.test(key)) {
    source.report(at, `the ${nameAt(at)} is empty, or contains blanks or characters that are not allowed in a header`, {
      suggestion: 'write the key alone, without "Bearer"',
      concealed: true,
    })
  }
}

/** The name of a credential in messages: `session_token` for `/providers/p/aws/session_token`, `api_key` for each of the api_keys. */
function nameAt(at: string): string {
  const [last, before] = at.split('/').reverse()
  return before === 'api_keys' ? 'api_key' : last!
}

/** Checks the headers of a provider, or of another map with `headers` at the pointer `provider`. */
export function checkHeaders(
  source: Source,
  provider: string,
  { headers = {}, ...shape }: Partial<ProviderShape>,
): void {
  const seen = new Set<string>()
  for (const [header, value] of Object.entries(headers)) {
    const at = provider + pointer('headers', header)
    const name = header.toLowerCase()
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) {
      source.report(at, `"${header}" is not a header name`, { rule: 'wrong-name', key: true })
    } else if (RESERVED_HEADERS.has(name) || (shape.dialect !== undefined && isReservedHeader(name))) {
      source.report(at, `the gateway builds the header "${header}" itself`, {
        rule: 'useless-key',
        key: true,
        suggestion: 'remove this line',
      })
    } else if (seen.has(name)) {
      source.report(at, `the header "${header}" is listed twice`, { rule: 'duplicate-entry', key: true })
    } else if (isKeyHeader(name, shape.dialect) && CREDENTIAL_KEYS.some(key => shape[key] !== undefined)) {
      source.report(
        at,
        `this provider already has a credential: ${CREDENTIAL_KEYS.find(key => shape[key] !== undefined)}`,
        {
          rule: 'useless-key',
          key: true,
          suggestion: 'keep one of the two',
          concealed: true,
        },
      )
    } else if (SECRET_HEADER.test(name) && !source.substituted(at)) {
      source.report(at, `the header "${header}" ${WRITTEN_IN_CLEAR}`, {
        rule: 'written-secret',
        suggestion: BY_REFERENCE,
        concealed: true,
      })
    } else if (!/^[\x20-\x7e\x80-\xff]*$/.test(value)) {
      source.report(
        at,
        `the value of "${header}" contains a line break or a character that is not allowed in a header`,
        {
          concealed: true,
        },
      )
    }
    seen.add(name)
  }
}

/** Whether the configuration cannot set this header of requests to providers. */
export const isReservedHeader = (name: string) => RESERVED_HEADERS.has(name) || RESERVED_TOWARDS_PROVIDERS.has(name)

/** Whether a dialect sends its API key in this header. */
export const isKeyHeader = (name: string, dialect: ProviderShape['dialect'] | undefined) =>
  name === 'authorization' || (dialect !== undefined && name === KEY_HEADERS[dialect])
