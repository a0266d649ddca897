/**
 * The cost of the dialects alone, without a network: encoding a request, decoding an answer, and decoding and writing a chunk.
 * Chunks are written as the gateway writes them. Costs are CPU time of this thread. Dialects take turns, so that other load affects
 * all of them.
 */
import type { AnswerView, Chat, ChatRequest, Dialect, Target } from '#contract'
import { createDialect, type DialectName } from '../../src/providers/dialects/index.ts'
import { NATIVES, type Native } from './native.ts'

/** Microseconds: medians of the rounds. */
export interface Costs {
  /** The cost of a chunk, if the stream arrives one event at a time, as most streams do. */
  readonly chunk: number
  /** The cost of a request and its whole answer of 1 kB. */
  readonly request: number
}

const STREAM_PIECES = 400
const STREAMS = 100
const REQUESTS = 10_000
const WARM_ROUNDS = 1

const view: AnswerView = { model: 'bench', includeUsage: true, exchange: 'exch_1', createdAt: 1_795_200_000 }

export function measureCosts(names: readonly string[], rounds: number): Map<string, Costs> {
  const dialects = new Map(names.map(name => [name, createDialect(name as DialectName, () => 0).dialect]))
  const figures = new Map(names.map(name => [name, { chunk: [] as number[], request: [] as number[] }]))
  for (let round = -WARM_ROUNDS; round < rounds; round++) {
    for (const [name, dialect] of dialects) {
      const native = NATIVES[name]!
      const chunk = chunkCost(dialect, native)
      const request = requestCost(dialect, native)
      if (round < 0) continue
      figures.get(name)!.chunk.push(chunk)
      figures.get(name)!.request.push(request)
    }
  }
  const middle = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!
  return new Map(
    [...figures].map(([name, { chunk, request }]) => [name, { chunk: middle(chunk), request: middle(request) }]),
  )
}

function chunkCost(dialect: Dialect, { begin, piece, end }: Native): number {
  const last = end(STREAM_PIECES)
  let bytes = 0
  const spent = timed(() => {
    for (let stream = 0; stream < STREAMS; stream++) {
      const decoder = dialect.decodeStream(view)
      bytes += written(decoder.push(begin))
      for (let index = 0; index < STREAM_PIECES; index++) bytes += written(decoder.push(piece))
      bytes += written(decoder.push(last)) + written(decoder.end())
    }
  })
  if (bytes < STREAMS * STREAM_PIECES * 100) throw new Error(`${dialect.name}: the streams have ${bytes} bytes only`)
  return spent / (STREAMS * STREAM_PIECES)
}

function written(items: ReturnType<ReturnType<Dialect['decodeStream']>['push']>): number {
  let bytes = 0
  for (const item of items) {
    if (item.kind === 'chunk') bytes += (item.raw ?? Buffer.from(JSON.stringify(item.chunk))).length
    else if (item.kind === 'failure') throw new Error(item.failure.detail)
  }
  return bytes
}

function requestCost(dialect: Dialect, { model, whole }: Native): number {
  const target = { id: `bench/${model}`, provider: 'bench', model, capField: 'max_tokens' } as Target
  const chat = chatOf()
  let bytes = 0
  const spent = timed(() => {
    for (let index = 0; index < REQUESTS; index++) {
      bytes += dialect.encodeRequest(chat, target).body.length
      const answer = dialect.decodeAnswer(whole, view)
      if ('failure' in answer) throw new Error(`${dialect.name}: ${answer.failure.detail}`)
      bytes += (answer.raw ?? Buffer.from(JSON.stringify(answer.completion))).length
    }
  })
  if (bytes < REQUESTS * 1000) throw new Error(`${dialect.name}: requests and answers have ${bytes} bytes only`)
  return spent / REQUESTS
}

/** A conversation with instructions, two tools and a tool result: about 1 kB. */
function chatOf(): Chat {
  const tool = (name: string) => ({
    type: 'function',
    function: {
      name,
      description: `Looks up the ${name}.`,
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  })
  const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Bonn"}' } }
  const body: ChatRequest = {
    model: 'bench',
    max_tokens: 400,
    temperature: 0.7,
    messages: [
      { role: 'system', content: 'You answer in one short sentence.' },
      { role: 'user', content: 'And why, or not? '.repeat(20) },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: '{"sky":"clear"}' },
      { role: 'user', content: 'Thanks. And tomorrow?' },
    ],
    tools: [tool('weather'), tool('time')],
  }
  const bytes = Buffer.from(JSON.stringify(body))
  return { body, bytes, stream: false, includeUsage: false, choices: 1, requestedCap: 400, cap: 400 }
}

/** Returns CPU microseconds of this thread. */
function timed(work: () => void): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return user + system
}
