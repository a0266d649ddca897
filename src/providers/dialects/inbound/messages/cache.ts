/** Reads cache marks: `cache_control`, which has the same form in the canonical body. */
import type { CacheMark } from '../../translate/cache.ts'
import { type Fields, fieldsIn, isAbsent, unknownValue } from './fields.ts'

/** To be spread into a part, a tool or a call. */
export interface WithCacheMark {
  readonly cache_control?: CacheMark
}

const TTLS = ['5m', '1h'] as const

/** The mark of a block, of a tool, or (with an empty place) of the whole request. Other members of the mark are ignored. */
export function readMark(block: Fields, place: string): WithCacheMark {
  const { cache_control: value } = block
  if (isAbsent(value)) return {}
  const at = place === '' ? 'cache_control' : `${place}.cache_control`
  const { type, ttl: wanted } = fieldsIn(value, at)
  if (type !== 'ephemeral') throw unknownValue(`${at}.type`, type, ['ephemeral'])
  if (isAbsent(wanted)) return { cache_control: { type } }
  const ttl = TTLS.find(word => word === wanted)
  if (ttl === undefined) throw unknownValue(`${at}.ttl`, wanted, TTLS)
  return { cache_control: { type, ttl } }
}

type Message = Readonly<Record<string, unknown>>

/** Moves a mark of the whole request to its last part, unless that has its own. */
export function withLastMarked(messages: readonly Message[], mark: WithCacheMark): readonly Message[] {
  const last = messages.at(-1)
  if (mark.cache_control === undefined || last === undefined) return messages
  const { content, tool_calls: calls } = last
  if (isList(calls)) return [...messages.slice(0, -1), { ...last, tool_calls: lastMarked(calls, mark) }]
  const parts = typeof content === 'string' && content !== '' ? [{ type: 'text', text: content }] : content
  return isList(parts) ? [...messages.slice(0, -1), { ...last, content: lastMarked(parts, mark) }] : messages
}

function isList(value: unknown): value is readonly object[] {
  return Array.isArray(value) && value.length > 0
}

/** Adds the mark to the last item of a list, unless that has its own. */
export function lastMarked<T extends object>(items: readonly T[], mark: WithCacheMark): (T & WithCacheMark)[] {
  const last = items.length - 1
  return items.map((item, index) =>
    index === last && !Object.hasOwn(item, 'cache_control') ? { ...item, ...mark } : item,
  )
}
