/** Texts of clients, providers and plugins cannot control a terminal: in answers, in the log, in the trail. */
import { expect, test } from 'vitest'
import { definePlugin, type ErrorEnvelope, refuse, visible } from '#contract'
import { errorAnswer, errorBody, startFakeProvider } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, startInProcess } from '../helpers/in-process.ts'

/** A right-to-left override, a colour sequence, a line separator, a bell, and invisible characters. */
const EVIL = 'a\u202eb\u009b31mc\u2028d\u0007e\u2066f\u2060g\u061ch'
const SEEN = 'a\\u202eb\\u009b31mc d\\u0007e\\u2066f\\u2060g\\u061ch'

const talker = definePlugin({
  name: 'talker',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => (ctx, next) => {
    ctx.exchange.note(`heard ${ctx.get('x-words')}`)
    if (ctx.get('x-no') !== '') throw refuse('forbidden', { message: `No: ${EVIL}` })
    return next()
  },
})

test('no control character reaches a terminal, whatever its source', async () => {
  await using provider = await startFakeProvider({
    script: errorAnswer(400, errorBody(400, `Bad request: ${EVIL}`)),
  })
  await using gateway = await startInProcess({
    provider: provider.baseUrl,
    plugins: [talker],
    steps: [FIVE_STEPS[0]!, { use: 'talker' }, ...FIVE_STEPS.slice(1)],
  })
  const headers = { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' }
  const say = (more: Record<string, string>) => gateway.chat({}, { headers: { ...headers, ...more } })
  const messageOf = async (answer: Response) => ((await answer.json()) as ErrorEnvelope).error.message

  // A provider's error, and a plugin's note of a client's header, in the receipt.
  const failed = await say({ 'x-words': 'x\u009b31my' })
  expect(await messageOf(failed)).toContain(SEEN)
  const receipt = gateway.receipt(failed)!
  expect(receipt.trail.find(({ step }) => step === 'talker')?.note).toBe('heard x\\u009b31my')
  expect(visible(JSON.stringify(receipt.trail))).toBe(JSON.stringify(receipt.trail))

  // A plugin's refusal.
  expect(await messageOf(await say({ 'x-no': '1' }))).toBe(`No: ${visible(EVIL)}`)

  // A client's texts: in a key, in a value.
  const body = (text: string) => gateway.chat({}, { headers, body: text })
  for (const text of [
    `{"model":"m","messages":[],"${EVIL.replace('\u0007', '')}":1}`,
    JSON.stringify({ model: EVIL, messages: [{ role: 'user', content: 'x' }] }),
    JSON.stringify({ model: 'm', messages: [{ role: EVIL, content: 'x' }] }),
  ]) {
    const message = await messageOf(await body(text))
    expect(message).toContain('\\u202e')
    expect(visible(message)).toBe(message)
  }
})
