/** The voices, one for each dialect that a provider can be configured with. */
import { converseVoice, invokeVoice } from './bedrock.ts'
import { cohereVoice } from './cohere.ts'
import { geminiVoice } from './gemini.ts'
import { messagesVoice } from './messages.ts'
import { ollamaVoice } from './ollama.ts'
import { openAiVoice } from './openai.ts'
import { RELATIVES } from './relatives.ts'
import type { Voice } from './voice.ts'

export type { SaidError, Say, StreamPart, UsageText, Voice } from './voice.ts'
export { NO_MODEL, TOO_LONG } from './voice.ts'

/** By the dialect's name. */
export const VOICES: Readonly<Record<string, Voice>> = Object.fromEntries(
  [
    openAiVoice('openai'),
    ...RELATIVES,
    messagesVoice('anthropic'),
    messagesVoice('vertex-anthropic'),
    geminiVoice('gemini'),
    geminiVoice('vertex'),
    converseVoice(),
    invokeVoice(),
    cohereVoice(),
    ollamaVoice(),
  ].map(voice => [voice.dialect, voice]),
)
