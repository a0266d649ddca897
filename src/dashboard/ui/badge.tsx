/** Inline elements: badges, money, times, code. */
import type { ComponentChildren, VNode } from 'preact'
import { dateTime, exactMoney, money, moneyAtLeast, nano, percent, relative } from '../lib/format.ts'
import { useNow } from '../lib/use-resource.ts'

export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'info' | 'accent'

/** A word with a colour. The word has the meaning; the colour only supports it. */
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
  /** A balance, not a charge: rounded down. */
  readonly owned?: boolean | undefined
  /** All decimals: for sums that have to add up. */
  readonly exact?: boolean | undefined
  /** A plus sign before positive amounts. */
  readonly signed?: boolean | undefined
  /** The text of `moneyColumn`, with its decimal point aligned. */
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
  /** The text without a value. */
  readonly none?: string | undefined
  /** Shows the date and the time, for records: `21 Nov 2026, 09:11:23 GMT+1`. */
  readonly exact?: boolean | undefined
}

/** `3 minutes ago`, with the exact time as its title; `-` without a value. */
export function Time({ value, none = '\u2013', exact = false }: TimeProps): VNode {
  const now = useNow()
  if (value === null) return <span class="faint">{none}</span>
  return (
    <time class={exact ? '' : 'nowrap'} dateTime={value} title={dateTime(value)}>
      {exact ? dateTime(value) : relative(value, now)}
    </time>
  )
}

/** Inline code, or a block with `block`. */
export function Code({
  block = false,
  children,
}: {
  readonly block?: boolean
  readonly children: ComponentChildren
}): VNode {
  if (!block) return <code class="code">{children}</code>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must reach scrollable content
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

/** A used part of an amount, and its meter. */
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

/** A bar that is filled to a percentage. */
export function Bar({ label, percent: filled, class: extra = '' }: BarProps): VNode {
  return (
    <span class={`meter ${extra}`} role="img" aria-label={`${label}: ${Math.round(filled)}%`}>
      <span class="meter-fill" style={{ width: `${filled}%` }} />
    </span>
  )
}
