/** Alerts as the gateway uses them: written and claimed by the writer, read like everything else. */
import type { NanoUsd } from '#contract'
import type { Promised } from '../promised.ts'
import type { Writer } from '../writer.ts'
import type { AlertReads, Claim, Claimed, NewAlert, Sent } from './alert-rows.ts'

/** A receiver that takes fewer kinds from now on gets no others of earlier times either. */
export interface Alerts extends Promised<Pick<AlertReads, 'list' | 'due' | 'figures'>> {
  put(alerts: readonly NewAlert[]): Promise<void>
  /** Alerts to be sent to a receiver now, the oldest first. */
  claim(claim: Claim): Promise<readonly Claimed[]>
  mark(sent: Sent): Promise<void>
  /** Throws `not_found` where no receiver was sent it. */
  resend(alert: string, nowMs: number): Promise<void>
  /** Removes those from before a time, a few in a transaction. */
  sweep(beforeMs: number): Promise<void>
  /** Writes alerts of accounts whose credit has fallen below an amount since the last look. */
  lookAtBalances(below: NanoUsd, nowMs: number): Promise<void>
}

export function createAlerts(reads: Promised<AlertReads>, writer: Writer): Alerts {
  return {
    list: reads.list,
    due: reads.due,
    figures: reads.figures,
    put: alerts => writer.op('putAlerts', alerts),
    claim: claim => writer.op('claimAlerts', claim),
    mark: sent => writer.op('markAlert', sent),
    resend: (alert, nowMs) => writer.op('resendAlert', { alert, nowMs }),
    async sweep(beforeMs) {
      while (await reads.areOlder(beforeMs)) await writer.op('sweepAlerts', beforeMs)
    },
    async lookAtBalances(below, nowMs) {
      const accounts = await reads.changedBalances(below)
      if (accounts.length > 0) await writer.op('markBalances', { accounts, below, nowMs })
    },
  }
}
