/** What the tests of several dialects do with one: ask it, and see everything that comes of a body. */
import type { ChatRequest, DecodedAnswer, Dialect, StreamItem, UpstreamFailure } from '#contract'
import { chatOf, target, view } from './anthropic/helpers.ts'

type Json = Record<string, unknown>

/** @param usual the model that is asked where a test names none */
export function workWith(dialect: Dialect, usual: string) {
  /** The request for a body, its JSON parsed. */
  function encoded(fields: Partial<ChatRequest>, model = usual, cap = 4000) {
    const { body, ...request } = dialect.encodeRequest(chatOf(fields, cap), target(model))
    return { ...request, body: JSON.parse(body.toString()) as Json }
  }

  function decoded(answer: unknown): DecodedAnswer | { readonly failure: UpstreamFailure } {
    const text = typeof answer === 'string' ? answer : JSON.stringify(answer)
    return dialect.decodeAnswer(Buffer.from(text), view())
  }

  /** Everything that comes of a body, in pieces of these sizes, over and over. */
  function itemsOf(body: string, includeUsage = false, sizes: readonly number[] = [body.length * 4]): StreamItem[] {
    const bytes = Buffer.from(body)
    const decoder = dialect.decodeStream(view(includeUsage))
    const items: StreamItem[] = []
    for (let at = 0, turn = 0; at < bytes.length; turn++) {
      const size = sizes[turn % sizes.length]!
      items.push(...decoder.push(bytes.subarray(at, at + size)))
      at += size
    }
    return [...items, ...decoder.end()]
  }

  return { encoded, decoded, itemsOf }
}
