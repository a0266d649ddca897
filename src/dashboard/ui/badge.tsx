/** Small things in a line: badges, money, times, code. */
import type { ComponentChildren, VNode } from 'preact'
import { dateTime, exactMoney, money, moneyAtLeast, nano, percent, relative } from '../lib/format.ts'
import { useNow } from '../lib/use-resource.ts'

export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'info' | 'accent'

/** A word with a colour; the word says everything, the colour only helps. */
export function Badge({
  tone = 'plain',
  children,
}: {
  readonly tone?: Tone
  readonly children: ComponentChildren
}): VNode {
  return <span class={`badge tone-${tone}`}>{children}</span>
}

interface MoneyProps {
  /** Dollars with 9 decimals, as the API sends them. */
  readonly value: string
  /** Somebody has it, and does not pay it: it is never shown as more than it is. */
  readonly owned?: boolean | undefined
  /** Every decimal: for sums that have to add up. */
  readonly exact?: boolean | undefined
  /** A plus before what is above zero. */
  readonly signed?: boolean | undefined
  /** As a column writes it, so that points stand in one line. */
  readonly text?: string | undefined
}

/** `$1.25`, with the exact amount as its title. */
export function Money({ value, owned = false, exact = false, signed = false, text }: MoneyProps): VNode {
  const written = exactMoney(value)
  const plus = signed && nano(value) > 0n ? '+' : ''
  return (
    <span class="money" title={written}>
      {plus}
      {text ?? (exact ? written : owned ? moneyAtLeast(value) : money(value))}
    </span>
  )
}

interface TimeProps {
  readonly value: string | null
  /** Instead of none. */
  readonly none?: string | undefined
  /** The date and the time, for what is kept: `21 Nov 2026, 09:11:23 GMT+1`. */
  readonly exact?: boolean | undefined
}

/** `3 minutes ago`, with the exact time as its title; `-` for none. */
export function Time({ value, none = '\u2013', exact = false }: TimeProps): VNode {
  const now = useNow()
  if (value === null) return <span class="faint">{none}</span>
  return (
    <time class={exact ? '' : 'nowrap'} dateTime={value} title={dateTime(value)}>
      {exact ? dateTime(value) : relative(value, now)}
    </time>
  )
}

/** Code in a line, or a block of it with `block`. */
export function Code({
  block = false,
  children,
}: {
  readonly block?: boolean
  readonly children: ComponentChildren
}): VNode {
  if (!block) return <code class="code">{children}</code>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard
    <pre class="code-block" tabIndex={0}>
      <code>{children}</code>
    </pre>
  )
}

interface MeterProps {
  readonly label: string
  readonly part: string
  readonly whole: string
}

/** How much of an amount is used up, below the part. */
export function MoneyMeter({ label, part, whole }: MeterProps): VNode {
  const share = percent(nano(part), nano(whole))
  const tone = share >= 95 ? 'tone-bad' : share >= 80 ? 'tone-warn' : ''
  return (
    <span class="stack-tight">
      <span class="small muted nowrap">
        of <Money value={whole} />
      </span>
      <Bar label={label} percent={share} class={tone} />
    </span>
  )
}

interface BarProps {
  readonly label: string
  readonly percent: number
  readonly class?: string | undefined
}

/** A bar that is filled so far. */
export function Bar({ label, percent: filled, class: extra = '' }: BarProps): VNode {
  return (
    <span class={`meter ${extra}`} role="img" aria-label={`${label}: ${Math.round(filled)}%`}>
      <span class="meter-fill" style={{ width: `${filled}%` }} />
    </span>
  )
}
