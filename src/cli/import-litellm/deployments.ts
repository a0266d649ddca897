/** The rows of `model_list`: which provider each is, what the provider calls the model, and how much may go there. */
import { CLOUDS } from './clouds.ts'
import { scaled, wholeOf } from './decimal.ts'
import { MAKERS, makerOf } from './makers.ts'
import { Fields, isTrue, type TextValue } from './read.ts'
import type { Known, Remarks } from './remarks.ts'
import type { Variables } from './secrets.ts'

/** A deployment, as LiteLLM calls it. */
export interface Deployment {
  /** `model_name`: what clients send. Several rows may have the same. */
  readonly group: string
  readonly provider: string
  readonly model: string
  /** The whole of `litellm_params.model`. */
  readonly source: string
  readonly cap: 'max_tokens' | null
  readonly weight: string | null
  readonly order: number | null
  readonly rpm: number | null
  readonly tpm: number | null
  readonly maxInflight: number | null
  /** Both hold prices, and limits of tokens; what models need of them is taken there. */
  readonly params: Fields
  readonly info: Fields
}

export interface DeploymentParts {
  readonly variables: Variables
  readonly remarks: Remarks
  /** `credential_list` by name. */
  readonly credentials: ReadonlyMap<string, Credential>
  /** Timeouts for providers that say none. */
  readonly timeouts: Readonly<Record<string, string>>
  /** The providers so far; new ones are put in. */
  readonly providers: Map<string, Record<string, unknown>>
}

/** What rows name with `litellm_credential_name`. */
export interface Credential {
  readonly values: Fields
  /** Whether a row has named it. */
  isUsed: boolean
}

/** Null: it cannot be carried, and was said. */
export function readDeployment(row: Fields, parts: DeploymentParts): Deployment | null {
  const { remarks, credentials } = parts
  const group = row.text('model_name')
  const own = row.map('litellm_params')
  const info = row.map('model_info') ?? new Fields(row.line, `${row.path}.model_info`, new Map())
  const credential = own?.text('litellm_credential_name')
  const named = credential ? credentials.get(credential.text) : undefined
  if (named) named.isUsed = true
  const params = own?.over(named?.values ?? null)
  const source = params?.text('model')
  params?.take('litellm_credential_name')
  if (credential && !named) {
    remarks.add('lost', credential, 'credential_list has no credential of this name', 'give the provider its api_key')
  }
  if (!group || !params || !source) {
    remarks.add('lost', row, 'a row of model_list has to have model_name and litellm_params.model')
    return null
  }
  if (`${group.text}${source.text}`.includes('*')) {
    remarks.add(
      'lost',
      source,
      'a wildcard stands for models that nobody has named, and a model here has a price',
      'list the models one by one',
    )
    return null
  }
  const mode = info.text('mode')
  if (mode && mode.text !== 'chat' && mode.text !== 'responses') {
    remarks.add(
      'lost',
      mode,
      `${group.text} is not for chats (${mode.text})`,
      `add a raw route for it: kind: raw, a provider, a price, and models: [${source.text.split('/').pop()}]`,
    )
    return null
  }
  const maker = makerOf(source.text, params.text('custom_llm_provider')?.text ?? null)
  if (maker === null) {
    remarks.add(
      'lost',
      source,
      `"${source.text}" names no provider`,
      'write it with one, such as openai/NAME, and import again',
    )
    return null
  }
  const found = providerOf(maker, params, parts)
  if (found === null) return null
  const limits = readLimits(params, remarks)
  row.take('litellm_params')
  remarks.rest(row.rest(), ROW)
  const { provider, model } = found
  return {
    group: group.text,
    source: source.text,
    provider: register(provider, maker.prefix, parts.providers),
    model,
    cap: MAKERS[maker.prefix]?.cap ?? null,
    ...limits,
    params,
    info,
  }
}

const ROW: Readonly<Record<string, Known>> = {
  model_id: ['here a target is its provider and model', undefined, 'changed'],
}

function providerOf(
  { prefix, name }: { prefix: string; name: string },
  fields: Fields,
  parts: DeploymentParts,
): { provider: Record<string, unknown>; model: string } | null {
  const { variables, remarks } = parts
  const cloud = CLOUDS[prefix]
  const maker = MAKERS[prefix]
  if (!cloud && !maker) {
    remarks.add(
      'lost',
      fields.peek('model')!,
      `the importer does not know the provider "${prefix}"`,
      'where it speaks the format of OpenAI, add it with dialect: openai and its base_url',
    )
    return null
  }
  const made = cloud ? cloud({ fields, name, variables, remarks }) : plainProvider(prefix, name, fields, parts)
  if (made === null) return null
  const headers = headersOf(fields, prefix, parts)
  const timeouts = { ...parts.timeouts, ...timeoutsOf(fields, parts.remarks) }
  const { api_key: key, ...rest } = made.provider
  return {
    model: made.model,
    provider: {
      ...rest,
      ...(key == null ? {} : { api_key: key }),
      ...(Object.keys(headers).length > 0 ? { headers } : {}),
      ...(Object.keys(timeouts).length > 0 ? { timeouts } : {}),
    },
  }
}

