/** Answers of test steps that need no provider. */
import { type ChatCompletion, definePlugin } from '#contract'

/** An answer with `content`. Each call makes a new one, because the sender may change it. */
export function ownAnswer(content: string): ChatCompletion {
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
  }
}

/** A plugin that answers each request with "Hello". */
export const mock = (name: string) =>
  definePlugin({
    name,
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => ctx => ctx.exchange.answer(ownAnswer('Hello')),
  })
