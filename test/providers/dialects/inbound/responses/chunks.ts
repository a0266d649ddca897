/** Random streams of canonical chunks, in a model's usual order or in any order, and values with faults. */
import type { Chunk } from '#contract'
import type { Json } from '../../../../helpers/cases.ts'
import { chunk, usageChunk } from './helpers.ts'

interface Call {
  readonly id: string
  readonly name: string
  readonly custom: boolean
  readonly extra: Json
  text: string
}

/** The content of all chunks together, as in a whole answer. */
export interface DrawnAnswer {
  content: string
  reasoning: string
  refusal: string
  readonly details: Json[]
  extra: Json
  readonly calls: Call[]
  finish: string
}

const WORDS = ['a', 'Grüße ', '\n', '"{}"', '🚲', ' x\u2028']

/** @param usualOrder whether the chunks are in the order in which models answer: reasoning, text, calls */
export function draw(
  random: () => number,
  usualOrder: boolean,
): { readonly chunks: Chunk[]; readonly drawn: DrawnAnswer } {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!
  const drawn: DrawnAnswer = {
    content: '',
    reasoning: '',
    refusal: '',
    details: [],
    extra: {},
    calls: [],
    finish: 'stop',
  }
  const chunks: Chunk[] = []
  const speak = {
    think() {
      const text = pick(WORDS)
      drawn.reasoning += text
      chunks.push(chunk({ reasoning_content: text }))
    },
    sign() {
      const detail = { type: 'reasoning.text', text: pick(WORDS), signature: `s${drawn.details.length}` }
      drawn.details.push(detail)
      chunks.push(chunk({ reasoning_details: [detail] }))
    },
    say() {
      const text = pick(WORDS)
      drawn.content += text
      chunks.push(chunk({ content: text }))
    },
    refuse() {
      const text = pick(WORDS)
      drawn.refusal += text
      chunks.push(chunk({ refusal: text }))
    },
    mark() {
      drawn.extra = { google: { thought_signature: `m${chunks.length}` } }
      chunks.push(chunk({ extra_content: drawn.extra }))
    },
    call() {
      const index = drawn.calls.length
      const extra = random() < 0.3 ? { extra_content: { google: { thought_signature: `c${index}` } } } : {}
      const call: Call = { id: `c${index}`, name: pick(['look', 'find']), custom: random() < 0.3, extra, text: '' }
      drawn.calls.push(call)
      chunks.push(chunk({ tool_calls: [{ index, ...wireCall(call) }] }))
      argue(call, index)
    },
    argue() {
      const index = Math.floor(random() * drawn.calls.length)
      const call = drawn.calls[index]
      if (call) argue(call, index)
    },
    idle() {
      chunks.push(chunk({ content: '' }))
    },
  }
  function argue(call: Call, index: number): void {
    const text = pick(WORDS.slice(0, 4))
    call.text += text
    const piece = call.custom ? { custom: { input: text } } : { function: { arguments: text } }
    chunks.push(chunk({ tool_calls: [{ index, ...piece }] }))
  }
  if (usualOrder) {
    for (const name of ['think', 'sign', 'say', 'refuse', 'call', 'argue'] as const) {
      for (let left = Math.floor(random() * 4); left > 0; left--) speak[name]()
    }
  } else {
    for (let left = Math.floor(random() * 25); left > 0; left--)
      speak[pick(Object.keys(speak) as (keyof typeof speak)[])]()
  }
  drawn.finish = pick(['stop', 'tool_calls', 'length', 'content_filter'])
  chunks.push(chunk({}, drawn.finish), usageChunk())
  return { chunks, drawn }
}

export function wireCall({ id, name, custom, extra, text }: Call): Json {
  if (custom) return { id, type: 'custom', custom: { name, input: text }, ...extra }
  return { id, type: 'function', function: { name, arguments: text }, ...extra }
}

export function messageOf({ content, reasoning, refusal, details, extra, calls }: DrawnAnswer): Json {
  return {
    role: 'assistant',
    content: content || null,
    refusal: refusal || null,
    ...(reasoning ? { reasoning_content: reasoning } : {}),
    ...(details.length > 0 ? { reasoning_details: details } : {}),
    ...(Object.keys(extra).length > 0 ? { extra_content: extra } : {}),
    ...(calls.length > 0 ? { tool_calls: calls.map(wireCall) } : {}),
  }
}

/** Returns a function that copies a value, replaces random values and removes random members. */
export function spoiler(random: () => number) {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!
  const spoil = (value: unknown): unknown => {
    if (random() < 0.02)
      return pick([null, 0, -1.5, '', 'x', true, [], {}, [null], [[]], { type: 'x' }, { type: null }])
    if (Array.isArray(value)) return value.map(spoil)
    if (typeof value !== 'object' || value === null) return value
    const members = Object.entries(value).filter(() => random() > 0.02)
    return Object.fromEntries(members.map(([name, inner]) => [name, spoil(inner)]))
  }
  return spoil
}
