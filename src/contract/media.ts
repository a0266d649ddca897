/** Media in the messages of a request, checked against what a target's model can read. */
import type { ChatRequest } from './chat.ts'
import { type Refusal, refuse } from './errors.ts'
import type { Modality, Reader } from './model.ts'

/** Types of parts, including those of OpenAI-compatible APIs. The dialect checks all other types. */
const OF_PART: ReadonlyMap<unknown, Modality> = new Map(
  Object.entries({
    image_url: 'image',
    input_audio: 'audio',
    audio_url: 'audio',
    video_url: 'video',
    input_video: 'video',
    file: 'file',
    file_url: 'file',
    document_url: 'file',
  } as const),
)

const SHOWN: Readonly<Record<Modality, string>> = {
  text: 'text',
  image: 'an image',
  audio: 'a sound',
  video: 'a video',
  file: 'a file',
}

/** The refusal of a request that the target's model cannot read; null if it can. */
export function refusalOfMedia(
  { messages }: Pick<ChatRequest, 'messages'>,
  { inputModalities: reads }: Reader,
): Refusal | null {
  if (reads === undefined) return null
  for (const [index, { content }] of messages.entries()) {
    if (!Array.isArray(content)) continue
    for (const [at, part] of content.entries()) {
      const modality = OF_PART.get(part?.type)
      if (modality === undefined || reads.includes(modality)) continue
      const place = `messages[${index}].content[${at}]`
      const message = `${place} contains ${SHOWN[modality]}, which this model cannot read. It reads ${reads.join(', ')}.`
      return refuse('unsupported_parameter', { message, param: place })
    }
  }
  return null
}
