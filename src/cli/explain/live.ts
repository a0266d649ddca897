/**
 * `tollgate explain req_…`: shows a past exchange. `tollgate explain --shadow`: shows what steps in shadow mode would have
 * refused, from the running gateway or from a usage log.
 */
import { statSync } from 'node:fs'
import { visible } from '#contract'
import type { PastExchangeView } from '../../api/views.ts'
import type { AffectedOwners, ShadowStep } from '../../observe/shadow.ts'
import { logFile } from '../commands.ts'
import { count, json as jsonText, pairs, showMoney, showTime, table } from '../format.ts'
import { operate } from '../operate.ts'
import { CommandError, type ExitCode, progressLine, type Terminal } from '../terminal.ts'
import { remarksOf } from '../trail-words.ts'
import type { LoggedExchange } from './logged.ts'
import { wrapped } from './text.ts'

interface LiveOptions {
  readonly config: string
  readonly json: boolean
}

/** Prints one exchange, from the running gateway's memory or else from its receipt. */
export async function explainLive(id: string, { config, json }: LiveOptions, terminal: Terminal): Promise<ExitCode> {
  const exchange = await operate(terminal, config, 'exchange.show', { exchange: id })
  terminal.out(json ? jsonText(exchange) : exchangeText(exchange))
  return 0
}

export interface ShadowOptions extends LiveOptions {
  /** A usage log; undefined: the running gateway. */
  readonly log?: string
}

/** Prints what steps in shadow mode would have refused, with accounts and keys. */
export async function explainShadow({ config, json, log }: ShadowOptions, terminal: Terminal): Promise<ExitCode> {
  if (log !== undefined) {
    const result = await readShadowLog(terminal, log)
    terminal.out(json ? jsonText(result) : logText(result))
    return 0
  }
  const view = await operate(terminal, config, 'shadow.show', {})
  terminal.out(json ? jsonText(view) : gatewayText(view))
  return 0
}

/** An exchange as text: outcome, account and key, steps, attempts, money. */
export function exchangeText(exchange: PastExchangeView): string {
  const { trail, attempts, receipt, kept } = exchange
  const parts = [`${headline(exchange)}\n`, aboutText(exchange)]
  if (kept === 'receipt') parts.push('This is from its receipt; the gateway no longer has the rest.\n')
  parts.push(trail.length === 0 ? 'No step ran.\n' : `Steps\n${trailText(trail)}`)
  if (attempts.length > 0) parts.push(`Attempts\n${attemptsText(attempts)}`)
  parts.push(
    receipt === null ? 'Money\n  Nothing was held, and nothing was charged.\n' : `Money\n${moneyText(receipt)}`,
  )
  return parts.join('\n')
}

function headline({ id, outcome, status, code, decided_by: decider }: PastExchangeView): string {
  const answer = [status, code].filter(each => each !== null).join(' ')
  const what = answer === '' ? '' : `: ${answer}`
  switch (outcome) {
    case null:
      return `${id} is in progress.`
    case 'answered':
      return decider === null
        ? `${id} was answered${what}.`
        : `${id} was answered by the step ${visible(decider)}${what}.`
    case 'client_left':
      return `${id} ended when the client disconnected.`
    case 'cut':
      return `${id} was cut off: the gateway was stopped.`
    default:
      return `${id} ${outcome === 'refused' ? 'was refused' : 'failed'}${what}.${decidedText(decider)}`
  }
}

function decidedText(decider: string | null): string {
  if (decider === null) return ''
  if (decider === 'gateway') return ' The gateway itself decided, outside the steps.'
  if (decider === 'send') return ' It came from the upstream call, after the steps.'
  return ` The step ${visible(decider)} decided.`
}

function aboutText(exchange: PastExchangeView): string {
  const { started_at: at, ms, method, route, policy, account_id: account, key_id: key, model, stream } = exchange
  const { trace_id: trace, tags } = exchange
  const tagged = Object.entries(tags).map(([name, value]) => `${name}=${visible(value)}`)
  const named = (name: string | null, id: string | null) => (id === null ? 'unknown' : `${visible(name ?? '')} (${id})`)
  return pairs([
    ['at', `${at.replace('T', ' ').replace('Z', ' UTC')}${ms === null ? '' : `, ${ms} ms`}`],
    ...(route === null ? [] : ([['request', `${visible(method ?? '')} ${route}, policy ${policy}`]] as const)),
    ['account', named(exchange.account, account)],
    ['key', named(exchange.key, key)],
    ...(tagged.length === 0 ? [] : ([['tags', tagged.join(', ')]] as const)),
    ...(trace === null ? [] : ([['trace', trace]] as const)),
    ...(model === null ? [] : ([['model', `${visible(model)}${stream ? ', streamed' : ''}`]] as const)),
  ])
}

