/** Formats a story for a terminal. */

import { pairs, showNano, table } from '../format.ts'
import type { BudgetStory, HoldStory } from './money.ts'
import type { SentStory, StepStory, Story, TargetStory } from './story.ts'
import type { Change } from './targets.ts'
import { wrapped } from './text.ts'

export function storyText(story: Story): string {
  const parts = [headText(story), verdictText(story), stepsText(story.steps), moneyText(story), ...upstreamText(story)]
  const headers = Object.entries(story.headers)
  if (headers.length > 0) parts.push(`HEADERS OF THE ANSWER\n${pairs(headers)}`)
  if (story.mistakes.length > 0) parts.push(`MISTAKES\n${lines(story.mistakes.map(mistake => wrapped(mistake, '  ')))}`)
  return parts.filter(part => part !== '').join('\n')
}

const lines = (texts: readonly string[]) => texts.map(text => `${text}\n`).join('')

/** Whether anything was sent. Only the author of an external step knows what it does. */
function reachText({ ownSteps }: Story): string {
  if (ownSteps.length === 0) return 'nothing was sent.'
  const which = ownSteps.length === 1 ? 'your own step' : 'your own steps'
  return `no provider was called. But ${which} ${ownSteps.join(', ')} ran and may have sent or written something.`
}

function headText(story: Story): string {
  const { method, path, policy, given } = story
  const { account, plan, balance, models, atMs } = given
  const key = `its key can use ${models?.join(', ') ?? 'all public models'}`
  return lines([
    `${method} ${path}${policy === null ? '' : ` · policy ${policy}`}`,
    wrapped(`Run in this process, with scripted providers and a simulated client: ${reachText(story)}`, '  '),
    wrapped(`account ${account}, plan ${plan}, balance ${showNano(balance)}; ${key}`, '  '),
    `  at ${new Date(atMs).toISOString()}`,
  ])
}

function verdictText({ status, code, outcome, decidedBy, message, detail, headers, notRun }: Story): string {
  const decider = decidedBy === null ? '' : `, decided by ${decidedBy}`
  const what = `${[status ?? 'no answer', code ?? outcome ?? ''].join(' ').trim()}${decider}`
  const [were, lets] =
    notRun.length === 1 ? ['the step was not run', 'If it lets'] : ['these steps were not run', 'If they let']
  const head =
    notRun.length === 0
      ? `VERDICT  ${what}`
      : `VERDICT  unknown, because ${were}: ${notRun.join(', ')}. ${lets} the request pass: ${what}`
  return lines([
    wrapped(head, ''),
    ...(message === null ? [] : [wrapped(`message to the client: ${message}`, '  ')]),
    ...(retryText(headers) === null ? [] : [wrapped(retryText(headers)!, '  ')]),
    ...(detail === null ? [] : [wrapped(`for operators: ${detail}`, '  ')]),
  ])
}

function retryText(headers: Story['headers']): string | null {
  if (headers['x-should-retry'] === 'false') return 'client libraries do not retry (x-should-retry: false)'
  const after = headers['retry-after']
  return after === undefined ? null : `client libraries retry after ${after} s`
}

function stepsText(steps: readonly StepStory[]): string {
  if (steps.length === 0) return ''
  const columns = [{ title: 'NR', right: true }, { title: 'STEP' }, { title: 'PLUGIN' }, { title: 'VERDICT' }]
  const rows = steps.map(({ nr, id, plugin, verdict, code }) => [
    String(nr),
    id,
    plugin,
    `${verdict.replaceAll('_', ' ')} ${code ?? ''}`.trim(),
  ])
  const [titles = '', ...shown] = table(columns, rows).trimEnd().split('\n')
  return lines([titles, ...steps.flatMap((step, at) => [shown[at]!, ...remarksOf(step)])])
}

function remarksOf({ reason, otherwise }: StepStory): string[] {
  return [reason, otherwise ?? ''].filter(text => text !== '').map(text => wrapped(text, '      '))
}

function moneyText({ hold, charge }: Story): string {
  if (!hold && !charge) return ''
  const made = (formula: string | null) => (formula === null ? '' : ` = ${formula}`)
  return lines([
    'MONEY',
    ...(hold
      ? [
          wrapped(`hold    ${showNano(hold.amount)}${made(hold.formula)}`, '  '),
          leftText(hold),
          ...hold.budgets.map(budgetText),
        ]
      : []),
    ...(charge ? [wrapped(`charge  ${showNano(charge.amount)}${made(charge.formula)} (${charge.source})`, '  ')] : []),
    ...(charge?.source === 'reported' ? ['  The scripted provider reported these tokens.'] : []),
  ])
}

const leftText = ({ available }: HoldStory) => `          ${showNano(available)} remains available`

function budgetText({ name, whose, every, zone, amount, then }: BudgetStory): string {
  const period = every === 'life' ? 'in all' : `each ${every}, ${zone}`
  const otherwise = then === 'refuse' ? '' : `; then ${then} answers`
  return wrapped(`counts in the budget "${name}" ${whose}: ${showNano(amount)} ${period}${otherwise}`, '          ')
}

function upstreamText({ targets, sent }: Story): string[] {
  const list = targets.length === 0 ? [] : [lines(['TARGETS', ...targets.map(targetText)])]
  return [...list, ...sent.map(sentText)]
}

function targetText({ id, verdict, why }: TargetStory): string {
  return wrapped(`${id}: ${verdict}${why === '' ? '' : `, ${why}`}`, '  ')
}

function sentText({ to, dialect, path, changes, dropped }: SentStory): string {
  if (dialect === 'raw') return lines([`WOULD BE SENT to ${to}, ${path}`, '  the unchanged body'])
  return lines([
    `WOULD BE SENT to ${to}, dialect ${dialect}, POST ${path}`,
    ...(changes.length === 0 ? ['  the unchanged body'] : changes.map(change => wrapped(changeText(change), '  '))),
    ...(dropped.length === 0 ? [] : [wrapped(`dropped parameters (x-tollgate-dropped): ${dropped.join(', ')}`, '  ')]),
  ])
}

function changeText({ name, from, to }: Change): string {
  if (from === undefined) return `${name}: ${short(to)} was added`
  if (to === undefined) return `${name}: ${short(from)} was removed`
  return `${name}: ${short(to)} in place of ${short(from)}`
}

/** A value in at most 60 characters. */
function short(value: unknown): string {
  const text = JSON.stringify(value)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}
