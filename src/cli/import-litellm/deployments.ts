/** Converts the rows of `model_list`: provider, the provider's model name, and limits. */
import { wholeOf } from '../../catalog/decimal.ts'
import type { Vendor } from '../../providers/dialects/vendors.ts'
import { MAKERS, makerOf } from './litellm-names.ts'
import { RAW_PATHS, type RawUse } from './raw-paths.ts'
import { Fields, isTrue, type TextValue } from './read.ts'
import { hasReference, referenceIn } from './references.ts'
import type { Remarks } from './remarks.ts'
import { type DeploymentParts, providerOf } from './row-providers.ts'

/** The kind of requests to a deployment: chat, or those of a raw route. Others are not converted. */
type Use = 'chat' | RawUse

/** A row of `model_list` (LiteLLM's term). */
export interface Deployment {
  /** `model_name`: the model that clients send. Several rows may have the same. */
  readonly group: string
  /** Another name for it, from a variable, as written in gateway.yaml. */
  readonly alias: string | null
  readonly use: Use
  readonly provider: string
  /** As written in gateway.yaml. */
  readonly model: string
  /** The whole of `litellm_params.model`. */
  readonly source: string
  /** The vendor by LiteLLM's prefix, whose prices LiteLLM uses; undefined: not in the table of vendors. */
  readonly maker: Vendor | undefined
  /** The name after the prefix. */
  readonly name: string
  readonly cap: 'max_tokens' | null
  readonly weight: string | null
  readonly order: number | null
  readonly rpm: number | null
  readonly tpm: number | null
  readonly maxInflight: number | null
  /** Whether it comes from a row `*`. A row with its name replaces it. */
  readonly isImplied: boolean
  /** Both contain prices and token limits, which `models.ts` reads. */
  readonly params: Fields
  readonly info: Fields
}

/** A model `*` covers all vendors. Only these most common vendors get wildcards. */
const VENDORS_OF_ALL = ['openai', 'anthropic', 'gemini']

/** The deployments of a row: one, several for a model `*`, or none, with a remark. */
export function readDeployments(row: Fields, parts: DeploymentParts): Deployment[] {
  const source = row.map('litellm_params')?.text('model')
  const deployment = (prefix: string | null) => readDeployment(row, prefix, parts) ?? []
  if (source?.text !== '*' || row.map('litellm_params')?.text('custom_llm_provider')) return [deployment(null)].flat()
  const message = 'a wildcard for all vendors is converted for the most common ones only'
  parts.remarks.add('yours', source, message, 'remove the vendors for which you have no key', VENDORS_OF_ALL.join(', '))
  // Clients send model names with or without the vendor.
  const all = VENDORS_OF_ALL.flatMap(deployment)
  return [
    ...all,
    ...all.map(each => ({ ...each, group: each.group.replace('*', `${each.maker!.name}/*`), isImplied: true })),
  ]
}

/** Null if it cannot be converted, after a remark. @param ofAll the vendor for a model `*` */
function readDeployment(row: Fields, ofAll: string | null, parts: DeploymentParts): Deployment | null {
  const { remarks, variables } = parts
  const name = row.text('model_name')
  const info = row.map('model_info') ?? new Fields(row.line, `${row.path}.model_info`, new Map())
  const params = paramsOf(row, parts)
  const written = params?.text('model') ?? null
  const source = written && ofAll ? { ...written, text: `${ofAll}/*` } : written
  if (!name || !params || !source) {
    remarks.add('lost', row, 'a row of model_list needs model_name and litellm_params.model')
    return null
  }
  const named = referenceIn(name)
  const group = named ?? name.text
  if (named !== null)
    remarks.add('changed', name, "a model's id cannot be a variable: its value becomes an alias", 'write the id', named)
  const use = useOf(group, source, info, remarks)
  if (use === null) return null
  const hasAddress = params.peek('api_base') !== null || params.peek('base_url') !== null
  const maker = makerOf(source.text, params.text('custom_llm_provider')?.text ?? null, hasAddress)
  const vendor = maker === null ? undefined : MAKERS.get(maker.prefix)
  if (maker === null || (vendor === undefined && !hasAddress && !parts.convertsUnknown)) {
    const message = 'the provider is unknown to the importer, and the row has no api_base'
    remarks.add(
      'lost',
      source,
      message,
      'write api_base, or a provider such as openai/NAME, and import again',
      source.text,
    )
    return null
  }
  if (maker.name === '') {
    remarks.add('lost', source, 'the row names no model', 'write the provider’s name for it', source.text)
    return null
  }
  if (hasReference(source))
    remarks.add(
      'yours',
      source,
      'the name of the model is a variable',
      'set it to the name alone, without a prefix such as openai/',
      referenceIn(source) ?? source.text,
    )
  const result = providerOf(maker, vendor, params, parts)
  if (result === null) return null
  row.take('litellm_params')
  remarks.rest(row, 'row')
  return {
    group,
    alias: named === null ? null : variables.reference(named, `sample-${named.toLowerCase()}`),
    use,
    source: source.text,
    provider: register(result.provider, maker.prefix, parts.providers),
    model: variables.written(result.model, 'sample-model'),
    maker: vendor,
    name: result.model,
    cap: vendor === undefined ? 'max_tokens' : (vendor.cap ?? null),
    ...readLimits(params, remarks),
    isImplied: false,
    params,
    info,
  }
}

