/** The paths of models that are not for chat, by LiteLLM's mode. */
export const RAW_PATHS = {
  embedding: '/v1/embeddings',
  audio_transcription: '/v1/audio/transcriptions',
  audio_speech: '/v1/audio/speech',
  image_generation: '/v1/images/generations',
  moderation: '/v1/moderations',
  rerank: '/v1/rerank',
} as const

/** A mode with a raw route. */
export type RawUse = keyof typeof RAW_PATHS
