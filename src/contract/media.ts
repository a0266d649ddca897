/** Media in the messages of a request, and which of them a target's model reads. */
import type { ChatRequest } from './chat.ts'
import { type Refusal, refuse } from './errors.ts'
import type { Modality, Reader } from './model.ts'

/** Types of parts, those of relatives of OpenAI too. The dialect judges every other type. */
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

/** Why the target's model cannot read the request; null when it can. */
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
      const message = `${place} holds ${SHOWN[modality]}, which this model does not read. It reads ${reads.join(', ')}.`
      return refuse('unsupported_parameter', { message, param: place })
    }
  }
  return null
}
