/** Reads `input`: a text, or the items of a conversation. */

import type { Boxes, InboundView } from '#contract'
import { readClientItem } from './client-tools.ts'
import { promptAt, readCompaction } from './compaction.ts'
import type { Call } from './content-parts.ts'
import { type PlacedPart, readParts, readTexts } from './content-parts.ts'
import { Conversation, type ReadInput } from './conversation.ts'
import { earlierItems, keptForm, referencedItem } from './kept.ts'
import { flatName, SEARCH } from './names.ts'
import {
  at,
  type Fields,
  fieldsOf,
  listOf,
  missing,
  notOneOf,
  optionalFieldsOf,
  optionalTextOf,
  textOf,
  unsupported,
} from './read.ts'
import { isKept } from './response.ts'
import { unseal } from './sealed.ts'

export interface ReadItems extends ReadInput {
  /** The request's own items, with references resolved; empty if nothing is kept. */
  readonly items: readonly Fields[]
  /** Whether the answer is a summary of the conversation. */
  readonly compacts: boolean
}

/**
 * @param asked the client's body
 * @param instructions the instructions of the request, or null
 */
export function readInput(asked: Fields, instructions: string | null, view: InboundView): ReadItems {
  const { boxes, kept } = view
  const conversation = new Conversation()
  if (instructions)
    conversation.say('system', [{ part: { type: 'text', text: instructions }, place: 'instructions' }], '')
  for (const { item, place } of earlierItems(asked, kept)) {
    if (item['type'] !== TRIGGER) readItem(item, place, conversation, boxes)
  }
  // The request has precedence over the items of earlier turns.
  if (optionalFieldsOf(asked['reasoning'], 'reasoning')?.['effort'] != null) conversation.setEffort(null)
  const items: Fields[] = []
  let trigger: string | null = null
  const { input } = asked
  if (typeof input === 'string') {
    conversation.say('user', [{ part: { type: 'text', text: input }, place: 'input' }], '')
    items.push({ role: 'user', content: input })
  } else {
    for (const [index, value] of listOf(input, 'input').entries()) {
      const place = `input[${index}]`
      const given = fieldsOf(value, place)
      const isReference = kindOf(given, place) === 'item_reference'
      const item = isReference ? referencedItem(textOf(given['id'], at(place, 'id')), place, kept) : given
      if (item['type'] === TRIGGER) trigger = place
      else readItem(item, place, conversation, boxes)
      items.push(item)
    }
  }
  if (trigger !== null) conversation.say('user', promptAt(trigger), trigger)
  return { ...conversation.end(), items: isKept(asked, view) ? items.map(keptForm) : [], compacts: trigger !== null }
}

const TRIGGER = 'compaction_trigger'

function readItem(item: Fields, place: string, conversation: Conversation, boxes: Boxes | undefined): void {
  const type = kindOf(item, place)
  switch (type) {
    case 'message':
      readMessage(item, place, conversation)
      break
    case 'reasoning':
      readReasoning(item, place, conversation, boxes)
      break
    case 'function_call':
    case 'custom_tool_call':
      conversation.call(readCall(item, type, place), place)
      break
    case 'function_call_output':
    case 'custom_tool_call_output':
      conversation.result(
        textOf(item['call_id'], at(place, 'call_id')),
        readParts(item['output'], at(place, 'output')),
        place,
      )
      break
    case 'additional_tools':
      conversation.tools({ tools: item['tools'], place: at(place, 'tools') })
      break
    case 'tool_search_call':
      conversation.call(readSearch(item, place), place)
      break
    case 'tool_search_output':
      conversation.tools({ tools: item['tools'], place: at(place, 'tools') })
      conversation.result(textOf(item['call_id'], at(place, 'call_id')), [FOUND], place)
      break
    case 'compaction':
    case 'compaction_summary':
      conversation.say('user', readCompaction(item, place, boxes), place)
      break
    case 'configuration_update':
      readUpdate(item, place, conversation)
      break
    case 'image_generation_call':
      readImageCall(item, place, conversation)
      break
    default: {
      const read = readClientItem(item, type, place)
      if (read) {
        if ('call' in read) conversation.call(read.call, place)
        else conversation.result(read.id, read.result, place)
        break
      }
      const param = at(place, 'type')
      const message = `${param} is '${type}': this gateway supports messages, reasoning, and the calls and results of tools that the client runs.`
      throw unsupported(param, message)
    }
  }
}

/** Messages and references may omit their type. */
function kindOf(item: Fields, place: string): string {
  const type = optionalTextOf(item['type'], at(place, 'type'))
  if (type !== null) return type
  if (item['role'] !== undefined) return 'message'
  if (item['id'] !== undefined) return 'item_reference'
  throw missing(at(place, 'type'))
}