/** A line for each step, with its remarks below. */
function trailText(trail: PastExchangeView['trail']): string {
  const rows = trail.map(({ step, verdict, code = '' }, index) => [`  ${index + 1}`, visible(step), verdict, code])
  const text = table([{ title: '  NR' }, { title: 'STEP' }, { title: 'VERDICT' }, { title: 'CODE' }], rows)
  return withRemarks(text, index => remarksOf(trail[index]!).join('; '))
}

/** A table with remarks below its rows. */
function withRemarks(text: string, remarkOf: (index: number) => string): string {
  const [head = '', ...lines] = text.trimEnd().split('\n')
  const noted = lines.flatMap((line, index) => {
    const remark = remarkOf(index)
    return remark === '' ? [line] : [line, wrapped(visible(remark), '      ')]
  })
  return [head, ...noted].map(line => `${line}\n`).join('')
}

function attemptsText(attempts: PastExchangeView['attempts']): string {
  const columns = [{ title: '  TARGET' }, { title: 'STATUS' }, { title: 'CODE' }, { title: 'MS', right: true }]
  const rows = attempts.map(({ target, status, code, ms }) => [
    `  ${visible(target)}`,
    status === null ? '-' : String(status),
    code ?? '',
    String(ms),
  ])
  return withRemarks(table(columns, rows), index => attempts[index]!.detail ?? '')
}

function moneyText(receipt: NonNullable<PastExchangeView['receipt']>): string {
  const { held, charged, source, prompt_tokens: prompt, completion_tokens: completion } = receipt
  const more = [
    ...(receipt.cached_tokens > 0 ? [`${receipt.cached_tokens} of them cached`] : []),
    ...(receipt.reasoning_tokens > 0 ? [`${receipt.reasoning_tokens} reasoning`] : []),
  ]
  if (charged === null) return pairs([['held', `${showMoney(held)}, not settled yet`]])
  return pairs([
    ['held', showMoney(held)],
    ['charged', `${showMoney(charged)}, ${source}`],
    ['tokens', [`${prompt} in, ${completion} out`, ...more].join(', ')],
    ...receipt.lines.map(line => ['', lineText(line)] as [string, string]),
  ])
}

function lineText({
  unit,
  quantity,
  rate,
  per,
  amount,
}: NonNullable<PastExchangeView['receipt']>['lines'][number]): string {
  const each = per === 1 ? '' : per === 1_000_000 ? ' per 1M' : ` per ${per}`
  return `${quantity} ${unit} x ${showMoney(rate)}${each} = $${amount.replace(/0+$/, '').replace(/\.$/, '')}`
}

interface GatewayShadow {
  readonly since: string
  readonly steps: readonly ShownStep[]
}

type ShownStep = Omit<ShadowStep, 'since'> & { readonly now?: boolean; readonly since: string | null }

function gatewayText({ since, steps }: GatewayShadow): string {
  if (steps.length === 0) {
    return 'No step of the running configuration is in shadow mode. A step with "mode: shadow" runs without effect.\n'
  }
  return `Refusals of steps in shadow mode since the gateway's start, ${showTime(since)}\n\n${shadowText(steps)}`
}

function logText({ file, exchanges, first, last, skipped, steps }: ShadowLog): string {
  const span = first === null || last === null ? '' : ` from ${showTime(first)} to ${showTime(last)}`
  const left = skipped === null ? '' : `\n${count(skipped.lines, 'line')} omitted; the first is ${skipped.first}.\n`
  const read = `${file}: ${count(exchanges, 'exchange')}${span}`
  if (steps.length === 0) return `${read}. No step in shadow mode would have refused any of them.\n${left}`
  const title = wrapped(`Refusals of steps in shadow mode in ${read}`, '')
  return `${title}\n\n${shadowText(steps)}${left}`
}

