/** The peculiarities of OpenAI-compatible providers (cases.ts) through the whole gateway, in every chunk mode. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Chunk } from '#contract'
import { type Behaviour, type FakeProvider, startFakeProvider, whole } from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { seeded } from '../helpers/seeded.ts'
import { parseSse, textOf } from '../helpers/sse.ts'
import { type ClientView, QUIRKS, type Quirk } from './cases.ts'
import { CHUNK_MODES, type ChunkMode } from './corpus.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
console.log(`pieces of random length: SEED=${seed}`)

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: whole() })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    // Cached input costs a tenth, so that it shows in the charge.
    model: { price: { per: '1M tokens', input: '$1', cached_input: '$0.50', output: '$2' } },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

describe.each(QUIRKS)('$title', quirk => {
  test.each(CHUNK_MODES)('in pieces: %s', async mode => {
    provider.script(sending(quirk, mode))
    const answer = await gateway.chat(quirk.ask)
    const text = await textOf(answer)
    const { has = [], lacks = [], nano, ...seen } = quirk.sees
    expect(answer.headers.get('content-type')?.startsWith('text/event-stream') ? streamed(text) : read(text)).toEqual(
      seen,
    )
    for (const part of has) expect(text).toContain(part)
    for (const part of lacks) expect(text).not.toContain(part)
    expect(text).not.toContain('upstream-model')
    const receipt = gateway.receipt(answer)
    expect(receipt?.outcome).toBe(seen.error === undefined ? 'answered' : 'failed')
    if (nano === 'counted') expect(receipt?.source).toBe('estimated')
    else expect(receipt).toMatchObject({ charged: nano, source: nano === 0n ? 'released' : 'reported' })
  })
})

/** A provider that sends the quirk's bytes, cut by the mode. */
function sending({ sends, ask, status = 200, type }: Quirk, mode: ChunkMode): Behaviour {
  const usual = ask?.['stream'] === true ? 'text/event-stream' : 'application/json'
  return {
    name: `quirk in pieces: ${mode}`,
    async run(call) {
      call.head(status, { 'content-type': type ?? usual })
      for (const piece of piecesOf(Buffer.from(sends), mode)) if (!(await call.write(piece))) return
      await call.end()
    },
  }
}

function piecesOf(bytes: Buffer, mode: ChunkMode): Buffer[] {
  if (mode === 'whole') return [bytes]
  if (mode === 'byte') return Array.from(bytes, byte => Buffer.of(byte))
  if (mode === 'event')
    return bytes
      .toString('utf8')
      .split(/(?<=\n\n)/)
      .map(text => Buffer.from(text))
  const random = seeded(seed)
  const pieces: Buffer[] = []
  for (let at = 0, size = 0; at < bytes.length; at += size) {
    size = 1 + Math.floor(random() * 40)
    pieces.push(bytes.subarray(at, at + size))
  }
  return pieces
}

type View = Omit<ClientView, 'nano' | 'has' | 'lacks'>

/** A stream as a client joins it: an empty id does not replace an earlier one. */
function streamed(text: string): View {
  const { events, done, rest } = parseSse(text)
  expect(rest).toBe('')
  const chunks = events.map(({ data }) => JSON.parse(data) as Chunk & { error?: { code: string } })
  const error = chunks.at(-1)?.error?.code
  expect(done).toBe(error === undefined)
  let content: string | null = null
  let reasoning = ''
  let finish: string | undefined
  const calls: { id: string; name: string; arguments: string }[] = []
  for (const { delta, finish_reason } of chunks.flatMap(({ choices }) => choices ?? [])) {
    if (delta.content) content = (content ?? '') + delta.content
    reasoning += delta.reasoning_content ?? ''
    finish = finish_reason || finish
    for (const { index, id, function: called } of delta.tool_calls ?? []) {
      const call = (calls[index ?? 0] ??= { id: '', name: '', arguments: '' })
      call.id ||= id ?? ''
      call.name ||= called?.name ?? ''
      call.arguments += called?.arguments ?? ''
    }
  }
  return view({ content, reasoning, calls, finish, error })
}

function read(text: string): View {
  const body = JSON.parse(text)
  const [choice] = body.choices ?? []
  const calls = (choice?.message.tool_calls ?? []).map(
    ({ id, function: called }: { id: string; function: { name: string; arguments: string } }) => ({ id, ...called }),
  )
  const { content = null, reasoning_content: reasoning = '' } = choice?.message ?? {}
  return view({ content, reasoning, calls, finish: choice?.finish_reason, error: body.error?.code })
}

/** Without missing values. */
function view(all: {
  content: string | null
  reasoning: string
  calls: object[]
  finish?: string | undefined
  error?: string | undefined
}): View {
  const { content, reasoning, calls, finish, error } = all
  return {
    content,
    ...(reasoning ? { reasoning } : {}),
    ...(calls.length > 0 ? { calls } : {}),
    ...(finish ? { finish } : {}),
    ...(error ? { error } : {}),
  } as View
}
