/** The alerts of a store: the writer writes and claims them. */
import type { Promised } from '../promised.ts'
import type { Writer } from '../writer.ts'
import type { AlertReads, Alerts } from './alert-rows.ts'

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
