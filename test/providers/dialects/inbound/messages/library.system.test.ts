/** The official library reads errors and streams of the Messages API. */
import Anthropic from '@anthropic-ai/sdk'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ERRORS, type ErrorCode, refuse } from '#contract'
import { messagesInbound } from '../../../../../src/providers/dialects/inbound/messages/index.ts'
import { readCases } from '../../../../helpers/cases.ts'
import { countsOf } from '../../../../helpers/counts.ts'
import { FOLDER, streamOf } from '../cases.ts'
import { anyAnswer, anyShuffledAnswer } from './chunks.ts'
import { answer, completionOf, eventsOf, folded, HI, streamed, VIEW } from './support.ts'

const counts = countsOf('corpus')
const ASKED = { model: 'm', max_tokens: 1, messages: HI as Anthropic.MessageParam[] }

/** The library; every request gets this answer. */
const libraryWith = (respond: () => Response): Anthropic =>
  new Anthropic({ apiKey: 'a', logLevel: 'off', maxRetries: 0, fetch: async () => respond() })

const streaming = (text: string): Anthropic =>
  libraryWith(() => new Response(text, { headers: { 'content-type': 'text/event-stream' } }))

async function foldedByLibrary(text: string) {
  // The library adds `parsed_output`.
  const { parsed_output: _parsed, ...message } = await streaming(text).messages.stream(ASKED).finalMessage()
  return message
}

describe('errors', () => {
  const CLASSES: Readonly<Record<number, unknown>> = {
    400: Anthropic.BadRequestError,
    401: Anthropic.AuthenticationError,
    403: Anthropic.PermissionDeniedError,
    404: Anthropic.NotFoundError,
    409: Anthropic.ConflictError,
    429: Anthropic.RateLimitError,
  }

  test.each(Object.keys(ERRORS) as ErrorCode[])('%s', async code => {
    const body = messagesInbound.encodeError(refuse(code, { param: 'a' }), VIEW)
    const { status, message } = ERRORS[code]
    const headers = { 'content-type': 'application/json', 'request-id': VIEW.exchange }
    const client = libraryWith(() => new Response(body, { status, headers }))
    const error = await client.messages.create(ASKED).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(
      CLASSES[status] ?? (status >= 500 ? Anthropic.InternalServerError : Anthropic.APIError),
    )
    expect(error).toMatchObject({
      status,
      type: JSON.parse(body).error.type,
      apiMessage: message,
      errorCode: code,
      requestID: VIEW.exchange,
      error: JSON.parse(body),
    })
  })
})

describe('streams', () => {
  const cases = readCases(`${FOLDER}/messages`, 'stream.json')

  test.each(cases.filter(given => !given['fails']))('$name', async given => {
    const text = streamOf(given)
    expect(await foldedByLibrary(text)).toEqual(folded(text))
  })

  test.each(cases.filter(given => given['fails']))('$name', async given => {
    const text = streamOf(given)
    const events = eventsOf(text)
    const error = events.pop() as { readonly error: { readonly type: string; readonly code: string } }
    const raised = { type: error.error.type, errorCode: error.error.code, error }
    const seen: unknown[] = []
    const reading = (async () => {
      for await (const event of await streaming(text).messages.create({ ...ASKED, stream: true })) seen.push(event)
    })()
    await expect(reading).rejects.toBeInstanceOf(Anthropic.APIError)
    await expect(reading).rejects.toMatchObject(raised)
    expect(seen).toEqual(events)
    await expect(foldedByLibrary(text)).rejects.toMatchObject(raised)
  })

  test('generated ones add up to the whole answer, however they are cut', async () => {
    await fc.assert(
      fc.asyncProperty(anyAnswer, async chunks => {
        expect(await foldedByLibrary(streamed(chunks))).toEqual(answer(completionOf(chunks)))
      }),
      { numRuns: counts(300, 10_000) },
    )
  })

  test('generated ones in any order add up as in the other tests', async () => {
    await fc.assert(
      fc.asyncProperty(anyShuffledAnswer, async chunks => {
        const text = streamed(chunks)
        expect(await foldedByLibrary(text)).toEqual(folded(text))
      }),
      { numRuns: counts(300, 10_000) },
    )
  })
})
