/** The official SDK as a client of the matrix. */
import OpenAI from 'openai'
import { type ChatClient, fetchWire } from './plain-client.ts'

/** Raises an `APIError`, like the SDK, for every incomplete answer. */
export const sdkClient: ChatClient = async (gateway, model, mode, onWire) => {
  const client = new OpenAI({
    apiKey: gateway.key,
    baseURL: `${gateway.url}/v1`,
    maxRetries: 0,
    logLevel: 'off',
    fetch: (url, init) => fetchWire(String(url), init ?? {}, onWire),
  })
  const request = { model, messages: [{ role: 'user' as const, content: 'Hello' }] }
  try {
    if (mode === 'whole') {
      const { choices } = await client.chat.completions.create(request)
      return { content: choices[0]?.message.content ?? '', finish: choices[0]?.finish_reason ?? null }
    }
    let content = ''
    let finish: string | null = null
    for await (const { choices } of await client.chat.completions.create({ ...request, stream: true })) {
      content += choices[0]?.delta.content ?? ''
      finish = choices[0]?.finish_reason ?? finish
    }
    return { content, finish }
  } catch (raised) {
    return raised instanceof OpenAI.APIError
      ? { raised }
      : { raised: new Error('not an error of the SDK', { cause: raised }) }
  }
}