const ROLES = ['user', 'assistant', 'system', 'developer']

function readMessage(item: Fields, place: string, conversation: Conversation): void {
  const role = textOf(item['role'], at(place, 'role'))
  const content = at(place, 'content')
  switch (role) {
    case 'assistant':
      conversation.answer(...readAnswer(item['content'], content), place)
      break
    case 'user':
      conversation.say('user', readParts(item['content'], content), place)
      break
    // Both become `system`: many providers have no `developer`, and the others treat both alike.
    case 'system':
    case 'developer':
      conversation.say('system', readTexts(item['content'], content), place)
      break
    default:
      throw notOneOf(at(place, 'role'), role, ROLES)
  }
}

/** The text of the model and its refusal. */
function readAnswer(content: unknown, place: string): [texts: PlacedPart[], refusal: string] {
  if (!Array.isArray(content)) return [readTexts(content, place), '']
  const texts: PlacedPart[] = []
  let refusal = ''
  for (const [index, value] of content.entries()) {
    const where = `${place}[${index}]`
    const part = fieldsOf(value, where)
    if (part['type'] === 'refusal') refusal += textOf(part['refusal'], at(where, 'refusal'))
    else texts.push(...readTexts([part], place).map(({ part }) => ({ part, place: where })))
  }
  return [texts, refusal]
}

function readCall(item: Fields, type: 'function_call' | 'custom_tool_call', place: string): Call {
  const name = flatName({
    name: textOf(item['name'], at(place, 'name')),
    namespace: optionalTextOf(item['namespace'], at(place, 'namespace')),
  })
  const id = textOf(item['call_id'], at(place, 'call_id'))
  if (type === 'custom_tool_call') {
    return { id, type: 'custom', custom: { name, input: textOf(item['input'], at(place, 'input')) } }
  }
  return { id, type: 'function', function: { name, arguments: textOf(item['arguments'], at(place, 'arguments')) } }
}

function readReasoning(item: Fields, place: string, conversation: Conversation, boxes: Boxes | undefined): void {
  const box = optionalTextOf(item['encrypted_content'], at(place, 'encrypted_content'))
  const thought = box === null ? null : unseal(box, at(place, 'encrypted_content'), boxes)
  // A box of another service cannot be opened. Its summary is omitted too.
  if (box !== null && thought === null) return
  conversation.addReasoning({
    text: thought
      ? thought.text
      : textsIn(item['content'], at(place, 'content')) || textsIn(item['summary'], at(place, 'summary')),
    details: thought?.details ?? [],
    extra: thought?.extra ?? null,
    calls: thought?.calls ?? new Map(),
  })
}

function textsIn(parts: unknown, place: string): string {
  if (parts == null) return ''
  return listOf(parts, place)
    .map((part, index) => textOf(fieldsOf(part, `${place}[${index}]`)['text'], `${place}[${index}].text`))
    .join('')
}

/** The client's own search for tools: a function call whose arguments are an object. */
function readSearch(item: Fields, place: string): Call {
  const text = JSON.stringify(fieldsOf(item['arguments'], at(place, 'arguments')))
  const id = textOf(item['call_id'], at(place, 'call_id'))
  return { id, type: 'function', function: { name: SEARCH.name, arguments: text } }
}

const UPDATE = 'configuration_update'

/** Codex repeats settings of the request in the conversation. Only the effort has an effect here. */
function readUpdate(
  { type: _, id: __, status: ___, ...settings }: Fields,
  place: string,
  conversation: Conversation,
): void {
  const { effort, ...others } = optionalFieldsOf(settings['reasoning'], at(place, 'reasoning')) ?? {}
  if (effort != null) conversation.setEffort({ value: effort, place: at(place, 'reasoning.effort') })
  leaveOut({ ...settings, reasoning: null }, UPDATE, place, conversation)
  leaveOut(others, `${UPDATE}.reasoning`, at(place, 'reasoning'), conversation)
}

function leaveOut(settings: Fields, name: string, place: string, conversation: Conversation): void {
  for (const [key, value] of Object.entries(settings)) {
    if (value != null) conversation.leaveOut(`${name}.${key}`, at(place, key))
  }
}

/** The result of a search. The found tools are among the tools from then on. */
const FOUND: PlacedPart = { part: { type: 'text', text: 'What was found is among the tools now.' }, place: '' }

/** An image that the model made before; a failed one has no data. */
function readImageCall(item: Fields, place: string, conversation: Conversation): void {
  const base64 = optionalTextOf(item['result'], at(place, 'result'))
  const format = optionalTextOf(item['output_format'], at(place, 'output_format')) ?? 'png'
  if (base64) conversation.addImage(`data:image/${format};base64,${base64}`, place)
}