function plainProvider(prefix: string, name: string, fields: Fields, { variables, remarks }: DeploymentParts) {
  const { dialect, baseUrl, key: standardKey } = MAKERS[prefix]!
  const said = fields.text('api_base') ?? fields.text('base_url')
  const sample = baseUrl ?? 'https://sample.invalid/v1'
  if (said === null && baseUrl === null) {
    const variable = `${prefix.toUpperCase()}_API_BASE`
    remarks.add('yours', fields, `api_base is not in the file`, `set ${variable} to where ${prefix} is`)
    variables.reference(variable, sample)
  }
  const text = said ? variables.plain(said, sample) : (baseUrl ?? `\${${prefix.toUpperCase()}_API_BASE}`)
  const key = fields.text('api_key')
  const provider: Record<string, unknown> = { dialect, base_url: fittedBase(dialect, text) }
  if (key) provider['api_key'] = variables.secret(key, standardKey ?? `${prefix.toUpperCase()}_API_KEY`)
  else if (standardKey !== null) provider['api_key'] = variables.reference(standardKey)
  if (said && isPlainElsewhere(said)) {
    provider['allow_insecure'] = true
    remarks.add(
      'changed',
      said,
      'plain http to another machine: keys and prompts cross the network unencrypted',
      'use https, or leave allow_insecure: true if that network is yours',
    )
  }
  return { provider, model: name }
}

function isPlainElsewhere({ text }: TextValue): boolean {
  const url = URL.parse(text)
  return url?.protocol === 'http:' && !/^(localhost|\[::1\]|127(\.\d{1,3}){3})$/.test(url.hostname)
}

/** LiteLLM takes some addresses without their version, and others with the path of the request. */
function fittedBase(dialect: string, text: string): string {
  const base = text.replace(/\/+$/, '').replace(/\/(chat\/completions|v1\/messages|messages)$/, '')
  if (dialect === 'anthropic' && !base.endsWith('/v1')) return `${base}/v1`
  if (dialect === 'ollama') return base.replace(/\/(v1|api)$/, '')
  if (dialect === 'cohere') return base.replace(/\/(v1|v2)(\/chat)?$/, '').concat('/v2')
  return base
}

/** Rather one too many: what is no secret can be written back. */
const SECRET_HEADER = /auth|cookie|key|token|secret|pass|credential|signature|session/i
const SECRET_VALUE = /\b(Bearer|Basic) |[A-Za-z0-9+/_-]{20,}/

function headersOf(fields: Fields, prefix: string, { variables, remarks }: DeploymentParts): Record<string, string> {
  const headers: Record<string, string> = {}
  const organization = fields.text('organization')
  if (organization) headers['OpenAI-Organization'] = variables.plain(organization)
  for (const map of [fields.map('headers'), fields.map('extra_headers')]) {
    for (const name of map?.keys() ?? []) {
      const value = map!.text(name)
      if (value === null) {
        remarks.add('lost', map!.peek(name)!, 'a header is a text')
        continue
      }
      const variable = `${prefix}_${name}`.toUpperCase().replace(/[^A-Z0-9]/g, '_')
      if (/^(content-type|host|accept-encoding)$/i.test(name))
        remarks.add('lost', value, 'the gateway builds this header itself')
      else if (SECRET_HEADER.test(name) || SECRET_VALUE.test(value.text)) {
        const secret = variables.secret(value, variable)
        if (secret !== null) headers[name] = secret
      } else headers[name] = variables.plain(value)
    }
  }
  return headers
}

/** `timeout` is for the whole, `stream_timeout` until the first piece. Seconds. */
export function timeoutsOf(fields: Fields, remarks: Remarks, whole = 'timeout'): Record<string, string> {
  const timeouts: Record<string, string> = {}
  for (const [key, name] of [
    [whole, 'total'],
    ['stream_timeout', 'first_byte'],
  ] as const) {
    const value = fields.text(key)
    if (value === null) continue
    const ms = scaled(value.text, 3)
    if (ms === null || ms.value < 1n || ms.value > 86_400_000n) {
      remarks.add('lost', value, 'a timeout here is from 1 ms to 24 h', `say timeouts.${name} at the provider`)
    } else timeouts[name] = ms.value % 1000n === 0n ? `${ms.value / 1000n}s` : `${ms.value}ms`
  }
  return timeouts
}

