/** Formats an alert: one sentence for people, and data with amounts in dollars for programs. */
import { formatMoney } from '#contract'
import { partsOf } from '../budgets/budget-names.ts'
import type { AlertKind } from '../common/alerts-config.ts'
import type { Alert } from '../store/alerts/alert-rows.ts'

type Data = Readonly<Record<string, unknown>>
type Sentence = (data: Data, account: string) => string

/** Nano-dollars as texts. */
const AMOUNTS: ReadonlySet<string> = new Set(['amount', 'spent', 'below', 'credit'])
/** Milliseconds since the epoch. */
const TIMES: ReadonlySet<string> = new Set(['start', 'end'])

const SENTENCES: Readonly<Record<AlertKind | 'test', Sentence>> = {
  budget: budgetText,
  low_balance: ({ below, credit }, account) =>
    `The credit of account ${account} is below ${dollars(below)}: ${dollars(credit)} is left.`,
  provider_down: ({ provider, replica }) => `All targets of provider ${provider} fail, as ${replica} sees it.`,
  credential_refused: ({ provider, refused, total, replica }) =>
    `Provider ${provider} refuses ${refused} of ${total} credentials, as ${replica} sees it.`,
  breaker_open: ({ target, replica }) => `Target ${target} fails and is tried after all others by ${replica}.`,
  reload_invalid: ({ problem, replica }) => `The changed configuration is not used by ${replica}: ${problem}`,
  test: () => 'This is a test alert.',
}

/** One sentence in plain English. */
export function alertText({ kind, data, account, accountName }: Omit<Alert, 'id' | 'at'>): string {
  const sentence = Object.hasOwn(SENTENCES, kind) ? SENTENCES[kind as AlertKind] : null
  // Another version of the gateway may write other kinds to the same store.
  return sentence === null ? `An alert of the kind ${kind}.` : sentence(data, accountName ?? account ?? '')
}

/** The data with amounts in dollars and times in ISO 8601. */
export function alertData({ data }: Pick<Alert, 'data'>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(data).map(([name, value]) => {
      if (AMOUNTS.has(name) && isAmount(value)) return [name, formatMoney(BigInt(value))]
      if (TIMES.has(name) && typeof value === 'number') return [name, time(value)]
      return [name, value]
    }),
  )
}

/** A refused request counts as 100 %, even if less is spent. */
function budgetText({ budget, mark, spent, amount, end }: Data, account: string): string {
  const isShort = mark === 100 && isAmount(spent) && isAmount(amount) && BigInt(spent) < BigInt(amount)
  const [part, why] = isShort ? ['', ', and a request had no room in the rest'] : [`, which is ${mark} % or more`, '']
  const until = typeof end === 'number' ? ` until ${time(end)}` : ''
  return `Account ${account} has spent ${dollars(spent)} of ${dollars(amount)}${part} of its budget ${budgetWords(budget)}${until}${why}.`
}

/** The budget's name and place, with its subject if there are several. */
function budgetWords(budget: unknown): string {
  const { place, name, subject } = partsOf(String(budget))
  return `"${name}" (${subject === '' ? place : `${place}, ${subject}`})`
}

const time = (ms: number): string => new Date(ms).toISOString()
const isAmount = (value: unknown): value is string => typeof value === 'string' && /^-?\d+$/.test(value)

/** At least two decimals. Never throws, so that an unexpected alert does not block later ones. */
const dollars = (nano: unknown): string =>
  isAmount(nano) ? `$${formatMoney(BigInt(nano)).replace(/0{1,7}$/, '')}` : '$?'
