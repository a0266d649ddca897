/** Converts LiteLLM's timeouts: `timeout` is for the whole exchange, `stream_timeout` until the first chunk. */
import { scaled } from '../../catalog/decimal.ts'
import type { Fields, TextValue } from './read.ts'
import type { Remarks } from './remarks.ts'

interface Timeout {
  readonly ms: number
  /** Its place in the file. */
  readonly at: TextValue
}

export interface Timeouts {
  readonly total?: Timeout
  readonly first_byte?: Timeout
}

/** The gateway's defaults. */
const STANDARD_MS = { total: 15 * 60_000, first_byte: 120_000 }

/** Reads timeouts, which LiteLLM has in seconds. @param whole the name of the timeout for the whole exchange */
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
      remarks.wrongNumber(at, 'a timeout must be from 1 ms to 24 h')
    } else timeouts[name] = { ms: Number(ms.value), at }
  }
  return timeouts
}

/** The timeouts of a provider. LiteLLM's count between chunks, ours from the start, so changes get a remark. */
export function timeoutsYaml({ total, first_byte: first }: Timeouts, remarks: Remarks): Record<string, string> {
  // A whole answer begins when it is ready, so its first byte may take the whole time.
  const firstMs = first?.ms ?? (total && total.ms > STANDARD_MS.first_byte ? total.ms : null)
  const raised = first !== undefined && first.ms > (total?.ms ?? STANDARD_MS.total)
  const totalMs = raised ? first.ms : (total?.ms ?? null)
  if (total) remarks.add('changed', total.at, 'timeout ends an exchange, even during a stream', 'raise timeouts.total')
  if (raised)
    remarks.add(
      'changed',
      first.at,
      'stream_timeout is longer than the limit of a whole exchange: timeouts.total was raised',
    )
  else if (first)
    remarks.add('changed', first.at, 'stream_timeout applies to whole answers too', 'raise timeouts.first_byte')
  return {
    ...(totalMs === null ? {} : { total: span(totalMs) }),
    ...(firstMs === null ? {} : { first_byte: span(firstMs) }),
  }
}

function span(ms: number): string {
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`
}
