/** Converts the provider of a row of `model_list`: dialect, address, key, headers and timeouts. */
import { expectedBaseUrl } from '../../config/base-urls.ts'
import { type Vendor, vendorAt, vendorNamed } from '../../providers/dialects/vendors.ts'
import { CLOUDS } from './clouds.ts'
import { headersOf, withOneCredential } from './headers.ts'
import type { ModelName } from './litellm-names.ts'
import type { Fields, TextValue } from './read.ts'
import { hasReference } from './references.ts'
import type { Remarks } from './remarks.ts'
import type { Variables } from './secrets.ts'
import { type Timeouts, timeoutsOf, timeoutsYaml } from './timeouts.ts'

export interface DeploymentParts {
  readonly variables: Variables
  readonly remarks: Remarks
  /** `credential_list` by name. */
  readonly credentials: ReadonlyMap<string, Credential>
  /** Timeouts for providers without their own. */
  readonly timeouts: Timeouts
  /** The providers so far; new ones are added. */
  readonly providers: Map<string, Record<string, unknown>>
  /** Whether an unknown provider without an address is converted too, with its address in a variable. */
  readonly convertsUnknown: boolean
}

/** A credential that rows use by `litellm_credential_name`. */
export interface Credential {
  readonly values: Fields
  /** Whether a row uses it. */
  isUsed: boolean
}

export interface Place {
  readonly provider: Record<string, unknown>
  /** The provider's model name in the row. */
  readonly model: string
}

/** Null if it cannot be converted, after a remark. @param vendor undefined: OpenAI's format at `api_base` */
export function providerOf(
  { prefix, name, route }: ModelName,
  vendor: Vendor | undefined,
  fields: Fields,
  parts: DeploymentParts,
): Place | null {
  const { variables, remarks } = parts
  const at = fields.peek('api_base') ?? fields.peek('base_url')
  if (route)
    remarks.add('changed', fields.peek('model')!, "a part of the name selects LiteLLM's endpoint: it is removed")
  if (vendor === undefined)
    remarks.add('changed', fields.peek('model')!, "an unknown provider is called in OpenAI's format", null, prefix)
  const vendorThere = vendor && at?.kind === 'text' ? vendorAtHost(at, vendor) : vendor
  const cloud = vendorThere === undefined ? undefined : CLOUDS[vendorThere.name]
  const made = cloud
    ? cloud({ fields, name, variables, remarks })
    : plainProvider(prefix, name, { vendorThere, fields, parts })
  if (made === null) return null
  const headers = headersOf(fields, prefix, parts)
  const timeouts = timeoutsYaml({ ...parts.timeouts, ...timeoutsOf(fields, remarks) }, remarks)
  const url = String(made.provider['base_url'])
  // A variable may contain any address. Plain http is allowed only if it may be the operator's own server.
  const isUnknown =
    url.startsWith('${') && !cloud && (vendorThere?.hosts === undefined || vendorThere.name === 'openai')
  const isPlain = isUnknown || isPlainElsewhere(url)
  if (isPlain)
    remarks.add(
      'changed',
      at ?? fields,
      'plain http to another machine is allowed: keys and prompts are not encrypted',
      'use https, or keep allow_insecure: true on your own network',
    )
  return {
    model: made.model,
    provider: {
      ...withOneCredential(made.provider, headers, fields, remarks),
      ...(isPlain ? { allow_insecure: true } : {}),
      ...(Object.keys(headers).length > 0 ? { headers } : {}),
      ...(Object.keys(timeouts).length > 0 ? { timeouts } : {}),
    },
  }
}

/** The vendor whose dialect is used at the address: that of the row, or, if the host does not support it, that of the host. */
function vendorAtHost(at: TextValue, vendor: Vendor): Vendor {
  const host = URL.parse(at.text)?.hostname
  const actual = host === undefined ? undefined : vendorAt(host)
  if (actual === undefined || actual.dialect === vendor.dialect) return vendor
  return actual.alsoSpeaks?.includes(vendor.dialect) ? vendor : actual
}

interface PlainParts {
  readonly vendorThere: Vendor | undefined
  readonly fields: Fields
  readonly parts: DeploymentParts
}

