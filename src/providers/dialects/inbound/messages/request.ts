/** A request of the Messages API as a body of chat completions. */
import { createHash } from 'node:crypto'
import { type InboundView, refuse, takesSearch } from '#contract'
import { isClosed } from '../closed.ts'
import { readMark, withLastMarked } from './cache.ts'
import { decodeConversation, type Origin } from './conversation.ts'
import {
  type Fields,
  fieldsIn,
  isUnsaid,
  listIn,
  missing,
  shown,
  unsupported,
  wrongValue,
  wrongWord,
} from './fields.ts'
import { decodeEffort, showsThoughts } from './thinking.ts'
import { decodeTools, toolNamesOf } from './tools.ts'

export interface DecodedRequest {
  readonly body: Readonly<Record<string, unknown>>
  /** Of each canonical message. */
  readonly origins: readonly Origin[]
  /** Where the client asks for thinking: the place that `reasoning_effort` comes from. */
  readonly effortPlace: string
  /** Whether the client asked for thinking. */
  readonly showsThoughts: boolean
  /** The client's names of tools that the body calls otherwise, by those. */
  readonly toolNames: ReadonlyMap<string, string>
  /** What was left out, with its place. */
  readonly dropped: ReadonlyMap<string, string>
}

/** Carried as they are; the `schema` step checks them under the same names. */
const SAME = ['model', 'temperature', 'top_p', 'top_k'] as const

/** Read below. */
const CARRIED: readonly string[] = [
  ...SAME,
  ...['max_tokens', 'messages', 'system', 'tools', 'tool_choice', 'thinking', 'output_config', 'output_format'],
  ...['stop_sequences', 'stream', 'metadata', 'service_tier', 'cache_control'],
]

/**
 * Without effect here, and the answer is right without them: hints to Anthropic's billing and its own model hosting, and
 * its help against conversations that grow too long (those are refused by the provider then).
 */
export const IGNORED: readonly string[] = [
  ...['context_management', 'compaction', 'speed', 'diagnostics', 'betas', 'fallbacks'],
  ...['fallback_credit_token', 'billing_policy', 'user_profile_id', 'workspace_id'],
]

/** What the answer would be wrong without; nothing is said against them while they are empty. */
const REFUSED: Readonly<Record<string, string>> = {
  container: "'container' names a place where Anthropic runs code, which is not here.",
  mcp_servers:
    "'mcp_servers' are called by Anthropic, not by this gateway. Let the client call them, and send their tools.",
  inference_geo:
    "'inference_geo' says where the model may run. Here the operator does: choose a model that runs there.",
  thread: "'thread' continues a conversation that Anthropic keeps. Send all of its 'messages'.",
}

/** Throws a refusal that names the place in the client's body. */
export function decodeRequestBody(value: unknown, { findModel }: Pick<InboundView, 'findModel'>): DecodedRequest {
  const body = fieldsIn(value, '')
  for (const [name, content] of Object.entries(body)) refuseUnknown(name, content)
  const model = typeof body['model'] === 'string' ? findModel?.(body['model']) : undefined
  // A model that nobody has is the `schema` step's to name.
  const searches = model === undefined || takesSearch(model, 'anthropic')
  const { messages, origins } = decodeConversation(body['system'], body['messages'], searches)
  const { fields: tools, dropped } = decodeTools(body['tools'], body['tool_choice'], searches)
  const config = isUnsaid(body['output_config']) ? {} : fieldsIn(body['output_config'], 'output_config')
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
    effortPlace: isUnsaid(config['effort']) ? 'thinking' : 'output_config.effort',
    showsThoughts: showsThoughts(body['thinking']),
    toolNames: toolNamesOf(body['tools']),
    dropped,
  }
}

function refuseUnknown(name: string, content: unknown): void {
  if (CARRIED.includes(name) || IGNORED.includes(name)) return
  if (Object.hasOwn(REFUSED, name)) {
    if (isUnsaid(content)) return
    throw unsupported(name, REFUSED[name]!)
  }
  const param = /^[\w$-]{1,64}$/.test(name) ? name : `[${shown(name)}]`
  throw refuse('unknown_parameter', { message: `Unknown parameter: '${param}'.`, param })
}

function pick(body: Fields, names: readonly string[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(names.filter(name => body[name] !== undefined).map(name => [name, body[name]]))
}

/**
 * Clients must send a cap, and most send the same one to every model: so one beyond what the model can give is what the
 * model can give. Anything that is no number is left for the `schema` step to name.
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
  if (isUnsaid(sequences)) return {}
  const stop = listIn(sequences, 'stop_sequences')
  if (stop.length > MAX_STOPS) {
    throw wrongValue('stop_sequences', `it has ${stop.length} items, and this gateway takes ${MAX_STOPS} at most`)
  }
  return { stop }
}

/** A schema to keep to. Its name is nobody's business in this format. */
function formatOf(format: unknown, place: string): Readonly<Record<string, unknown>> {
  if (isUnsaid(format)) return {}
  const { type, schema } = fieldsIn(format, place)
  if (type !== 'json_schema') throw wrongWord(`${place}.type`, type, ['json_schema'])
  const json_schema = { name: 'answer', schema: fieldsIn(schema, `${place}.schema`), strict: isClosed(schema) }
  return { response_format: { type, json_schema } }
}

function tierOf(tier: unknown): Readonly<Record<string, unknown>> {
  if (isUnsaid(tier) || tier === 'auto') return {}
  if (tier === 'standard_only') return { service_tier: 'default' }
  throw wrongWord('service_tier', tier, ['auto', 'standard_only'])
}

/** So many characters providers take for a name of the end user. */
const MAX_USER_LENGTH = 64

/** A longer name becomes its SHA-256, which is as good for telling users apart. */
function userOf(metadata: unknown): Readonly<Record<string, unknown>> {
  if (isUnsaid(metadata)) return {}
  const { user_id: id } = fieldsIn(metadata, 'metadata')
  if (typeof id !== 'string') return isUnsaid(id) ? {} : { user: id }
  return { user: id.length <= MAX_USER_LENGTH ? id : createHash('sha256').update(id).digest('hex') }
}
