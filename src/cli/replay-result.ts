/** What a replay has found: printed as a table or as JSON, and held against the gates of `--fail-on`. */
import { exceeds, type Gate, tooLittle } from '../replay/gate.ts'
import type { ReplayResult } from '../replay/replay.ts'
import { reportJson } from '../replay/report.ts'
import type { UnhandledErrors } from '../simulate/unhandled.ts'
import { shownPath } from './configuration.ts'
import { json } from './format.ts'
import { replayText, skippedText } from './replay-text.ts'
import { tellAll } from './simulated.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'

/** Which part of it is told, and how. */
export interface ReportOptions {
  readonly against?: string
  readonly account?: string
  readonly failOn?: readonly Gate[]
  readonly all?: true
  readonly json?: true
}

/** So many accounts, keys and models, unless all are wanted. */
const MAX_SHOWN = 10

/**
 * Prints it, and what has gone astray meanwhile. Answers with 1 when a gate does not let it pass, or a step has broken
 * so that a gateway would have ended. Throws a `CommandError` when there was no line to replay.
 */
export async function tellResult(
  terminal: Terminal,
  result: ReplayResult,
  options: ReportOptions & { readonly unhandled: UnhandledErrors },
): Promise<ExitCode> {
  const { against, account = null, failOn = [], unhandled } = options
  const most = options.all ? Number.POSITIVE_INFINITY : MAX_SHOWN
  const nothing = result.taken > 0 ? null : await whyNothing(result, account)
  const gates = failOn.map(gate => exceeds(gate, result, failOn))
  const astray = unhandled.take()
  const failed = [nothing, ...gates, tooLittle(failOn, result), ...(unhandled.wereFatal ? astray : [])].filter(
    reason => reason !== null,
  )
  if (options.json) terminal.out(json({ ok: failed.length === 0, ...reportJson(result, { most }), failed }))
  else {
    const shown = withShownPaths(terminal, result)
    const told = against === undefined ? 'what the log says' : shownPath(terminal, against)
    // A table of nothing would look like a good answer.
    if (nothing !== null) terminal.err(skippedText(shown))
    else terminal.out(replayText(shown, { against: told, most }))
    tellAll(
      terminal,
      failed.filter(reason => reason !== nothing),
    )
  }
  if (!unhandled.wereFatal) tellAll(terminal, astray)
  if (nothing !== null) throw new CommandError(nothing)
  return failed.length === 0 ? 0 : 1
}

const MAX_ACCOUNTS_SAID = 5

/** Why no line was taken: mostly an account that is mistyped. */
async function whyNothing({ passedBy, otherAccounts }: ReplayResult, account: string | null): Promise<string> {
  if (account === null || passedBy === 0) return 'there is no line to replay'
  const { didYouMean } = await import('../config/yaml/problem.ts')
  const names = [...new Set(otherAccounts.values())]
  const near = didYouMean(account, [...names, ...otherAccounts.keys()])
  const said = names.slice(0, MAX_ACCOUNTS_SAID).map(name => JSON.stringify(name))
  const there = said.length > 0 ? `it has ${said.join(', ')}` : 'its lines are of nobody'
  const more = names.length > said.length ? ` and ${names.length - said.length} more` : ''
  return `no line of the log is of an account ${JSON.stringify(account)}; ${near ?? there + more}`
}

function withShownPaths(terminal: Terminal, result: ReplayResult): ReplayResult {
  const skipped = result.skipped.map(each => ({
    ...each,
    file: each.file === '-' ? 'standard input' : shownPath(terminal, each.file),
  }))
  return { ...result, skipped }
}
