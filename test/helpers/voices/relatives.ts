/** The relatives of OpenAI's format that are dialects of their own, as their recorded answers are. */
import { openAiVoice } from './openai.ts'
import type { Voice } from './voice.ts'

/** Mistral has no envelope around its errors. */
const bare = (status: number, message: string) => ({
  object: 'error',
  message,
  type: status === 429 ? 'rate_limited' : 'invalid_request',
  param: null,
  code: '1300',
})
/** Azure and Perplexity give the status once more as the code, in text and as a number. */
const coded = (code: (status: number) => string | number) => (status: number, message: string) => ({
  error: { code: code(status), message, type: status === 404 ? 'DeploymentNotFound' : undefined },
})

export const RELATIVES: readonly Voice[] = [
  openAiVoice('azure', {
    before: 'data: {"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[]}\n\n',
    error: coded(String),
  }),
  openAiVoice('mistral', { usageIn: 'finish', error: bare }),
  openAiVoice('deepseek', { usageIn: 'finish', before: ': keep-alive\n\n' }),
  openAiVoice('groq', { usageIn: 'groq' }),
  openAiVoice('perplexity', { usageIn: 'each', done: false, error: coded(Number) }),
  openAiVoice('together', { usageIn: 'finish', finish: 'eos' }),
  openAiVoice('zai', { usageIn: 'finish' }),
]
