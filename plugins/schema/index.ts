/**
 * Validates a chat-completions request, finds its model, and gives the facts `chat` and `model`. Later steps rely on its types, its limits
 * and its one output cap. Fields that change the price are absent.
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import {
  type Catalog,
  type Chat,
  type ChatRequest,
  definePlugin,
  fitsPattern,
  type Key,
  MAX_CHOICES,
  type Model,
  mayUse,
  type Plan,
  refusalOfMedia,
  refuse,
  type StepContext,
} from '#contract'
import { chatCompletionsSchema } from './chat-completions.ts'
import { type ChatFields, withoutOpenRouter } from './openrouter.ts'
import { refusePriceFeatures, refuseUnfitSearch } from './price-features.ts'
import { validationRefusal } from './validation-refusal.ts'
import { shortJson } from './words.ts'

interface Settings {
  readonly unknown_fields: 'refuse' | 'pass'
  readonly cap_above_max: 'lower' | 'refuse'
}

/** The output cap, if it is lower than the client asked. */
const CAP_HEADER = 'x-tollgate-max-output-tokens'

export default definePlugin({
  name: 'schema',
  description: 'Validates the chat-completions request and finds its model.',
  dryRun: true,
  critical: true,
  gives: ['chat', 'model'],
  uses: ['catalog', 'plans'],
  settings: {
    type: 'object',
    additionalProperties: false,
    properties: {
      unknown_fields: {
        enum: ['refuse', 'pass'],
        default: 'refuse',
        description:
          'Fields, parts and tools that the format does not have: refuse them, or pass them to the provider.',
      },
      cap_above_max: {
        enum: ['lower', 'refuse'],
        default: 'lower',
        description:
          "What happens to an output cap above the model's max_output: lower it to that and say so in x-tollgate-max-output-tokens, or refuse the request.",
      },
    },
  },
  create({ unknown_fields, cap_above_max }: Settings, { catalog, plans }) {
    const validate = validatorOf(unknown_fields)
    const decide = (ctx: StepContext) => {
      const { exchange } = ctx
      const request = exchange.request()
      if (!validate(request.body)) throw validationRefusal(validate.errors![0]!, request.body)
      const { account, key } = exchange
      const model = findModel(catalog, request.body.model, key, account && plans.of(account))
      const { body, bytes, dropped = [], hidesReasoning = false } = request
      const sent = { body, bytes, dropped, hidesReasoning }
      const asked = unknown_fields === 'pass' ? sent : withoutOpenRouter(sent)
      // Clients of OpenRouter and of other formats ask each model for reasoning. So an effort that the model does not support is dropped.
      const dropsEffort = exchange.route.kind !== 'chat' || body.reasoning_effort == null
      const fitting = dropsEffort
        ? withoutUselessEffort(asked, model, asked === sent ? 'reasoning_effort' : 'reasoning')
        : asked
      refuseUnfit(fitting.body, model, cap_above_max)
      const chat = chatOf(fitting, model)
      if (chat.requestedCap !== null && chat.cap < chat.requestedCap) ctx.set(CAP_HEADER, String(chat.cap))
      exchange.give('chat', chat)
      exchange.give('model', model)
    }
    return { decide }
  },
})

type Validate = ValidateFunction<ChatRequest>
const validators = new Map<Settings['unknown_fields'], Validate>()

/** Compiled at load, at the first use of each setting, so that no request waits for it. */
function validatorOf(unknownFields: Settings['unknown_fields']): Validate {
  let validate = validators.get(unknownFields)
  if (!validate) {
    // Without `allErrors` validation ends at the first error, so a hostile body cannot cause a million errors.
    const ajv = new Ajv2020({
      strict: true,
      allowUnionTypes: true,
      discriminator: true,
      verbose: true,
      messages: false,
      // A test validates the schema itself: compiling its schema would take longer than this one. Optimized code takes three times as
      // long to compile and validates no faster.
      validateSchema: false,
      code: { optimize: false },
    })
    ajv.addKeyword({
      keyword: 'longest',
      type: 'string',
      schemaType: 'number',
      validate: (most: number, text: string) => text.length <= most,
    })
    validate = ajv.compile<ChatRequest>(chatCompletionsSchema(unknownFields))
    validators.set(unknownFields, validate)
  }
  return validate
}

/**
 * The model, if the key and the plan of the caller allow it. All other cases have the same message, which does not reveal which models exist.
 */
