/** Answers that steps of the tests give without a provider. */
import { type ChatCompletion, definePlugin } from '#contract'

/** Says `content`; each call makes a new one, because who sends it may change it. */
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

/** A plugin that answers "Hello", whatever is asked. */
export const mock = (name: string) =>
  definePlugin({
    name,
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => ctx => ctx.exchange.answer(ownAnswer('Hello')),
  })
