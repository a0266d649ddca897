/** Formats the result of a replay for people. */

import { formatMoney } from '../contract/quantities.ts'
import { type Change, type Cost, NOT_RUN, type Side, unknownOf } from '../replay/compare.ts'
import type { ReplayResult } from '../replay/replay.ts'
import { type AffectedAccounts, affectedBy, changesOf, costsOf } from '../replay/report.ts'
import { count, showMoney, showTime, table } from './format.ts'

export interface TextOptions {
  /** The baseline of the comparison, in words. */
  readonly against: string
  /** The maximum number of accounts, keys and models. */
  readonly most: number
}

export function replayText(result: ReplayResult, options: TextOptions): string {
  const { found, gaps } = result
  const parts = [
    headText(result, options),
    found.changed > 0 ? changesText(changesOf(result), options) : '',
    costText(result, options),
    found.shadow.size > 0 ? shadowText(result) : '',
    gaps.length > 0 ? `This log does not show:\n${gaps.map(gapText).join('')}` : '',
    skippedText(result),
  ]
  return parts.filter(part => part !== '').join('\n')
}

function headText({ found, span, passedBy, late, twice }: ReplayResult, { against }: TextOptions): string {
  const { lines, changed, refused, admitted } = found
  const unknown = unknownOf(found)
  const when = span
    ? `, ${showTime(new Date(span.from).toISOString())} to ${showTime(new Date(span.to).toISOString())}`
    : ''
  const kinds = [
    refused > 0 ? `${refused} refused now` : '',
    admitted > 0 ? `${admitted} admitted now` : '',
    changed > refused + admitted ? `${changed - refused - admitted} with another answer` : '',
  ].filter(kind => kind !== '')
  const changes =
    changed === 0
      ? unknown === lines && lines > 0
        ? 'Nothing could be compared.'
        : unknown > 0
          ? `None of the ${lines - unknown} compared verdicts changes.`
          : 'No verdict changes.'
      : `${changed} of ${count(lines, 'verdict')} change${changed === 1 ? 's' : ''} (${share(changed, lines)}): ${kinds.join(', ')}.`
  const notes = [
    unknown > 0 ? `${unknown} of them ${unknown === 1 ? 'was' : 'were'} not compared, for reasons below.\n` : '',
    passedBy > 0 ? `${count(passedBy, 'line')} not read (--account, --limit).\n` : '',
    twice > 0 ? `${count(twice, 'line')} omitted: an earlier line has the same exchange.\n` : '',
    late > 0
      ? `${count(late, 'line')} out of order, replayed later than at ${late === 1 ? 'its' : 'their'} time; sort the log by at.\n`
      : '',
  ]
  return `${count(lines, 'exchange')}${when}, compared with ${against}.\n${notes.join('')}${changes}\n`
}

function changesText(changes: readonly Change[], { most }: TextOptions): string {
  const columns = [
    { title: 'LINES', right: true },
    { title: 'BEFORE' },
    { title: 'AFTER' },
    { title: 'ACCOUNTS', right: true },
    { title: 'KEYS', right: true },
  ]
  const rows = changes.map(({ lines, before, after, accounts, keys }) => [
    String(lines),
    sideText(before),
    sideText(after),
    String(accounts.size),
    String(keys.size),
  ])
  const details = changes.map(
    ({ before, after, accounts, keys, examples }) =>
      `\n${sideText(before)} -> ${sideText(after)}\n` +
      `  accounts  ${ownersText(affectedBy(accounts), most)}\n` +
      `  keys      ${ownersText(affectedBy(keys).map(withId), most)}\n` +
      `  such as   ${examples.join(', ')}\n`,
  )
  return table(columns, rows) + details.join('')
}

/** `429 rate_limit_exceeded (burst)`; an answer of the provider is only a status. */
function sideText({ status, code, decidedBy, outcome }: Side): string {
  if (status === null) return outcome === 'client_left' ? 'client left' : outcome
  const by = decidedBy === null || (code === null && decidedBy === 'send') ? '' : ` (${decidedBy})`
  return `${status}${code === null ? '' : ` ${code}`}${by}`
}

function ownersText(all: readonly AffectedAccounts[], most: number): string {
  const shown = all.slice(0, most).map(({ id, name, lines }) => `${id === '' ? '(none)' : name || id} ${lines}`)
  return [...shown, ...(all.length > most ? [`and ${all.length - most} more`] : [])].join(', ')
}