function findModel(catalog: Catalog, id: string, key: Key | undefined, plan: Plan | undefined): Model {
  const model = catalog.find(id)
  if (model && mayUse(model, key, plan)) return model
  const wildcard = catalog
    .list()
    .find(each => each.wildcard && fitsPattern(each.wildcard, id) && mayUse(each, key, plan))?.wildcard
  const hint = wildcard ? ` The models of ${shortJson(wildcard)} are those of the price list.` : ''
  const message = `The model ${shortJson(id)} does not exist, or this key may not use it.${hint}`
  throw refuse('model_not_found', { message, param: 'model' })
}

/** Rules for several fields together, or for the model. */
function refuseUnfit(body: ChatRequest, model: Model, capAboveMax: Settings['cap_above_max']): void {
  if (body.stream_options != null && body.stream !== true) {
    const message = "Invalid value for 'stream_options': it is only allowed when 'stream' is true."
    throw refuse('invalid_value', { message, param: 'stream_options' })
  }
  if (body.reasoning_effort != null && !model.reasoning) {
    const message = `The model ${shortJson(model.id)} does not take 'reasoning_effort': it is not a reasoning model. If it is one, set 'reasoning: true' at the model in gateway.yaml.`
    throw refuse('unsupported_parameter', { message, param: 'reasoning_effort' })
  }
  refuseUnfitChoices(body, model)
  refuseUnfitMedia(body, model)
  refuseUnfitCap(body, model, capAboveMax)
  refuseUnfitSearch(body, model)
  refusePriceFeatures(body, model)
}

/** Refuses, before credit is held, a number of choices that no target of the model gives. */
function refuseUnfitChoices({ n }: ChatRequest, { id, maxChoices = MAX_CHOICES }: Model): void {
  if (n == null || n <= maxChoices) return
  const most = maxChoices === 1 ? 'one choice' : `${maxChoices} choices`
  const message = `The model ${shortJson(id)} gives ${most} an answer, but 'n' is ${n}.`
  throw refuse('unsupported_parameter', { message, param: 'n' })
}

/** Refuses, before credit is held, media that no target of the model reads. */
function refuseUnfitMedia(body: ChatRequest, { targets }: Model): void {
  const refusal = targets[0] && refusalOfMedia(body, targets[0])
  if (refusal && targets.every(target => refusalOfMedia(body, target) !== null)) throw refusal
}

function refuseUnfitCap(
  { max_tokens, max_completion_tokens }: ChatRequest,
  model: Model,
  capAboveMax: Settings['cap_above_max'],
): void {
  if (max_tokens != null && max_completion_tokens != null && max_tokens !== max_completion_tokens) {
    const message = `Invalid value for 'max_tokens': ${max_tokens} differs from 'max_completion_tokens', which is ${max_completion_tokens}. Send one of them.`
    throw refuse('invalid_value', { message, param: 'max_tokens' })
  }
  const cap = max_completion_tokens ?? max_tokens
  // A cap that is not a safe integer is a mistake, not a large cap.
  if (cap == null || cap <= model.maxOutput || (capAboveMax === 'lower' && Number.isSafeInteger(cap))) return
  const param = max_completion_tokens == null ? 'max_tokens' : 'max_completion_tokens'
  const message = `Invalid value for '${param}': ${cap} is more than this model's maximum of ${model.maxOutput}.`
  throw refuse('invalid_value', { message, param })
}

/** @param name of the parameter in the client's format */
function withoutUselessEffort(asked: ChatFields, model: Model, name: string): ChatFields {
  if (asked.body.reasoning_effort == null || model.reasoning) return asked
  const { reasoning_effort: _, ...body } = asked.body
  // Without reasoning the model does what `none` asks for, so nothing is reported as dropped.
  const dropped = asked.body.reasoning_effort === 'none' ? asked.dropped : [...asked.dropped, name]
  return { ...asked, body: body as ChatRequest, bytes: Buffer.from(JSON.stringify(body)), dropped }
}

function chatOf({ body, bytes, dropped, hidesReasoning }: ChatFields, model: Model): Chat {
  const requestedCap = body.max_completion_tokens ?? body.max_tokens ?? null
  return {
    body,
    bytes,
    stream: body.stream === true,
    includeUsage: body.stream_options?.include_usage === true,
    choices: body.n ?? 1,
    requestedCap,
    cap: Math.min(requestedCap ?? model.defaultOutput, model.maxOutput),
    ...(dropped.length > 0 ? { dropped } : {}),
    ...(hidesReasoning ? { hidesReasoning } : {}),
    forModel,
  }
}

/** The same request for a model that the client has not chosen. Drops what this model does not support, where that is harmless. */
function forModel({ body, bytes, dropped = [], hidesReasoning = false }: Chat, model: Model): Chat {
  const fitting = withoutUselessEffort({ body, bytes, dropped, hidesReasoning }, model, 'reasoning_effort')
  refuseUnfit(fitting.body, model, 'lower')
  return chatOf(fitting, model)
}
