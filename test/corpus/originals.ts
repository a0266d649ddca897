/** Repeats recorded requests to api.openai.com through the gateway and checks the answers against OpenAI's schemas. */
import { parseSse, textOf } from '../helpers/sse.ts'
import type { CorpusCase } from './corpus.ts'
import { type Judge, openSchemas } from './schemas.ts'

/** Schema errors in the answers to the recorded originals among the cases, one per line, and the number of checked values. */
export async function judgeOriginals(
  corpusDir: string,
  cases: readonly CorpusCase[],
  gateway: string,
): Promise<{ readonly judged: number; readonly failures: readonly string[] }> {
  const [strict, observed] = [openSchemas(corpusDir, 'strict'), openSchemas(corpusDir, 'observed')]
  const failures: string[] = []
  let judged = 0
  for (const { id, provider, stream, body } of cases.filter(({ original }) => original)) {
    const answer = await fetch(`${gateway}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, model: `${provider}/${id}`, stream: stream || undefined }),
    })
    const values = valuesOf(answer, await (stream ? textOf(answer) : answer.text()))
    judged += values.length
    // The client gets a recorded error as the gateway's own message.
    const mistakes = values.flatMap(value => (isError(value) ? strict('ErrorResponse', value) : judge(observed, value)))
    if (values.length === 0) mistakes.push('nothing came')
    if (mistakes.length > 0) failures.push(`${id} | ${[...new Set(mistakes)].join(' | ')}`)
  }
  return { judged, failures }
}

function valuesOf(answer: Response, text: string): unknown[] {
  if (!answer.headers.get('content-type')?.startsWith('text/event-stream')) return [JSON.parse(text)]
  return parseSse(text).events.map(({ data }) => JSON.parse(data))
}

function isError(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'error' in value
}

/** A chunk or a whole answer, by its `object`. */
function judge(observed: Judge, value: unknown): string[] {
  const isChunk = (value as { object?: unknown } | null)?.object === 'chat.completion.chunk'
  return observed(isChunk ? 'CreateChatCompletionStreamResponse' : 'CreateChatCompletionResponse', value)
}
