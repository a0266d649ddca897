/** Converts a request of the Messages API to a body of chat completions. */
import { createHash } from 'node:crypto'
import { type InboundView, refuse, takesSearch } from '#contract'
import { isClosed } from '../closed.ts'
import { readMark, withLastMarked } from './cache.ts'
import { decodeConversation, type Origin } from './conversation.ts'
import {
  type Fields,
  fieldsIn,
  isAbsent,
  listIn,
  missing,
  shown,
  unknownValue,
  unsupported,
  wrongValue,
} from './fields.ts'
import { decodeEffort, showsReasoning } from './reasoning.ts'
import { decodeTools, toolNamesOf } from './tools.ts'

export interface DecodedRequest {
  readonly body: Readonly<Record<string, unknown>>
  /** Origin of each canonical message. */
  readonly origins: readonly Origin[]
  /** The place that `reasoning_effort` comes from. */
  readonly effortPlace: string
  /** Whether the client asked for reasoning. */
  readonly showsReasoning: boolean
  /** The client's names of tools by their names in the body, where they differ. */
  readonly toolNames: ReadonlyMap<string, string>
  /** Dropped parameters, with their places. */
  readonly dropped: ReadonlyMap<string, string>
}

/** Copied unchanged; the `schema` step checks them under the same names. */
const SAME = ['model', 'temperature', 'top_p', 'top_k'] as const

/** Handled below. */
const CARRIED: readonly string[] = [
  ...SAME,
  ...['max_tokens', 'messages', 'system', 'tools', 'tool_choice', 'thinking', 'output_config', 'output_format'],
  ...['stop_sequences', 'stream', 'metadata', 'service_tier', 'cache_control'],
]

/**
 * Fields without effect, which the answer does not depend on. They are hints for Anthropic's billing and hosting, and for shortening
 * long conversations (the provider refuses those then).
 */
export const IGNORED: readonly string[] = [
  ...['context_management', 'compaction', 'speed', 'diagnostics', 'betas', 'fallbacks'],
  ...['fallback_credit_token', 'billing_policy', 'user_profile_id', 'workspace_id'],
]

/** Fields that the answer depends on. Empty values are accepted. */
const REFUSED: Readonly<Record<string, string>> = {
  container: "'container' is where Anthropic runs code, which this gateway does not support.",
  mcp_servers:
    "'mcp_servers' are called by Anthropic, not by this gateway. Let the client call them, and send their tools.",
  inference_geo:
    "'inference_geo' says where the model may run. Here the operator does: choose a model that runs there.",
  thread: "'thread' continues a conversation that Anthropic keeps. Send all of its 'messages'.",
}

/** Throws a refusal with the place in the client's body. */
export function decodeRequestBody(value: unknown, { findModel }: Pick<InboundView, 'findModel'>): DecodedRequest {
  const body = fieldsIn(value, '')
  for (const [name, content] of Object.entries(body)) refuseUnknown(name, content)
  const model = typeof body['model'] === 'string' ? findModel?.(body['model']) : undefined
  // The `schema` step reports an unknown model.
  const searches = model === undefined || takesSearch(model, 'anthropic')
  const { messages, origins } = decodeConversation(body['system'], body['messages'], searches)
  const { fields: tools, dropped } = decodeTools(body['tools'], body['tool_choice'], searches)
  const config = isAbsent(body['output_config']) ? {} : fieldsIn(body['output_config'], 'output_config')
  const effort = decodeEffort(body['thinking'], config)
  return {
    body: {
      ...pick(body, SAME),
      messages: withLastMarked(messages, readMark(body, '')),
      max_tokens: capOf(body['max_tokens'], model?.maxOutput),
      ...streamOf(body['stream']),
      ...stopOf(body['stop_sequences']),
      ...tools,
      ...(effort === null ? {} : { reasoning_effort: effort }),
      ...formatOf(
        config['format'] ?? body['output_format'],
        config['format'] ? 'output_config.format' : 'output_format',
      ),
      ...tierOf(body['service_tier']),
      ...userOf(body['metadata']),
    },
    origins,
    effortPlace: isAbsent(config['effort']) ? 'thinking' : 'output_config.effort',
    showsReasoning: showsReasoning(body['thinking']),
    toolNames: toolNamesOf(body['tools']),
    dropped,
  }
}

function refuseUnknown(name: string, content: unknown): void {
  if (CARRIED.includes(name) || IGNORED.includes(name)) return
  if (Object.hasOwn(REFUSED, name)) {
    if (isAbsent(content)) return
    throw unsupported(name, REFUSED[name]!)
  }
  const param = /^[\w$-]{1,64}$/.test(name) ? name : `[${shown(name)}]`
  throw refuse('unknown_parameter', { message: `Unknown parameter: '${param}'.`, param })
}

function pick(body: Fields, names: readonly string[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(names.filter(name => body[name] !== undefined).map(name => [name, body[name]]))
}

/**
 * Clients must send a cap, and most send the same one to every model. A cap above the model's maximum becomes the maximum. The `schema`
 * step reports a value that is not a number.
 */
function capOf(cap: unknown, most: number | undefined): unknown {
  if (cap === undefined || cap === null) throw missing('max_tokens')
  return Number.isInteger(cap) && most !== undefined ? Math.min(cap as number, most) : cap
}

function streamOf(stream: unknown): Readonly<Record<string, unknown>> {
  if (stream === undefined) return {}
  return stream === true ? { stream, stream_options: { include_usage: true } } : { stream }
}

const MAX_STOPS = 64

function stopOf(sequences: unknown): Readonly<Record<string, unknown>> {
  if (isAbsent(sequences)) return {}
  const stop = listIn(sequences, 'stop_sequences')
  if (stop.length > MAX_STOPS) {
    throw wrongValue('stop_sequences', `it has ${stop.length} items, and the maximum is ${MAX_STOPS}`)
  }
  return { stop }
}

/** A schema for the answer. Schemas of this format have no name. */
function formatOf(format: unknown, place: string): Readonly<Record<string, unknown>> {
  if (isAbsent(format)) return {}
  const { type, schema } = fieldsIn(format, place)
  if (type !== 'json_schema') throw unknownValue(`${place}.type`, type, ['json_schema'])
  const json_schema = { name: 'answer', schema: fieldsIn(schema, `${place}.schema`), strict: isClosed(schema) }
  return { response_format: { type, json_schema } }
}

function tierOf(tier: unknown): Readonly<Record<string, unknown>> {
  if (isAbsent(tier) || tier === 'auto') return {}
  if (tier === 'standard_only') return { service_tier: 'default' }
  throw unknownValue('service_tier', tier, ['auto', 'standard_only'])
}

/** Maximum length of a user id at providers. */
const MAX_USER_LENGTH = 64

/** A longer id is replaced by its SHA-256, which still distinguishes users. */
function userOf(metadata: unknown): Readonly<Record<string, unknown>> {
  if (isAbsent(metadata)) return {}
  const { user_id: id } = fieldsIn(metadata, 'metadata')
  if (typeof id !== 'string') return isAbsent(id) ? {} : { user: id }
  return { user: id.length <= MAX_USER_LENGTH ? id : createHash('sha256').update(id).digest('hex') }
}