/** The table, followed by the accounts and keys of each step and code. */
function shadowText(steps: readonly ShownStep[]): string {
  const right = true
  const columns = [
    { title: 'POLICY' },
    { title: 'STEP' },
    { title: 'CODE' },
    { title: 'RAN', right },
    { title: 'REFUSED', right },
    { title: 'SHARE', right },
    { title: 'ACCOUNTS', right },
    { title: 'KEYS', right },
  ]
  const rows = steps.flatMap(({ policy, step, ran, refusals, now }) => {
    const names = [visible(policy), now === false ? `${visible(step)} (not now)` : visible(step)]
    if (refusals.length === 0) return [[...names, '-', String(ran), '0', ran === 0 ? '-' : '0 %', '', '']]
    return refusals.map(({ code, count: refused, accounts, keys }) => [
      ...names,
      visible(code),
      String(ran),
      String(refused),
      share(refused, ran),
      distinct(accounts),
      distinct(keys),
    ])
  })
  const clients = steps.flatMap(({ policy, step, refusals }) =>
    refusals.map(
      refusal => `\n${visible(policy)}, ${visible(step)}: ${visible(refusal.code)}\n${clientsText(refusal)}`,
    ),
  )
  return table(columns, rows) + clients.join('')
}

function clientsText({ accounts, keys, examples }: ShadowStep['refusals'][number]): string {
  const lines = [
    ...(accounts.top.length > 0 ? [`accounts: ${topText(accounts)}`] : []),
    ...(keys.top.length > 0 ? [`keys: ${topText(keys)}`] : []),
    `latest: ${examples.map(({ id, at }) => `${visible(id)} at ${at}`).join(', ')}`,
  ]
  return lines.map(line => `${wrapped(line, '  ')}\n`).join('')
}

function topText({ top, distinct: all }: AffectedOwners): string {
  const shown = top.map(({ id, name, count: times }) => `${visible(name)} (${visible(id)}) ${times}`).join(', ')
  return all > top.length ? `${shown}, and ${all - top.length} more` : shown
}

function distinct({ distinct: all, more }: AffectedOwners): string {
  return more ? `${all}+` : String(all)
}

function share(part: number, whole: number): string {
  const percent = (part * 100) / whole
  if (percent > 0 && percent < 0.1) return '< 0.1 %'
  return `${percent.toFixed(percent < 10 ? 1 : 0)} %`
}

/** The contents of a usage log. */
interface ShadowLog {
  readonly file: string
  readonly exchanges: number
  readonly first: string | null
  readonly last: string | null
  /** Lines that are not exchanges; `first` describes the first of them. */
  readonly skipped: { readonly lines: number; readonly first: string } | null
  readonly steps: readonly ShadowStep[]
}

/** The most accounts and keys to count for each refusal. A running gateway counts fewer, to save memory. */
const MAX_OWNERS = 100_000

/**
 * Reads a usage log. The log does not record which steps were in shadow mode, so the result has only steps that would have
 * refused at least once.
 */
async function readShadowLog(terminal: Terminal, file: string): Promise<ShadowLog> {
  const [{ createShadowFigures, shadowRun }, { readLogs }, { parseLogged }] = await Promise.all([
    import('../../observe/shadow.ts'),
    import('../../replay/read.ts'),
    import('./logged.ts'),
  ])
  const path = logFile(terminal, file)
  const size = path === '-' ? 0 : statSync(path).size
  const figures = createShadowFigures(MAX_OWNERS)
  const span: { first: string | null; last: string | null } = { first: null, last: null }
  let exchanges = 0
  let skipped: { lines: number; first: string } | null = null
  const progress = progressLine(terminal, 'Reading bytes')
  let done = 0
  const read = (bytes: number) => {
    done += bytes
    if (size > 0) progress.show(done, size)
  }
  const take = (exchange: LoggedExchange) => {
    exchanges++
    const at = new Date(exchange.at).toISOString()
    if (span.first === null || at < span.first) span.first = at
    if (span.last === null || at > span.last) span.last = at
    for (const entry of exchange.trail) {
      const code = shadowRun(entry)
      if (code !== undefined) figures.count(exchange, entry.step, code)
    }
  }
  try {
    for await (const batch of readLogs([path], { parse: parseLogged, input: process.stdin, read })) {
      for (const each of batch) {
        if ('line' in each) take(each.line)
        else {
          skipped ??= { lines: 0, first: `line ${each.number}: ${each.reason}` }
          skipped.lines++
        }
      }
    }
  } finally {
    progress.end()
  }
  if (exchanges === 0 && skipped) {
    throw new CommandError(`${file} is not a log of the plugin usage-log: ${skipped.first}`)
  }
  return { file, exchanges, ...span, skipped, steps: figures.steps().filter(({ would_refuse: some }) => some > 0) }
}
