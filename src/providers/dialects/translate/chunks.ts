/** A whole answer as the chunks of a stream. */
import type { ChatCompletion, Chunk, Delta } from '#contract'

/** The chunks that fold to the completion: role, content, finish, and usage when the client asked for it. */
export function chunksOf(completion: ChatCompletion, includeUsage: boolean): Chunk[] {
  const { choices, usage, ...head } = completion
  const chunk = (choice: Chunk['choices']): Chunk => ({
    ...head,
    object: 'chat.completion.chunk',
    choices: choice,
    ...(includeUsage ? { usage: null } : {}),
  })
  const chunks: Chunk[] = []
  for (const { index, message, finish_reason } of choices) {
    chunks.push(chunk([{ index, delta: { ...message, ...indexedCalls(message) }, finish_reason: null }]))
    // A stream says how it ended, also of an answer that did not.
    chunks.push(chunk([{ index, delta: {}, finish_reason: finish_reason || 'stop' }]))
  }
  if (includeUsage && usage) chunks.push({ ...chunk([]), usage })
  return chunks
}

/** In a stream every tool call carries its place. */
function indexedCalls({ tool_calls }: Delta): Pick<Delta, 'tool_calls'> {
  return tool_calls ? { tool_calls: tool_calls.map((call, index) => ({ ...call, index })) } : {}
}