function plainProvider(
  prefix: string,
  name: string,
  { vendorThere, fields, parts: { variables, remarks } }: PlainParts,
): Place {
  const { dialect, hosts, baseUrl, key: standardKey, profile: ofVendor } = vendorThere ?? OPENAI_LIKE
  // For a vendor with hosts, the gateway takes the profile from the host: a server that LiteLLM calls "openai" may be any
  // product.
  const profile = hosts === undefined ? ofVendor : undefined
  const address = fields.text('api_base') ?? fields.text('base_url') ?? addressIn(prefix, name, fields)
  const upper = prefix.toUpperCase().replace(/\W/g, '_')
  // If a path is appended to the variable, its example must not contain the path.
  const added = fittedBase(prefix, '$', { dialect, baseUrl }).slice(1)
  const whole = baseUrl ?? 'https://sample.invalid/v1'
  const sample = whole.endsWith(added) ? whole.slice(0, whole.length - added.length) : whole
  const base = address ? variables.plain(rightHost(address, remarks), sample) : (baseUrl ?? missingBase())
  const key = fields.text('api_key')
  const provider: Record<string, unknown> = {
    dialect,
    ...(profile && { profile }),
    base_url: fittedBase(prefix, base, { dialect, baseUrl }),
  }
  if (key) provider['api_key'] = variables.secret(key, standardKey ?? `${upper}_API_KEY`)
  else if (standardKey !== null) provider['api_key'] = variables.reference(standardKey)
  return { provider, model: name }

  function missingBase(): string {
    if (vendorThere?.name === 'cloudflare') {
      remarks.add('yours', fields, 'the address contains your account', 'set CLOUDFLARE_ACCOUNT_ID')
      const account = variables.reference('CLOUDFLARE_ACCOUNT_ID', 'sample-account')
      return `https://api.cloudflare.com/client/v4/accounts/${account}/ai/v1`
    }
    remarks.add('yours', fields, 'api_base is not in the file', `set ${upper}_API_BASE`, prefix)
    return variables.reference(`${upper}_API_BASE`, sample)
  }
}

const OPENAI_LIKE = vendorNamed('openai-compatible')!

/** `huggingface/https://…`: the model name is the address of its endpoint. */
function addressIn(prefix: string, name: string, fields: Fields): TextValue | null {
  const model = fields.text('model')
  return model && prefix === 'huggingface' && /^https?:/.test(name) ? { ...model, text: name } : null
}

/** `http://qwen3.6:8000`: URL parsers read a container name that ends with a number as an incomplete IPv4 address. */
const NUMERIC_HOST = /^(https?:\/\/)([\w-]+(?:\.[\w-]+)*\.\d+)(?=[:/]|$)/i

function rightHost(address: TextValue, remarks: Remarks): TextValue {
  const host = NUMERIC_HOST.exec(address.text)?.[2]
  if (host === undefined || URL.canParse(address.text)) return withScheme(address)
  const name = host.replaceAll(/[._]/g, '-')
  const instead = 'give the container this second name (networks: aliases in a compose file)'
  const message = 'a host name whose last part is a number is not valid in a URL'
  remarks.add('yours', address, message, instead, `${host} is now ${name}`)
  return { ...address, text: address.text.replace(host, name) }
}

/** `localhost:11434` is a server, but URL parsers read `localhost:` as a scheme. */
function withScheme(address: TextValue): TextValue {
  if (hasReference(address) || /^[a-z]+:\/\//i.test(address.text)) return address
  return /^[\w.-]+(:\d+)?(\/|$)/.test(address.text) ? { ...address, text: `http://${address.text}` } : address
}

function isPlainElsewhere(text: string): boolean {
  const url = URL.parse(text.replaceAll(/\$\{\w+\}/g, '1'))
  return url?.protocol === 'http:' && !/^(localhost|\[::1\]|127(\.\d{1,3}){3})$/.test(url.hostname)
}

/** LiteLLM accepts some addresses without a version, and others with the path of the request. */
function fittedBase(prefix: string, text: string, { dialect, baseUrl }: Pick<Vendor, 'dialect' | 'baseUrl'>): string {
  const base = text.replace(/\/+$/, '').replace(/\/(chat\/completions|completions|v1\/messages|messages)$/, '')
  if (dialect === 'anthropic' && !base.endsWith('/v1')) return `${base}/v1`
  // LiteLLM appends /v1/chat/completions to endpoints of Hugging Face, unless the address ends in a part of it.
  if (prefix === 'huggingface' && base === text.replace(/\/+$/, '') && !base.endsWith('/v1')) return `${base}/v1`
  if (dialect === 'ollama') return base.replace(/\/(v1|api)$/, '')
  if (dialect === 'cohere') return base.replace(/\/(v1|v2)(\/chat)?$/, '').concat('/v2')
  const url = URL.parse(base)
  // The provider's own host, with an incomplete path.
  if (baseUrl !== null && url?.host === URL.parse(baseUrl)?.host && expectedBaseUrl(dialect, url!)) return baseUrl
  return base
}