/** Adds the id, because names of keys are not unique. */
function withId({ id, name, lines }: AffectedAccounts): AffectedAccounts {
  return { id, name: id === '' ? '' : `${name} (${id})`, lines }
}

function costText({ found }: ReplayResult, { most }: TextOptions): string {
  const columns = [
    { title: 'COST' },
    { title: 'BEFORE', right: true },
    { title: 'AFTER', right: true },
    { title: 'DIFFERENCE', right: true },
  ]
  const row = (what: string, cost: Cost) => [
    what,
    money(cost.before),
    money(cost.after),
    `${signed(cost.after - cost.before)} (${percent(cost)})`,
  ]
  const changed = <Item extends Cost>(costs: ReadonlyMap<string, Item>) =>
    costsOf(costs).filter(([, { before, after }]) => before !== after)
  const [accounts, models] = [changed(found.accounts), changed(found.models)]
  const rows = [
    row('all', found.cost),
    ...models.slice(0, most).map(([id, cost]) => row(`model ${id}`, cost)),
    ...accounts.slice(0, most).map(([id, cost]) => row(`account ${cost.name || id || '(none)'}`, cost)),
  ]
  const more = Math.max(0, accounts.length - most) + Math.max(0, models.length - most)
  const rest = more > 0 ? `and ${more} more (--all)\n` : ''
  const estimated =
    found.estimated > 0
      ? `${money(found.cost.estimated)} of it is estimated, for ${count(found.estimated, 'exchange')} without an answer, from the model's other answers.\n`
      : ''
  const resized =
    found.resized > 0
      ? `${count(found.resized, 'prompt')} ${found.resized === 1 ? 'is' : 'are'} changed by steps: their sizes are estimated, with one token for 4 bytes.\n`
      : ''
  return table(columns, rows) + rest + estimated + resized
}

function shadowText({ found }: ReplayResult): string {
  const rows = [...found.shadow.values()].map(({ step, code, lines }) => [
    String(lines),
    step,
    code ?? 'its own answer',
    share(lines, found.lines),
  ])
  const columns = [
    { title: 'LINES', right: true },
    { title: 'IN SHADOW' },
    { title: 'WOULD ANSWER' },
    { title: 'SHARE' },
  ]
  return table(columns, rows)
}

function gapText({ about, sentence }: { readonly about: string; readonly sentence: string }): string {
  return `  ${about}: ${sentence}\n`
}

const UNKNOWN: Readonly<Record<string, string>> = {
  who: 'the client is not in the log, and the configuration now needs it',
  unfinished: 'a step of the configuration waits for something that does not happen',
  answer: 'a step refused the answer, whose text is not in the log, and that step was removed or changed',
  words: "a step reads text, which is not in the log, and the log does not have that step's decision",
  kept: 'the request names a kept response, which is not in the log',
  body: 'the request is not in the log, and the configuration now needs it',
}

function whyNotRun(why: string): string {
  return why.startsWith(NOT_RUN)
    ? `the step ${why.slice(NOT_RUN.length)} was not run, and the log does not have its decision`
    : why
}

/** The omitted lines, with reasons. */
export function skippedText({ found, skipped, skippedCount }: ReplayResult): string {
  const unknown = [...found.unknown].map(
    ([why, lines]) => `${count(lines, 'line')} not compared: ${UNKNOWN[why] ?? whyNotRun(why)}\n`,
  )
  const lines = skipped.map(({ file, number, reason }) => `  ${file}:${number}: ${reason}\n`)
  const more = skippedCount > skipped.length ? `  and ${skippedCount - skipped.length} more\n` : ''
  const head = skippedCount > 0 ? `${count(skippedCount, 'line')} skipped:\n` : ''
  return unknown.join('') + head + lines.join('') + more
}

function money(amount: bigint): string {
  return showMoney(formatMoney(amount))
}

function signed(amount: bigint): string {
  return `${amount > 0n ? '+' : ''}${money(amount)}`
}

function share(some: number, all: number): string {
  return all === 0 ? '0 %' : `${((100 * some) / all).toFixed(2)} %`
}

function percent({ before, after }: Cost): string {
  if (before === 0n) return after === 0n ? '0 %' : 'new'
  const hundredths = Number(((after - before) * 10_000n) / before)
  return `${hundredths > 0 ? '+' : ''}${(hundredths / 100).toFixed(2)} %`
}
