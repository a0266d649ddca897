/** Cache marks of Converse: a separate block after the marked one. */
import { type CacheMark, fitMarksIn, type MarkForm, type Prompt } from '../translate/cache.ts'
import type { Traits } from './traits.ts'

/** A block of content, of the system texts or of the tools. Its only member is its kind: `text`, `toolUse`, `image` ... */
export type Block = Readonly<Record<string, unknown>>

/** The block for a mark, or none. Five minutes are the default and not sent. */
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

/** Keeps as many marks as AWS supports; `isCut`: some were removed. */
export function withFitMarks<Message extends { readonly content: readonly Block[] }>(prompt: Prompt<Block, Message>) {
  return fitMarksIn(prompt, FORM)
}
