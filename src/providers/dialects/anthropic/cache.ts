/** Cache marks of the Messages API: `cache_control` on a block. */
import { type CacheMark, fitMarksIn, type MarkForm, type Prompt } from '../translate/cache.ts'

export type Block = Readonly<Record<string, unknown>>

/** The marks that a host supports: with a TTL, without one, or none. */
export type MarkRule = 'timed' | 'plain' | 'none'

export function marked(block: Block, mark: CacheMark | undefined): Block {
  return mark === undefined ? block : { ...block, cache_control: mark }
}

const FORM: MarkForm<Block> = {
  ttlOf({ cache_control: mark }) {
    return mark === undefined ? undefined : ((mark as CacheMark).ttl ?? '5m')
  },
  shortened: block => ({ ...block, cache_control: { type: 'ephemeral' } }),
  unmarked({ cache_control: _, ...block }) {
    return block
  },
}

/** Keeps as many marks as the host supports; `isCut`: some were removed. */
export function withFitMarks<Message extends { readonly content: readonly Block[] }>(
  prompt: Prompt<Block, Message>,
  rule: MarkRule,
) {
  return fitMarksIn(prompt, FORM, rule === 'timed' ? undefined : CHANGES[rule])
}

const CHANGES = {
  plain: (block: Block) => (FORM.ttlOf(block) === undefined ? block : FORM.shortened(block)),
  none: (block: Block) => FORM.unmarked(block)!,
} as const
