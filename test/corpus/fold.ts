/** Joins the chunks of a stream as the official libraries do. */
import type { ChatCompletion, Chunk, Delta, ToolCallDelta } from '#contract'

/** Supports one choice. `usage` is that of the chunk without choices. */
export function fold(chunks: readonly Chunk[]): ChatCompletion {
  const message: Delta = { refusal: null }
  let finish_reason: string | null = null
  let usage: Chunk['usage'] = null
  for (const chunk of chunks) {
    usage = chunk.usage ?? usage
    for (const { delta, finish_reason: finish } of chunk.choices) {
      finish_reason = finish ?? finish_reason
      add(message, delta)
    }
  }
  const { id, created, model } = chunks[0]!
  // A stream cannot distinguish an empty text from none.
  const choice = { index: 0, message: { ...message, content: message.content || null }, logprobs: null, finish_reason }
  return { id, object: 'chat.completion', created, model, choices: [choice], ...(usage ? { usage } : {}) }
}

function add(message: Delta, { tool_calls, ...delta }: Delta): void {
  for (const [name, value] of Object.entries(delta)) {
    const known = message[name]
    if (typeof known === 'string' && typeof value === 'string' && name !== 'role') message[name] = known + value
    else if (Array.isArray(known) && Array.isArray(value)) message[name] = [...known, ...value]
    else if (value !== null || known === undefined) message[name] = value
  }
  for (const { index, ...call } of tool_calls ?? []) {
    message.tool_calls ??= []
    const known = message.tool_calls[index!]
    if (known) known.function = longer(known.function, call.function)
    else message.tool_calls[index!] = call
  }
}

type FunctionDelta = NonNullable<ToolCallDelta['function']>

function longer(known: FunctionDelta | undefined, more: FunctionDelta | undefined): FunctionDelta {
  return { ...known, arguments: `${known?.arguments ?? ''}${more?.arguments ?? ''}` }
}
