/** The rows of `model_list`: which provider each is, what the provider calls the model, and how much may go there. */

import { wholeOf } from '../../catalog/decimal.ts'
import { likelierBaseUrl } from '../../config/base-urls.ts'
import { CLOUDS } from './clouds.ts'
import { headersOf, withOneSelf } from './headers.ts'
import { MAKERS, type ModelName, makerOf } from './litellm-names.ts'
import { ROW } from './params-table.ts'
import { Fields, isTrue, type TextValue } from './read.ts'
import type { Remarks } from './remarks.ts'
import { isReference, literal, type Variables } from './secrets.ts'
import { type Timeouts, timeoutsOf, timeoutsYaml } from './timeouts.ts'

/** What a deployment is asked for. Others are not carried. */
type Use = 'chat' | 'embedding'

/** A deployment, as LiteLLM calls it. */
export interface Deployment {
  /** `model_name`: what clients send. Several rows may have the same. */
  readonly group: string
  readonly use: Use
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
  readonly timeouts: Timeouts
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
  if (isReference(source)) {
    remarks.add('lost', source, 'the name of the model comes from the environment', 'write it here, and import again')
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
  const use = useOf(group.text, source, info, remarks)
  if (use === null) return null
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
  if (maker.name === '') {
    remarks.add(
      'lost',
      source,
      `"${source.text}" names no model`,
      'write it with the name that the provider has for it',
    )
    return null
  }
  if (maker.route)
    remarks.add('changed', source, `"${maker.route}/" is no part of the name: the provider is asked for ${maker.name}`)
  const found = providerOf(maker, params, parts)
  if (found === null) return null
  const limits = readLimits(params, remarks)
  row.take('litellm_params')
  remarks.rest(row.rest(), ROW)
  const { provider, model } = found
  return {
    group: group.text,
    use,
    source: source.text,
    provider: register(provider, maker.prefix, parts.providers),
    model: literal(model),
    cap: (Object.hasOwn(MAKERS, maker.prefix) && MAKERS[maker.prefix]!.cap) || null,
    ...limits,
    params,
    info,
  }
}

const EMBEDDING = /(^|[/.@:-])(text-embedding|embed|embedding|embeddings)(?![a-z])/i
const REALTIME = /(^|[/.@:-])realtime(?![a-z])/i

/** Names of models that answer no chats, where the row does not say what it is for. */
const NO_CHATS =
  /(^|[/.@:-])(rerank|whisper|transcribe|tts|dall-e|gpt-image|imagen|moderation|stable-diffusion|sora|veo)(?![a-z])/i

function useOf(group: string, source: TextValue, info: Fields, remarks: Remarks): Use | null {
  const mode = info.text('mode')
  const said = mode?.text ?? modeByName(source.text)
  if (said === 'chat' || said === 'responses') return 'chat'
  if (said === 'embedding') return 'embedding'
  const why = mode ? `${group} is not for chats (${said})` : `${group} is not for chats, by the name of its model`
  remarks.add(
    'lost',
    mode ?? source,
    said === 'realtime' ? `${why}, and the gateway carries no WebSocket` : why,
    said === 'realtime'
      ? 'clients of the Realtime API have to ask the provider themselves'
      : `add a raw route for it: kind: raw, a provider, a price, and models: [${source.text.split('/').pop()}]${mode ? '' : '; if it is, write mode: chat into its model_info'}`,
  )
  return null
}

function modeByName(model: string): string {
  if (REALTIME.test(model)) return 'realtime'
  if (EMBEDDING.test(model)) return 'embedding'
  return NO_CHATS.test(model) ? 'other' : 'chat'
}

function providerOf(
  { prefix, name }: ModelName,
  fields: Fields,
  parts: DeploymentParts,
): { provider: Record<string, unknown>; model: string } | null {
  const { variables, remarks } = parts
  const cloud = Object.hasOwn(CLOUDS, prefix) ? CLOUDS[prefix]! : null
  if (!cloud && !Object.hasOwn(MAKERS, prefix)) {
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
  const timeouts = timeoutsYaml({ ...parts.timeouts, ...timeoutsOf(fields, parts.remarks) }, parts.remarks)
  const said = fields.peek('api_base') ?? fields.peek('base_url')
  const isPlain = said?.kind === 'text' && isPlainElsewhere(said) && /^http:/.test(String(made.provider['base_url']))
  if (isPlain)
    remarks.add(
      'changed',
      said,
      'plain http to another machine: keys and prompts cross the network unencrypted',
      'use https, or leave allow_insecure: true if that network is yours',
    )
  return {
    model: made.model,
    provider: {
      ...withOneSelf(made.provider, headers, fields, remarks),
      ...(isPlain ? { allow_insecure: true } : {}),
      ...(Object.keys(headers).length > 0 ? { headers } : {}),
      ...(Object.keys(timeouts).length > 0 ? { timeouts } : {}),
    },
  }
}

function plainProvider(prefix: string, name: string, fields: Fields, { variables, remarks }: DeploymentParts) {
  const { dialect, hosts, baseUrl, key: standardKey, profile: ofVendor } = MAKERS[prefix]!
  // Elsewhere the host decides: a server that LiteLLM calls "openai" may be any.
  const profile = hosts === undefined ? ofVendor : undefined
  const said = fields.text('api_base') ?? fields.text('base_url') ?? addressIn(prefix, name, fields)
  const sample = baseUrl ?? 'https://sample.invalid/v1'
  if (said === null && baseUrl === null) {
    const variable = `${prefix.toUpperCase()}_API_BASE`
    remarks.add('yours', fields, `api_base is not in the file`, `set ${variable} to where ${prefix} is`)
    variables.reference(variable, sample)
  }
  const text = said ? variables.plain(said, sample) : (baseUrl ?? `\${${prefix.toUpperCase()}_API_BASE}`)
  const key = fields.text('api_key')
  const provider: Record<string, unknown> = {
    dialect,
    ...(profile && { profile }),
    base_url: fittedBase(prefix, text, baseUrl),
  }
  if (key) provider['api_key'] = variables.secret(key, standardKey ?? `${prefix.toUpperCase()}_API_KEY`)
  else if (standardKey !== null) provider['api_key'] = variables.reference(standardKey)
  return { provider, model: name }
}

/** `huggingface/https://…`: the name of the model is where its endpoint is. */
function addressIn(prefix: string, name: string, fields: Fields): TextValue | null {
  const model = fields.text('model')
  return model && prefix === 'huggingface' && /^https?:/.test(name) ? { ...model, text: name } : null
}

function isPlainElsewhere({ text }: TextValue): boolean {
  const url = URL.parse(text)
  return url?.protocol === 'http:' && !/^(localhost|\[::1\]|127(\.\d{1,3}){3})$/.test(url.hostname)
}

/** LiteLLM takes some addresses without their version, and others with the path of the request. */
function fittedBase(prefix: string, text: string, standard: string | null): string {
  const { dialect } = MAKERS[prefix]!
  const base = text.replace(/\/+$/, '').replace(/\/(chat\/completions|v1\/messages|messages)$/, '')
  if (dialect === 'anthropic' && !base.endsWith('/v1')) return `${base}/v1`
  // LiteLLM appends /v1/chat/completions to endpoints of Hugging Face, unless the address ends in a part of it.
  if (prefix === 'huggingface' && base === text.replace(/\/+$/, '') && !base.endsWith('/v1')) return `${base}/v1`
  if (dialect === 'ollama') return base.replace(/\/(v1|api)$/, '')
  if (dialect === 'cohere') return base.replace(/\/(v1|v2)(\/chat)?$/, '').concat('/v2')
  const url = URL.parse(base)
  // The provider itself, with a part of its path too few.
  if (standard !== null && url?.host === URL.parse(standard)?.host && likelierBaseUrl(dialect, url!)) return standard
  return base
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
