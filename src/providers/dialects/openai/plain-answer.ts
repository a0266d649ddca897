/**
 * Reads a whole answer of text only as bytes, in one pass: the lengths to count, and the position of the model's name. All other
 * answers are left to the parser, which alone reports errors.
 */
import { isUtf8 } from 'node:buffer'
import type { AnswerView, ChatCompletion, DecodedAnswer, PlainAnswer, WireUsage } from '#contract'
import { shownUsage } from '../../../common/usage.ts'
import { BRACE_OPEN, BRACKET_OPEN, QUOTE, skipSpace } from '../json-bytes.ts'
import { quoted, splice } from '../json-splice.ts'
import { lastTextBytes, readItems, readMembers, readString, readValue, UNREAD } from '../json-strict.ts'
import { parseWithCalls } from './call-pieces.ts'
import { OPENAI_FINISH_REASONS } from './repair.ts'

const DEPTH = 16

type Choice = PlainAnswer['choices'][number]

/** The members that this file reads. An answer with a member twice is not plain, because some parsers use the first, others the last. */
const TOP = keys('id object created model choices usage service_tier error')
const CHOICE = keys('index finish_reason message')
const MESSAGE = keys(
  'role content refusal reasoning_content ' +
    // These must be null.
    'tool_calls function_call reasoning reasoning_text thinking thought audio images anthropic_content',
)
/** The required members, as bits. */
const [TOP_LEAST, CHOICE_LEAST, MESSAGE_LEAST] = [0b11111, 0b111, 0b11]

const OBJECT = Buffer.from('"chat.completion"')
const ROLE = Buffer.from('"assistant"')
const NULL = Buffer.from('null')
const EMPTY = Buffer.from('[]')
const FINISHES = [...OPENAI_FINISH_REASONS].map(word => ({ word, json: Buffer.from(JSON.stringify(word)) }))

/** State of the current reading, which is synchronous. */
let choices: Choice[] = []
let seen = 0
let textBytes = 0
let finish = ''
let modelStart = 0
let modelEnd = 0
let usageStart = 0
let usageEnd = 0
let tier: string | undefined

/** Reads an answer; null if the parser must read it. */
export function plainAnswer(body: Buffer, view: AnswerView): DecodedAnswer | null {
  const open = skipSpace(body, 0)
  if (body[open] !== BRACE_OPEN) return null
  choices = []
  seen = usageStart = usageEnd = 0
  tier = undefined
  const end = readMembers(body, open, DEPTH, readTop)
  const isWhole = end !== UNREAD && skipSpace(body, end) === body.length
  // A decoder replaces bytes that are not UTF-8, which changes the length.
  if (!isWhole || (seen & TOP_LEAST) !== TOP_LEAST || !isUtf8(body)) return null
  const usage = usageEnd === 0 ? null : (JSON.parse(body.toString('utf8', usageStart, usageEnd)) as WireUsage)
  if (usage !== null && shownUsage(usage) !== usage) return null
  const raw = splice(body, [modelStart, modelEnd, quoted(view.model), -1])
  return new LazyAnswer(raw, { choices, usage, tier })
}

/** An answer that is parsed on first use of `completion`. */
class LazyAnswer implements DecodedAnswer {
  readonly raw: Buffer
  readonly plain: PlainAnswer
  #completion: ChatCompletion | null = null

  constructor(raw: Buffer, plain: PlainAnswer) {
    this.raw = raw
    this.plain = plain
  }

  get completion(): ChatCompletion {
    this.#completion ??= parseWithCalls(this.raw.toString('utf8')) as ChatCompletion
    return this.#completion
  }
}

function keys(names: string): readonly Buffer[] {
  return names.split(' ').map(name => Buffer.from(name))
}

/** The index of a key in the list, or -1. */
function placeOf(known: readonly Buffer[], bytes: Buffer, start: number, end: number): number {
  for (let i = 0; i < known.length; i++) if (isEqual(known[i]!, bytes, start, end)) return i
  return -1
}

/** Records a member. Returns false if the object has it twice. */
function isFirst(place: number): boolean {
  const isNew = (seen & (1 << place)) === 0
  seen |= 1 << place
  return isNew
}

