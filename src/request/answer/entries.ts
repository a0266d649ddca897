/** Answers of the gateway itself: models and receipts, as JSON. */
import {
  type Catalog,
  costFields,
  formatMoney,
  type Key,
  type Model,
  type ModelEnd,
  mayUse,
  mayUseRaw,
  type NanoUsd,
  type Plan,
  priceFields,
  type Receipt,
  requestedModel,
  usageFields,
} from '#contract'

/** The models that this caller may use. A model that is not public is listed for keys that name it. */
export function listedModels(catalog: Catalog, key: Key | undefined, plan: Plan | undefined): Model[] {
  return catalog.list().filter(model => mayUse(model, key, plan))
}

/** A model of raw routes only. The catalog has no data about it. */
export interface RawModel {
  readonly id: string
  readonly provider: string
}

/** The fields of a route's configuration that the lists need. */
interface RawRoute {
  readonly public: boolean
  readonly raw: { readonly models: readonly string[] | null; readonly provider: { readonly name: string } } | null
}

/** The models of raw routes (`models`) that this caller may use there: embeddings, speech, images. Models of the catalog are excluded. */
export function listedRawModels(
  routes: readonly { readonly config: RawRoute }[],
  catalog: Catalog,
  key: Key | undefined,
  plan: Plan | undefined,
): RawModel[] {
  const found = new Map<string, RawModel>()
  for (const { config } of routes) {
    if (key === undefined && !config.public) continue
    for (const id of config.raw?.models ?? []) {
      const isAllowed = mayUseRaw(id, key, plan)
      if (isAllowed && !found.has(id) && !catalog.find(id)) found.set(id, { id, provider: config.raw!.provider.name })
    }
  }
  return [...found.values()]
}

export function modelList(models: readonly Model[], rawModels: readonly RawModel[] = []): object {
  return { object: 'list', data: [...models.map(modelEntry), ...rawModels.map(rawModelEntry)] }
}

/** OpenAI's four fields. The creation time of a raw model is unknown. */
export function rawModelEntry({ id, provider }: RawModel): object {
  return { id, object: 'model', created: 0, owned_by: provider }
}

/** OpenAI's four fields first, then fields with names that tools already read elsewhere. */
export function modelEntry(model: Model): object {
  return {
    id: model.id,
    object: 'model',
    created: model.created,
    owned_by: model.ownedBy,
    ...(model.description === null ? {} : { description: model.description }),
    context_length: model.context,
    max_output: model.maxOutput,
    pricing: model.price === null ? null : priceFields(model.price),
    supported_parameters: supportedParameters(model),
    ...(model.deprecation === undefined ? {} : endFields(model.deprecation)),
  }
}

/** `expiration_date` is OpenRouter's name, which its clients read; `successor` is the name in gateway.yaml. */
function endFields({ date, successor }: ModelEnd): object {
  return { expiration_date: date, successor }
}

/** The list as a page of Anthropic's API: always complete, whatever page was requested. */
export function anthropicModels(models: readonly Model[]): object {
  const data = models.map(anthropicModel)
  return { object: 'list', data, has_more: false, first_id: models[0]?.id ?? null, last_id: models.at(-1)?.id ?? null }
}

/** A model with the fields of both APIs: they differ in the names and formats of times. */
export function anthropicModel(model: Model): object {
  const created_at = new Date(model.created * 1000).toISOString()
  const limits = { max_input_tokens: model.context, max_tokens: model.maxOutput }
  return { ...modelEntry(model), type: 'model', display_name: model.id, created_at, ...limits }
}

/** Request parameters that every model accepts. */
export const COMMON_PARAMETERS = [
  'frequency_penalty',
  'logit_bias',
  'logprobs',
  'max_completion_tokens',
  'max_tokens',
  'n',
  'parallel_tool_calls',
  'presence_penalty',
  'response_format',
  'seed',
  'stop',
  'stream',
  'stream_options',
  'temperature',
  'tool_choice',
  'tools',
  'top_logprobs',
  'top_p',
]

function supportedParameters(model: Model): string[] {
  return model.reasoning ? [...COMMON_PARAMETERS, 'reasoning_effort'].sort() : COMMON_PARAMETERS
}

/** A receipt for the owner of its key: money in dollars with nine decimals. */
export function receiptEntry(receipt: Receipt): object {
  const money = (amount: NanoUsd | null) => (amount === null ? null : formatMoney(amount))
  return {
    id: receipt.id,
    object: 'receipt',
    model: receipt.model,
    asked_model: requestedModel(receipt.trail),
    created: Math.floor(receipt.createdAt / 1000),
    settled: receipt.settledAt === null ? null : Math.floor(receipt.settledAt / 1000),
    corrected: receipt.correctedAt === null ? null : Math.floor(receipt.correctedAt / 1000),
    outcome: receipt.outcome,
    code: receipt.code,
    held: money(receipt.held),
    charged: money(receipt.charged),
    overrun: money(receipt.overrun),
    pricing: priceFields(receipt.price),
    usage: { ...usageFields(receipt.usage), source: receipt.source },
    ...costFields(receipt.cost),
    attempts: receipt.attempts,
    trail: receipt.trail,
    key: receipt.keyId,
    idempotency_key: receipt.idempotencyKey,
    tags: receipt.tags,
  }
}
