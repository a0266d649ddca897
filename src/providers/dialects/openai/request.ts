/**
 * Encodes a chat request for OpenAI or a compatible provider. Changes are spliced into the client's own bytes; other members stay as
 * they were sent.
 */
import { anthropicToolIn, type Chat, type ChatRequest, refuse, type Spans, type Target } from '#contract'
import { quoted, scanTopLevel, setMembers } from '../json-splice.ts'
import { refuseNativeBlocks } from '../translate/native.ts'
import { droppedOf, refuseManyStops, toolRefusal } from '../translate/parameters.ts'
import { mayHaveCacheMarks, withoutMarks } from './cache-marks.ts'
import { withoutCustomTools } from './custom-calls.ts'
import { mayHaveExtensions } from './extensions.ts'
import { adaptMessages, wordFor } from './messages.ts'
import type { Quirks, RefusedMembers } from './profile.ts'
import { withReasoning } from './reasoning.ts'
import { withShape } from './shape.ts'
import { plainTools } from './tools.ts'

/** Members of the outermost object as JSON texts; undefined removes one. */
type Changes = Record<string, string | undefined>

const MAX_STOPS = 4

/** The body, and the names of dropped parameters. Throws a refusal if the answer would be wrong. */
export function encodeBody(
  chat: Chat,
  target: Target,
  quirks: Quirks | undefined,
  spans: Spans = [],
): { readonly body: Buffer; readonly dropped: readonly string[] } {
  if (Array.isArray(chat.body.tools)) refuseAnthropicTools(chat.body.tools)
  refuseNativeBlocks(chat.body)
  refuseManyStops(chat.body, MAX_STOPS)
  const changes = ownChanges(chat, target, quirks)
  const unmarked = quirks?.cacheMarks !== 'kept' && mayHaveCacheMarks(chat.bytes) ? withoutMarks(chat.body) : null
  const isPassed = quirks === undefined || (quirks.isPlain === true && !mayDiffer(chat, quirks))
  const dropped = isPassed
    ? NOTHING
    : addQuirks(changes, unmarked === null ? chat.body : { ...chat.body, ...unmarked }, target.model, quirks)
  if (unmarked !== null) addUnmarked(changes, chat.body, unmarked)
  return { body: spliced(chat, changes, spans), dropped }
}

const NOTHING: readonly string[] = []

/** Whether a request may need changes for a provider with few quirks. */
function mayDiffer({ body, bytes }: Chat, { omits, customTools, messages }: Quirks): boolean {
  if (omits !== undefined) for (const name of omits) if (body[name] !== undefined) return true
  if (messages !== undefined && mayHaveExtensions(bytes)) return true
  // From the underscore on, as in extensions.ts.
  if (messages?.files !== undefined && bytes.includes('_data"')) return true
  return customTools !== undefined && body.tools != null && bytes.includes('"custom"')
}

/** Unknown tools are left to the provider to refuse: it may support them by now. */
function refuseAnthropicTools(tools: readonly unknown[]): void {
  for (const [index, tool] of tools.entries()) {
    const native = anthropicToolIn(tool)
    if (native !== null) throw toolRefusal(undefined, native, index)
  }
}

/**
 * The cap is always sent, under the target's name for it: without it the hold would be a guess. Usage is always requested, because the
 * charge is based on it.
 */
function ownChanges(chat: Chat, target: Target, quirks: Quirks | undefined): Changes {
  const capField = target.capField ?? quirks?.capField ?? 'max_completion_tokens'
  const otherField = capField === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
  const changes: Changes = {
    model: quoted(target.model),
    [capField]: String(chat.cap),
    [otherField]: undefined,
  }
  // A value of Gemini.
  if (chat.body['tool_choice'] === 'validated') changes['tool_choice'] = '"auto"'
  if (quirks?.streamOptions === false) changes['stream_options'] = undefined
  else if (chat.stream) changes['stream_options'] = JSON.stringify({ ...chat.body.stream_options, include_usage: true })
  return changes
}

/** Adds the changes for a provider's profile. */
function addQuirks(changes: Changes, original: ChatRequest, model: string, quirks: Quirks): string[] {
  const lost = new Set<string>()
  const body = bodyFor(original, model, quirks, lost)
  const { renamed = {}, words = {}, fits = {}, takes, omits } = quirks
  const carried: string[] = []
  for (const [name, value] of Object.entries(body)) {
    if (Object.hasOwn(changes, name)) {
      carried.push(name)
      continue
    }
    const theirs = wordFor(renamed, name)
    const isOmitted = omits?.has(name) || (takes !== undefined && !takes.has(theirs))
    const adjusted: unknown =
      !isOmitted && value !== null && Object.hasOwn(fits, name) ? fits[name]!(value, () => lost.add(name)) : value
    // A null has no meaning, and some providers refuse it.
    if (isOmitted || adjusted === undefined || (adjusted === null && quirks.isPlain !== true)) {
      changes[name] = undefined
      continue
    }
    carried.push(name)
    const fit = typeof adjusted === 'string' && Object.hasOwn(words, name) ? wordFor(words[name], adjusted) : adjusted
    if (theirs !== name) changes[name] = undefined
    // If the body also has the parameter under the provider's name, that value counts.
    const isNew = fit !== value || value !== original[name]
    if (theirs === name ? isNew : !Object.hasOwn(body, theirs) || isNew) changes[theirs] = JSON.stringify(fit)
  }
  const dropped = new Set([...lost, ...droppedOf(body, carried)])
  const messages = quirks.messages && adaptMessages(body.messages, quirks.messages, model, dropped)
  if (messages) changes['messages'] = JSON.stringify(messages)
  return [...dropped]
}

/** Conversions in which one member depends on another. */
function bodyFor(original: ChatRequest, model: string, quirks: Quirks, lost: Set<string>): ChatRequest {
  for (const refused of quirks.refuses ?? []) refuseIf(original, refused)
  const called = quirks.customTools === 'functions' ? withoutCustomTools(original) : original
  const offered = quirks.tools === undefined ? called : plainTools(called, quirks.tools)
  return withReasoning(withShape(offered, quirks, lost), model, quirks, lost)
}

/** Adds the members whose marks were removed, unless they were rewritten or left out. */
function addUnmarked(changes: Changes, body: ChatRequest, unmarked: Pick<ChatRequest, 'messages' | 'tools'>): void {
  for (const name of ['messages', 'tools'] as const) {
    if (Object.hasOwn(changes, name) || unmarked[name] === undefined || unmarked[name] === body[name]) continue
    changes[name] = JSON.stringify(unmarked[name])
  }
}

function refuseIf(body: ChatRequest, { name, having, above, sentence }: RefusedMembers): void {
  const value = body[name]
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) return
  if (having !== undefined && !(Array.isArray(value) && value.includes(having))) return
  if (above !== undefined && !(typeof value === 'number' && value > above)) return
  throw refuse('unsupported_parameter', { message: sentence, param: name })
}

/**
 * Allocated outside of Node's pool. A request's bytes are kept as long as its answer, and a small part of the pool would keep all 64
 * KiB of it. (2,000 streams with stalled clients: 60 KiB less for each.)
 */
function spliced({ body, bytes }: Pick<Chat, 'body' | 'bytes'>, changes: Readonly<Changes>, spans: Spans): Buffer {
  const found = spans.length > 0 ? spans : scanTopLevel(bytes)
  if (found) return setMembers(bytes, found, changes, Buffer.allocUnsafeSlow)
  return spliced({ body, bytes: Buffer.from(JSON.stringify(body)) }, changes, [])
}
