/** Prints the result of a replay as a table or as JSON, and checks the gates of `--fail-on`. */
import { exceeds, type Gate, tooLittle } from '../replay/gate.ts'
import type { ReplayResult } from '../replay/replay.ts'
import { reportJson } from '../replay/report.ts'
import type { UnhandledErrors } from '../simulate/unhandled.ts'
import { shownPath } from './configuration.ts'
import { json } from './format.ts'
import { replayText, skippedText } from './replay-text.ts'
import { printAll } from './simulated.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'

/** The parts and the format of the report. */
export interface ReportOptions {
  readonly against?: string
  readonly account?: string
  readonly failOn?: readonly Gate[]
  readonly all?: true
  readonly json?: true
}

/** The maximum number of accounts, keys and models without `--all`. */
const MAX_SHOWN = 10

/**
 * Prints the result and unhandled errors. Returns 1 if a gate fails, or if an unhandled error would have ended a gateway. Throws
 * a `CommandError` if there was no line to replay.
 */
export async function reportResult(
  terminal: Terminal,
  result: ReplayResult,
  options: ReportOptions & { readonly unhandled: UnhandledErrors },
): Promise<ExitCode> {
  const { against, account = null, failOn = [], unhandled } = options
  const most = options.all ? Number.POSITIVE_INFINITY : MAX_SHOWN
  const nothing = result.taken > 0 ? null : await whyNothing(result, account)
  const gates = failOn.map(gate => exceeds(gate, result, failOn))
  const errors = unhandled.take()
  const failed = [nothing, ...gates, tooLittle(failOn, result), ...(unhandled.wereFatal ? errors : [])].filter(
    reason => reason !== null,
  )
  if (options.json) terminal.out(json({ ok: failed.length === 0, ...reportJson(result, { most }), failed }))
  else {
    const shown = withShownPaths(terminal, result)
    const baseline = against === undefined ? 'the log' : shownPath(terminal, against)
    // An empty table would look like success.
    if (nothing !== null) terminal.err(skippedText(shown))
    else terminal.out(replayText(shown, { against: baseline, most }))
    printAll(
      terminal,
      failed.filter(reason => reason !== nothing),
    )
  }
  if (!unhandled.wereFatal) printAll(terminal, errors)
  if (nothing !== null) throw new CommandError(nothing)
  return failed.length === 0 ? 0 : 1
}

const MAX_ACCOUNTS_SHOWN = 5

/** Explains why no line was read; usually the account is mistyped. */
async function whyNothing({ passedBy, otherAccounts }: ReplayResult, account: string | null): Promise<string> {
  if (account === null || passedBy === 0) return 'the log has no line to replay'
  const { didYouMean } = await import('../config/yaml/problem.ts')
  const names = [...new Set(otherAccounts.values())]
  const near = didYouMean(account, [...names, ...otherAccounts.keys()])
  const shown = names.slice(0, MAX_ACCOUNTS_SHOWN).map(name => JSON.stringify(name))
  const list = shown.length > 0 ? `it has ${shown.join(', ')}` : 'its lines have no account'
  const more = names.length > shown.length ? ` and ${names.length - shown.length} more` : ''
  return `the log has no line of the account ${JSON.stringify(account)}; ${near ?? list + more}`
}

function withShownPaths(terminal: Terminal, result: ReplayResult): ReplayResult {
  const skipped = result.skipped.map(each => ({
    ...each,
    file: each.file === '-' ? 'standard input' : shownPath(terminal, each.file),
  }))
  return { ...result, skipped }
}
