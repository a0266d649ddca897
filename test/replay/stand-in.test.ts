import { expect, test } from 'vitest'
import { plainPrice } from '#contract'
import { PARAMETERS } from '../../plugins/schema/chat-completions.ts'
import schema from '../../plugins/schema/index.ts'
import { parseLine } from '../../src/replay/line.ts'
import { standInRequest } from '../../src/replay/stand-in.ts'
import { createSteps } from '../helpers/step.ts'
import { lineWith } from './lines.ts'

const model = {
  id: 'm',
  targets: [],
  price: plainPrice({ input: 1n, cached_input: 1n, cache_write: 1n, output: 1n, request: 0n }),
  context: 8192,
  maxOutput: 4096,
  defaultOutput: 1000,
  reasoning: true,
  inputOverhead: 0,
  allow: [],
  public: true,
  enabled: true,
}
const catalog = { find: (id: string) => (id === 'm' ? model : undefined), list: () => [model] }

const made = (request: object, changes: object = {}) =>
  standInRequest(parseLine(JSON.stringify(lineWith({ ...changes, request }))))

test.each<[string, object, object]>([
  ['the smallest', { bytes: 60 }, {}],
  ['a large one', { bytes: 100_000, messages: 40 }, {}],
  ['one with every parameter', { bytes: 2_000, params: Object.keys(PARAMETERS), n: 3, cap: 77 }, {}],
  ['a stream with tools', { bytes: 900, tools: 3, params: ['model', 'messages', 'tools'] }, { stream: true }],
  ['one with a digest', { bytes: 200, sha256: 'a'.repeat(64), params: ['model', 'messages', 'temperature'] }, {}],
  ['one with an image', { bytes: 500, unsized: true, messages: 2 }, {}],
])('%s becomes a valid request of the same length', async (_name, request, changes) => {
  const { body, bytes } = made(request, changes)
  const steps = createSteps([{ use: schema }], { catalog: catalog as never })
  const { refusal, exchange } = await steps({ bytes })
  expect(refusal).toBe(null)
  expect(JSON.parse(bytes.toString())).toEqual(body)
  expect(bytes.length).toBe((request as { bytes: number }).bytes)
  const asked = parseLine(JSON.stringify(lineWith({ ...changes, request }))).request
  expect(exchange.chat).toMatchObject({ choices: asked.n ?? 1, requestedCap: asked.cap })
  expect(exchange.chat!.body.messages).toHaveLength(asked.messages)
  expect(exchange.chat!.body.tools?.length ?? 0).toBe(asked.tools)
})

test('an unknown parameter is refused again', async () => {
  const { bytes } = made({ params: ['model', 'messages', 'temprature'], bytes: 100 })
  const { refusal } = await createSteps([{ use: schema }], { catalog: catalog as never })({ bytes })
  expect(refusal).toMatchObject({ code: 'unknown_parameter', param: 'temprature' })
})

test('each digest gives its own request, however short', () => {
  const of = (sha256: string, bytes: number) => made({ sha256, bytes }).bytes.toString()
  for (const bytes of [10, 60, 500]) {
    expect(of('a'.repeat(64), bytes)).toBe(of('a'.repeat(64), bytes))
    expect(of('a'.repeat(64), bytes)).not.toBe(of('b'.repeat(64), bytes))
  }
})

test('a body that was not read keeps only its length', () => {
  expect(made({}, { kind: 'raw' })).toEqual({ body: null, bytes: Buffer.alloc(60) })
  const { bytes } = standInRequest(parseLine(JSON.stringify({ ...lineWith(), request: { bytes: 1_000_000 } })))
  expect(bytes.length).toBe(1_000_000)
})
