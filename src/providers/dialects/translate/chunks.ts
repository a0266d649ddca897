/** Converts a whole answer to the chunks of a stream. */
import type { ChatCompletion, Chunk, Delta } from '#contract'

/** The chunks of a completion: role and content, finish, and usage if the client requested it. */
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
    // A stream always has a finish reason, even if the answer had none.
    chunks.push(chunk([{ index, delta: {}, finish_reason: finish_reason || 'stop' }]))
  }
  if (includeUsage && usage) chunks.push({ ...chunk([]), usage })
  return chunks
}

/** Adds the index that tool calls have in a stream. */
function indexedCalls({ tool_calls }: Delta): Pick<Delta, 'tool_calls'> {
  return tool_calls ? { tool_calls: tool_calls.map((call, index) => ({ ...call, index })) } : {}
}