/** Whether the bytes are equal. A native comparison of a few bytes costs more. */
function isEqual(known: Buffer, bytes: Buffer, from: number, end: number): boolean {
  const { length } = known
  if (end - from !== length) return false
  for (let at = 0; at < length; at++) if (known[at] !== bytes[from + at]) return false
  return true
}

function readTop(bytes: Buffer, from: number, depth: number, keyStart: number, keyEnd: number): number {
  const place = placeOf(TOP, bytes, keyStart, keyEnd)
  if (place === -1) return readValue(bytes, from, depth)
  if (!isFirst(place)) return UNREAD
  if (place === 4) return readChoices(bytes, from, depth)
  const end = readValue(bytes, from, depth)
  if (end === UNREAD) return UNREAD
  switch (place) {
    case 0:
      return bytes[from] === QUOTE && lastTextBytes() > 0 ? end : UNREAD
    case 1:
      return isEqual(OBJECT, bytes, from, end) ? end : UNREAD
    case 2:
      // Only a number begins with such a byte.
      return bytes[from]! < 0x3a && bytes[from] !== QUOTE ? end : UNREAD
    case 3:
      modelStart = from
      modelEnd = end
      return end
    case 5:
      if (isEqual(NULL, bytes, from, end)) return end
      usageStart = from
      usageEnd = end
      return bytes[from] === BRACE_OPEN ? end : UNREAD
    case 6:
      if (isEqual(NULL, bytes, from, end)) return end
      if (bytes[from] !== QUOTE || lastTextBytes() !== end - from - 2) return UNREAD
      tier = bytes.toString('utf8', from + 1, end - 1)
      return end
    default:
      return UNREAD
  }
}

function readChoices(bytes: Buffer, from: number, depth: number): number {
  if (bytes[from] !== BRACKET_OPEN) return UNREAD
  const end = readItems(bytes, from, depth, readChoice)
  return choices.length === 0 ? UNREAD : end
}

function readChoice(bytes: Buffer, from: number, depth: number): number {
  if (bytes[from] !== BRACE_OPEN) return UNREAD
  const outer = seen
  seen = textBytes = 0
  const end = readMembers(bytes, from, depth, readOfChoice)
  if ((seen & CHOICE_LEAST) !== CHOICE_LEAST) return UNREAD
  seen = outer
  choices.push({ bytes: textBytes, finish })
  return end
}

function readOfChoice(bytes: Buffer, from: number, depth: number, keyStart: number, keyEnd: number): number {
  const place = placeOf(CHOICE, bytes, keyStart, keyEnd)
  if (place === -1) return readValue(bytes, from, depth)
  if (!isFirst(place)) return UNREAD
  if (place === 2) return readMessage(bytes, from, depth)
  const end = readValue(bytes, from, depth)
  if (end === UNREAD) return UNREAD
  if (place === 0) return isIndex(bytes, from, end) ? end : UNREAD
  for (const { word, json } of FINISHES) {
    if (!isEqual(json, bytes, from, end)) continue
    finish = word
    return end
  }
  return UNREAD
}

/** A non-negative integer in its usual form. */
function isIndex(bytes: Buffer, from: number, end: number): boolean {
  for (let at = from; at < end; at++) if (bytes[at]! < 0x30 || bytes[at]! > 0x39) return false
  return end - from < 16
}

function readMessage(bytes: Buffer, from: number, depth: number): number {
  if (bytes[from] !== BRACE_OPEN) return UNREAD
  const outer = seen
  seen = 0
  const end = readMembers(bytes, from, depth, readOfMessage)
  if ((seen & MESSAGE_LEAST) !== MESSAGE_LEAST) return UNREAD
  seen = outer
  return end
}

function readOfMessage(bytes: Buffer, from: number, depth: number, keyStart: number, keyEnd: number): number {
  const place = placeOf(MESSAGE, bytes, keyStart, keyEnd)
  if (place === -1) return readValue(bytes, from, depth)
  if (!isFirst(place)) return UNREAD
  if (place > 0 && place < 4 && bytes[from] === QUOTE) {
    const end = readString(bytes, from)
    textBytes += lastTextBytes()
    return end
  }
  const end = readValue(bytes, from, depth)
  if (end === UNREAD) return UNREAD
  if (place === 0) return isEqual(ROLE, bytes, from, end) ? end : UNREAD
  return isEqual(NULL, bytes, from, end) || (place === 4 && isEqual(EMPTY, bytes, from, end)) ? end : UNREAD
}
