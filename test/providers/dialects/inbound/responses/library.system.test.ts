/** The official library reads streams in the Responses format up to the final Response or error. */
import OpenAI from 'openai'
import type { ResponseStreamParams } from 'openai/lib/responses/ResponseStream'
import { describe, expect, test } from 'vitest'
import type { Chunk } from '#contract'
import { readCases } from '../../../../helpers/cases.ts'
import { countsOf } from '../../../../helpers/counts.ts'
import { seeded } from '../../../../helpers/seeded.ts'
import { FOLDER, streamOf } from '../cases.ts'
import { draw, spoiler } from './chunks.ts'
import { eventsOf, MINIMAL, type Response as OurResponse, streamed } from './helpers.ts'

const counts = countsOf('corpus')
const SEED = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))

/** The library, answered with this stream. */
function libraryWith(body: string): OpenAI {
  const fetch = async () => new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  return new OpenAI({ apiKey: 'none', baseURL: 'http://127.0.0.1:1/v1', maxRetries: 0, logLevel: 'off', fetch })
}

const folded = (body: string) =>
  libraryWith(body)
    .responses.stream(MINIMAL as ResponseStreamParams)
    .finalResponse()

async function expectSame(body: string, where: string): Promise<void> {
  const whole = eventsOf(body).at(-1)!.response!
  const { output_parsed: _, output_text: text, ...response } = await folded(body)
  expect(response, where).toMatchObject(whole)
  expect(text, where).toBe(textOf(whole))
}

function textOf({ output }: OurResponse): string {
  const parts = output.flatMap(item => (item.type === 'message' ? item.content! : []))
  return parts.map(({ type, text }) => (type === 'output_text' ? text : '')).join('')
}

describe('streams', () => {
  const cases = readCases(`${FOLDER}/responses`, 'stream.json')

  test.each(cases.filter(given => !given['fails']))('$name', given => expectSame(streamOf(given), given.name))

  test.each(cases.filter(given => given['fails']))('$name', async given => {
    const body = streamOf(given)
    const events = eventsOf(body)
    const { message, code, error } = events.at(-2)!
    const raised = { message, code, type: (error as { readonly type: string }).type }
    const seen: unknown[] = []
    const reading = (async () => {
      for await (const event of await libraryWith(body).responses.create({ ...MINIMAL, stream: true })) seen.push(event)
    })()
    await expect(reading).rejects.toBeInstanceOf(OpenAI.APIError)
    await expect(reading).rejects.toMatchObject(raised)
    expect(seen).toEqual(events.slice(0, -2))
    await expect(folded(body)).rejects.toMatchObject(raised)
  })

  test(`random ones, every third in a model's usual order (seed ${SEED})`, async () => {
    const random = seeded(SEED)
    for (let round = 0; round < counts(120, 4_000); round++) {
      const { chunks } = draw(random, round % 3 === 0)
      await expectSame(streamed(chunks), `round ${round}: ${JSON.stringify(chunks)}`)
    }
  })

  test(`random ones of a provider that sends nonsense (seed ${SEED})`, async () => {
    const random = seeded(SEED)
    const spoil = spoiler(random)
    for (let round = 0; round < counts(100, 2_000); round++) {
      const { chunks } = draw(random, false)
      const spoiled = chunks.map(each => ({ ...each, choices: each.choices.map(spoil) as Chunk['choices'] }))
      await expectSame(streamed(spoiled), `round ${round}: ${JSON.stringify(spoiled)}`)
    }
  })
})