/** The parameters of a row, which have precedence over those of its credential. */
function paramsOf(row: Fields, { remarks, credentials }: DeploymentParts): Fields | null {
  const own = row.map('litellm_params')
  const credential = own?.text('litellm_credential_name') ?? null
  const named = credential ? credentials.get(credential.text) : undefined
  if (named) named.isUsed = true
  if (credential && !named)
    remarks.add('lost', credential, 'credential_list has no credential of this name', 'give the provider its api_key')
  const params = own?.over(named?.values ?? null) ?? null
  params?.take('litellm_credential_name')
  return params
}

/** The use of a model by its name, if the row has no mode. */
const BY_NAME: readonly (readonly [RegExp, string])[] = (
  [
    ['text-embedding|embed|embedding|embeddings', 'embedding'],
    ['realtime', 'realtime'],
    ['reranker?', 'rerank'],
    ['(faster-)?whisper|transcribe', 'audio_transcription'],
    ['tts|kokoro', 'audio_speech'],
    ['dall-e|gpt-image|imagen|stable-diffusion|flux', 'image_generation'],
    ['(omni-|text-)?moderation', 'moderation'],
    ['sora|veo', 'video_generation'],
  ] as const
).map(([words, use]) => [new RegExp(`(^|[/.@:_-])(${words})(?![a-z])`, 'i'), use])

function useOf(group: string, source: TextValue, info: Fields, remarks: Remarks): Use | null {
  const mode = info.text('mode')
  const named = BY_NAME.find(([words]) => words.test(source.text))?.[1]
  // Some files have "audio" and "image" for all models of this kind, including chat models with vision.
  const use = mode && !/^(audio|image)$/.test(mode.text) ? mode.text : (named ?? 'chat')
  if (/^(chat|completion|responses)$/.test(use)) return 'chat'
  if (Object.hasOwn(RAW_PATHS, use)) return use as RawUse
  const isLive = use === 'realtime'
  const instead = isLive
    ? 'the gateway does not support WebSockets: clients must call the provider'
    : `add a raw route: kind: raw, provider, price, models${mode ? '' : '; or write mode: chat into its model_info'}`
  remarks.add('lost', mode ?? source, 'the model is not a chat model', instead, `${group}: ${use}`)
  return null
}

function readLimits(params: Fields, remarks: Remarks) {
  const number = (key: string, most = Number.MAX_SAFE_INTEGER): number | null => {
    const value = params.text(key)
    if (value === null) return null
    const whole = wholeOf(value.text)
    if (whole !== null && whole >= 1 && whole <= most) return whole
    // LiteLLM counts from 0; a target's first priority is 1.
    if (whole === 0 && key === 'order') return 0
    remarks.wrongNumber(value, 'it is not a whole number from 1')
    return null
  }
  const weight = params.text('weight')
  return {
    weight: weight?.text ?? null,
    order: number('order', 1_000_000),
    rpm: number('rpm'),
    tpm: number('tpm'),
    maxInflight: number('max_parallel_requests', 100_000),
  }
}

/** Adds a provider and returns its name. Equal providers share one. */
function register(provider: Record<string, unknown>, prefix: string, providers: DeploymentParts['providers']): string {
  const mark = JSON.stringify(provider)
  const base =
    prefix
      .replaceAll('_', '-')
      .replace(/[^A-Za-z0-9-]/g, '')
      .replace(/^[^A-Za-z]+/, '') || 'provider'
  for (let count = 1; ; count++) {
    const name = count === 1 ? base : `${base}-${count}`
    const existing = providers.get(name)
    if (existing === undefined) providers.set(name, provider)
    if (existing === undefined || JSON.stringify(existing) === mark) return name
  }
}

/** Whether LiteLLM drops parameters that a provider does not support. */
export function dropsParams(settings: Fields | null, remarks: Remarks): boolean {
  const setting = settings?.text('drop_params') ?? null
  if (setting === null) return false
  const drops = isTrue(setting) || hasReference(setting)
  if (!drops)
    remarks.add('changed', setting, 'a target that does not support a parameter is passed over', 'on_dropped: tell')
  return drops
}