function readLimits(params: Fields, remarks: Remarks) {
  const number = (key: string, most = Number.MAX_SAFE_INTEGER): number | null => {
    const value = params.text(key)
    if (value === null) return null
    const whole = wholeOf(value.text)
    if (whole !== null && whole >= 1 && whole <= most) return whole
    remarks.add('lost', value, `${key} has to be a whole number from 1 to ${most}`)
    return null
  }
  const weight = params.text('weight')
  return {
    weight: weight?.text ?? null,
    order: number('order', 50),
    rpm: number('rpm'),
    tpm: number('tpm'),
    maxInflight: number('max_parallel_requests', 100_000),
  }
}

/** The provider's name: one that is the same in all has the same. */
function register(provider: Record<string, unknown>, prefix: string, providers: DeploymentParts['providers']): string {
  const mark = JSON.stringify(provider)
  const base =
    prefix
      .replaceAll('_', '-')
      .replace(/[^A-Za-z0-9-]/g, '')
      .replace(/^[^A-Za-z]+/, '') || 'provider'
  for (let count = 1; ; count++) {
    const name = count === 1 ? base : `${base}-${count}`
    const there = providers.get(name)
    if (there === undefined) providers.set(name, provider)
    if (there === undefined || JSON.stringify(there) === mark) return name
  }
}

/** What `litellm_params` may have beside, and why it is not carried. */
export const PARAMS: Readonly<Record<string, Known>> = {
  drop_params: ['it is said once, at the step route', 'on_dropped: tell or refuse'],
  additional_drop_params: ['single parameters cannot be left out', 'ask clients not to send them'],
  temperature: ['a model here has no parameters of its own', 'let clients send it'],
  top_p: ['a model here has no parameters of its own', 'let clients send it'],
  reasoning_effort: ['a model here has no parameters of its own', 'let clients send it'],
  thinking: ['a model here has no parameters of its own', 'let clients send reasoning_effort'],
  extra_body: [
    'nothing is added to the body of a request',
    'let clients send it, with unknown_fields: pass at the step schema',
  ],
  mock_response: ['answers are not made up', 'use the dialect demo for tests'],
  max_retries: ['how often is tried is said once, at the step route', 'its setting attempts'],
  num_retries: ['how often is tried is said once, at the step route', 'its setting attempts'],
  max_budget: ['a provider has no budget here', 'give accounts credit, and keys a spending cap'],
  budget_duration: ['a provider has no budget here', 'give accounts credit, and keys a spending cap'],
  tags: ['targets are not picked by tags', 'give each group a model of its own, and keys a list of models'],
  guardrails: ['guardrails are steps of a policy', 'use the step guard, or a plugin of your own'],
  aws_role_name: [
    'roles are not assumed',
    'set keys of the role as AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and aws.session_token',
  ],
  aws_session_name: ['roles are not assumed', 'set keys of the role'],
  aws_profile_name: ['profiles are not read', 'set the keys of the profile in the environment'],
  aws_web_identity_token: ['web identities are not exchanged', 'set AWS keys, or a Bedrock API key as api_key'],
  tenant_id: ['Entra is not asked for tokens', 'use a key of the resource, or auth: bearer with a token'],
  client_id: ['Entra is not asked for tokens', 'use a key of the resource, or auth: bearer with a token'],
  client_secret: ['Entra is not asked for tokens', 'use a key of the resource, or auth: bearer with a token'],
  base_model: ['it is used to find a price with --prices, and for nothing else', undefined, 'changed'],
  use_in_pass_through: ['other paths are raw routes', 'see Raw routes in policies/README.md'],
  merge_reasoning_content_in_choices: ['thoughts stay in reasoning_content'],
  cache_control_injection_points: ['marks for caches are not put in', 'let clients send cache_control'],
  ssl_verify: ['certificates are always checked', 'add your authority with NODE_EXTRA_CA_CERTS'],
}

/** Whether LiteLLM was told to leave out what a provider does not take. */
export function dropsParams(settings: Fields | null, remarks: Remarks): boolean {
  const said = settings?.text('drop_params') ?? null
  const drops = isTrue(said)
  if (said === null) return drops
  const why = drops
    ? 'what a target does not take is left out, and told in the header x-tollgate-dropped'
    : 'it has become on_dropped: refuse: a target that does not take a parameter is passed over'
  remarks.add('changed', said, why, 'on_dropped: of the step route')
  return drops
}
