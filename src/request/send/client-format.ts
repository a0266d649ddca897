/** Delivers an answer in the client's format, as a stream or whole. */
import { isRefusal, type MeteredUsage, refuse } from '#contract'
import { wireUsageOf } from '../../common/usage.ts'
import { StreamAnswer } from '../answer/stream.ts'
import type { Tap, TapError } from '../answer/taps.ts'
import type { WriteWhole } from '../answer/whole.ts'
import { outcomeOfError } from '../finish.ts'
import { reportOf } from '../pipeline/step-report.ts'
import type { LiveExchange } from './live-exchange.ts'
import type { End } from './reply.ts'

/**
 * Creates the client's stream.
 * @param known the usage of the answer, if it is known before its first chunk
 */
export function streamTo(
  exchange: LiveExchange,
  taps: readonly Tap[],
  known: MeteredUsage | null = null,
): StreamAnswer {
  const { client, meter, inbound, host } = exchange
  const onContent = () => {
    meter.delivered = true
    exchange.firstTokenAtMs = host.deadlineClock.now()
  }
  const soFar = () => (known === null ? meter.soFar : wireUsageOf(known))
  const stream = new StreamAnswer(client, taps, inbound?.encodeStream(soFar), onContent)
  exchange.stream = stream
  return stream
}

/**
 * Returns the encoder of a whole answer for this client; undefined: unchanged.
 * @param known the usage; left out: the one counted when the answer is encoded
 */
export function writerOf({ inbound, meter }: LiveExchange, known: MeteredUsage | null = null): WriteWhole | undefined {
  if (!inbound) return undefined
  return ({ completion }) => {
    const usage = known ?? meter.spent(true)
    return inbound.encodeAnswer(usage ? { ...completion, usage: wireUsageOf(usage) } : completion)
  }
}

/** The end of an answer after a step's watch or edit threw: its own refusal (a guard's), or a bug. */
export function endOfTapError(exchange: LiveExchange, { step, cause }: TapError): Omit<End, 'usage'> {
  const refusal = isRefusal(cause) ? cause : null
  const outcome = outcomeOfError(refusal, exchange.meter.delivered)
  exchange.record(step, refusal ? 'refused' : 'failed', refusal?.code ?? 'plugin_error', 'in_answer')
  if (refusal) return { outcome, refusal }
  const planned = exchange.plan.steps[step] ?? { id: 'send' }
  exchange.host.reportStep(reportOf(exchange, planned, 'threw_in_answer', cause))
  return { outcome, refusal: refuse('plugin_error', { step: planned.id, cause }) }
}
