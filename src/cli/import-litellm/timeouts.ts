/** LiteLLM's two timeouts as the gateway's deadlines: `timeout` is for the whole, `stream_timeout` until the first piece. */
import { scaled } from '../../catalog/decimal.ts'
import type { Fields, TextValue } from './read.ts'
import type { Remarks } from './remarks.ts'

interface Timeout {
  readonly ms: number
  /** Where it was said. */
  readonly at: TextValue
}

export interface Timeouts {
  readonly total?: Timeout
  readonly first_byte?: Timeout
}

/** What the gateway has where a provider says nothing. */
const STANDARD_MS = { total: 15 * 60_000, first_byte: 120_000 }

/** What these settings say, in seconds there. @param whole the name of the one for the whole exchange */
export function timeoutsOf(fields: Fields, remarks: Remarks, whole = 'timeout'): Timeouts {
  const timeouts: { total?: Timeout; first_byte?: Timeout } = {}
  for (const [key, name] of [
    [whole, 'total'],
    ['stream_timeout', 'first_byte'],
  ] as const) {
    const at = fields.text(key)
    if (at === null) continue
    const ms = scaled(at.text, 3)
    if (ms === null || ms.value < 1n || ms.value > 86_400_000n) {
      remarks.wrongNumber(at, 'a timeout is from 1 ms to 24 h')
    } else timeouts[name] = { ms: Number(ms.value), at }
  }
  return timeouts
}

/** As a provider has them. There each counts from one piece to the next, here from the start: what that changes is said. */
export function timeoutsYaml({ total, first_byte: first }: Timeouts, remarks: Remarks): Record<string, string> {
  // An answer that is not streamed begins when it is ready, so the first byte may take as long as the whole.
  const firstMs = first?.ms ?? (total && total.ms > STANDARD_MS.first_byte ? total.ms : null)
  const raised = first !== undefined && first.ms > (total?.ms ?? STANDARD_MS.total)
  const totalMs = raised ? first.ms : (total?.ms ?? null)
  if (total)
    remarks.add('changed', total.at, 'timeout ends an exchange, even while a stream goes on', 'raise timeouts.total')
  if (raised)
    remarks.add(
      'changed',
      first.at,
      'stream_timeout is longer than a whole exchange may take: timeouts.total is as long',
    )
  else if (first)
    remarks.add('changed', first.at, 'stream_timeout counts for whole answers too', 'raise timeouts.first_byte')
  return {
    ...(totalMs === null ? {} : { total: span(totalMs) }),
    ...(firstMs === null ? {} : { first_byte: span(firstMs) }),
  }
}

function span(ms: number): string {
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`
}
