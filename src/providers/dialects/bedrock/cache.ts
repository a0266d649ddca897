/** Marks of what is worth keeping, as Converse takes them: a block of their own behind what they mark. */
import { type CacheMark, fitMarksIn, type MarkForm, type Prompt } from '../translate/cache.ts'
import type { Traits } from './traits.ts'

/** A block of content, of the system texts or of the tools; one member says what it is: `text`, `toolUse`, `image` ... */
export type Block = Readonly<Record<string, unknown>>

/** The block for a mark, or none. Five minutes are the default and not said. */
export function cachePoint(mark: CacheMark | undefined, { caching, timedCaching }: Traits): Block[] {
  if (mark === undefined || caching === 'none') return []
  return [{ cachePoint: { type: 'default', ...(timedCaching && mark.ttl === '1h' ? { ttl: '1h' } : {}) } }]
}

export const isCachePoint = (block: Block): boolean => 'cachePoint' in block

const FORM: MarkForm<Block> = {
  ttlOf({ cachePoint: point }) {
    return point === undefined ? undefined : ((point as { readonly ttl?: '1h' }).ttl ?? '5m')
  },
  shortened: () => ({ cachePoint: { type: 'default' } }),
  unmarked: () => null,
}

/** The same with as many marks as AWS takes; `isCut` says whether there were more. */
export function withFitMarks<Message extends { readonly content: readonly Block[] }>(prompt: Prompt<Block, Message>) {
  return fitMarksIn(prompt, FORM)
}
