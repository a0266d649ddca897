/** Sends a chat request and reads the answer like a strict client: an incomplete answer raises an error. */
import type { FaultMode } from '../helpers/fake-provider.ts'
import type { InProcess } from '../helpers/in-process.ts'
import { chunksOf, parseSse, textOf } from '../helpers/sse.ts'

/** An answer as a client understood it. */
export type ClientResult = { readonly raised: unknown } | { readonly content: string; readonly finish: string | null }

/** The bytes of an exchange, as `onWire` gets them. */
export interface Wire {
  readonly status: number
  readonly headers: Headers
  /** The body as received; `cut`: why the connection broke, or null. */
  readonly text: string
  readonly cut: string | null
  readonly sent: string
}

/** A client: sends "Hello" to the model, reports the bytes, and returns the parsed answer. */
export type ChatClient = (
  gateway: Pick<InProcess, 'url' | 'key'>,
  model: string,
  mode: FaultMode,
  onWire?: (wire: Wire) => void,
) => Promise<ClientResult>

/** Requests the URL, and reports the bytes before the client reads them. */
export async function fetchWire(
  url: string,
  init: RequestInit,
  onWire: (wire: Wire) => void = () => {},
): Promise<Response> {
  const response = await fetch(url, init)
  let cut: string | null = null
  const text = await textOf(response).catch((cause: unknown) => {
    cut = String(cause)
    return ''
  })
  onWire({ status: response.status, headers: response.headers, text, cut, sent: String(init.body) })
  return new Response(text, response)
}

export const plainClient: ChatClient = async (gateway, model, mode, onWire) => {
  const stream = mode === 'stream'
  const response = await fetchWire(
    `${gateway.url}/v1/chat/completions`,
    {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }], ...(stream ? { stream } : {}) }),
    },
    onWire,
  )
  const text = await response.text()
  const requestID = response.headers.get('x-request-id')
  if (response.status !== 200) return { raised: { status: response.status, code: codeIn(text), requestID } }
  if (!stream) {
    const [choice] = JSON.parse(text).choices
    return { content: choice.message.content ?? '', finish: choice.finish_reason }
  }
  const events = parseSse(text)
  const chunks = chunksOf(events)
  const failed = chunks.find(chunk => chunk.error)
  if (failed) return { raised: { status: undefined, code: codeIn(JSON.stringify(failed)) } }
  if (!events.done) return { raised: new Error('the stream has no [DONE]') }
  const choices = chunks.flatMap(chunk => chunk.choices)
  return {
    content: choices.map(choice => choice.delta.content ?? '').join(''),
    finish: choices.findLast(choice => choice.finish_reason)?.finish_reason ?? null,
  }
}

function codeIn(text: string): unknown {
  return JSON.parse(text).error?.code
}
