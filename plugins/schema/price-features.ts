/**
 * Fields that change the bill of the provider. The hold follows from the price in the catalog, so a model with a price refuses them unless
 * its `allow` lists them.
 */
import {
  anthropicToolIn,
  type ChatRequest,
  findProviderTool,
  isAnthropicSearchType,
  type Model,
  type PriceFeature,
  refuse,
  takesSearch,
} from '#contract'
import { meant, shortJson } from './words.ts'

/** Throws for the first field that the model does not allow. */
export function refusePriceFeatures(body: ChatRequest, model: Model): void {
  if (model.price === null) return
  for (const [feature, find] of FEATURES) {
    if (model.allow.includes(feature)) continue
    const param = find(body)
    if (param === null) continue
    throw refuse('unsupported_parameter', { message: `${sentence(body, model.id, param)}${howTo(feature)}`, param })
  }
}

/** Advice for the operator, who is often the first client. */
const howTo = (feature: PriceFeature) => ` In gateway.yaml, 'allow: [${feature}]' at the model allows it.`

/** An unknown type of a tool may be one of the provider, or mistyped. The message covers both. */
function sentence(body: ChatRequest, model: string, param: string): string {
  const id = JSON.stringify(model)
  if (!param.startsWith('tools[')) return `The model ${id} does not take '${param}': it would change the price.`
  const { type, anthropic } = body.tools![findProviderTool(body)] as Tool
  const kind = type === 'anthropic' ? anthropic?.type : type
  return `Invalid value for '${param}': ${shortJson(kind)} is not one of 'function', 'custom'.${meant(kind, ['function', 'custom'])} The model ${id} takes no other tools: the provider may run them, which would change the price.`
}

interface Tool {
  readonly type: unknown
  readonly anthropic?: { readonly type?: unknown }
}

/** Throws for a search of Anthropic's that no target of the model supports, or that the model does not allow. */
export function refuseUnfitSearch({ tools, n }: ChatRequest, model: Model): void {
  const index = tools?.findIndex(tool => isAnthropicSearchType(anthropicToolIn(tool)?.type)) ?? -1
  if (index < 0) return
  if (!takesSearch(model, 'anthropic')) {
    const param = `tools[${index}].type`
    const message = `The model ${JSON.stringify(model.id)} does not take '${param}': it does not search the web in Anthropic's form.${
      model.searches?.includes('anthropic') ? howTo('web_search') : ''
    }`
    throw refuse('unsupported_parameter', { message, param })
  }
  const second = tools!.findIndex((tool, at) => at > index && isAnthropicSearchType(anthropicToolIn(tool)?.type))
  if (second >= 0) {
    const message = `tools[${second}] is a second search of the web, and a request has one.`
    throw refuse('invalid_value', { message, param: `tools[${second}].type` })
  }
  if (n == null || n === 1) return
  throw refuse('unsupported_parameter', {
    message: `A request with a search gives one choice, but 'n' is ${n}.`,
    param: 'n',
  })
}

/** The place in a body that uses each feature; null: none does. */
const FEATURES: readonly (readonly [PriceFeature, (body: ChatRequest) => string | null])[] = [
  [
    'service_tier',
    ({ service_tier: tier }) => (tier == null || tier === 'auto' || tier === 'default' ? null : 'service_tier'),
  ],
  ['web_search', findSearch],
  ['prediction', body => (body.prediction == null ? null : 'prediction')],
  ['audio', findAudio],
]

function findSearch(body: ChatRequest): string | null {
  if (body.web_search_options != null) return 'web_search_options'
  const foreign = findProviderTool(body)
  return foreign >= 0 ? `tools[${foreign}].type` : null
}

function findAudio(body: ChatRequest): string | null {
  if (body.audio != null) return 'audio'
  if (Array.isArray(body.modalities) && body.modalities.includes('audio')) return 'modalities'
  for (let i = 0; i < body.messages.length; i++) {
    const message = body.messages[i]!
    // The id of an earlier spoken answer is audio input too.
    if (message.audio != null) return `messages[${i}].audio`
    if (!Array.isArray(message.content)) continue
    const part = message.content.findIndex(({ type }) => type === 'input_audio')
    if (part >= 0) return `messages[${i}].content[${part}]`
  }
  return null
}
