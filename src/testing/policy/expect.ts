/** Compares the result of a policy test with its expectations. */
import { formatMoney, type NanoUsd, type Receipt, type TrailEntry } from '#contract'
import type { BenchAnswer } from '../../simulate/visit.ts'
import type { ExpectShape } from './schema.ts'

export interface ExchangeResult {
  readonly answer: BenchAnswer
  readonly trail: readonly TrailEntry[]
  readonly outcome: string | null
  readonly tags: Readonly<Record<string, string>>
  /** The step that refused, failed or answered; `send` for the upstream call, `gateway` before the steps. */
  readonly decidedBy: string | null
  /** Requests to providers. */
  readonly calls: number
  /** Number of calls of each service of `http`. */
  readonly http: ReadonlyMap<string, number>
  /** The body of the last request to a provider. */
  readonly sent: Readonly<Record<string, unknown>> | null
  readonly receipt: Receipt | undefined
  readonly balance: NanoUsd
}

/** A difference; both sides as text. */
export interface Mismatch {
  readonly what: string
  readonly expected: string
  readonly got: string
}

export function mismatches(expect: ExpectShape, result: ExchangeResult): Mismatch[] {
  const { answer, receipt, trail } = result
  const plain: readonly (readonly [string, unknown, unknown])[] = [
    ['status', expect.status, answer.left ? null : answer.status],
    ['code', expect.code, answer.error?.code ?? null],
    ['decided_by', expect.decided_by, result.decidedBy],
    ['outcome', expect.outcome, result.outcome],
    ['upstream', expect.upstream, result.calls],
    ['content', expect.content, answer.content],
    ['held', shown(expect.held), shown(receipt?.held ?? 0n)],
    ['charged', shown(expect.charged), shown(receipt?.charged ?? 0n)],
    ['source', expect.source, receipt?.source ?? null],
    ['balance', shown(expect.balance), shown(result.balance)],
    ...Object.entries(expect.http ?? {}).map(
      ([key, times]) => [`http.${key}`, times, result.http.get(key) ?? 0] as const,
    ),
    ...Object.entries(expect.tags ?? {}).map(
      ([name, value]) => [`tags.${name}`, value, result.tags[name] ?? null] as const,
    ),
    ...Object.entries(expect.trail ?? {}).map(
      ([step, verdict]) =>
        [`trail.${step}`, verdict, trail.find(each => each.step === step)?.verdict ?? 'absent'] as const,
    ),
  ]
  return [
    ...plain.flatMap(([what, expected, got]) =>
      expected === undefined || expected === got ? [] : [differs(what, expected, got)],
    ),
    ...Object.entries(expect.headers ?? {}).flatMap(([name, wanted]) => headerDiffers(name, wanted, answer.headers)),
    ...(expect.sent ? partDiffers('sent', expect.sent, result.sent) : []),
    ...(expect.body ? partDiffers('body', expect.body, bodyOf(answer)) : []),
  ]
}

const shown = (amount: NanoUsd | undefined) => (amount === undefined ? undefined : `$${formatMoney(amount)}`)

function bodyOf(answer: BenchAnswer): unknown {
  try {
    return answer.json()
  } catch {
    return answer.text
  }
}

/** The pattern of `/text/`; null if it is not a pattern. Throws for an invalid pattern. */
export function patternOf(wanted: string | number | null): RegExp | null {
  const pattern = typeof wanted === 'string' ? /^\/(.*)\/$/.exec(wanted)?.[1] : undefined
  return pattern === undefined ? null : new RegExp(pattern)
}

function headerDiffers(name: string, wanted: string | number | null, headers: BenchAnswer['headers']): Mismatch[] {
  const got = headers[name.toLowerCase()] ?? null
  const pattern = patternOf(wanted)
  const fits = pattern ? pattern.test(got ?? '') : got === (wanted === null ? null : String(wanted))
  return fits ? [] : [differs(`headers.${name}`, wanted, got)]
}

/** Compares recursively: objects may have additional members, lists may not. */
function partDiffers(what: string, wanted: unknown, got: unknown): Mismatch[] {
  if (typeof wanted !== 'object' || wanted === null) return Object.is(wanted, got) ? [] : [differs(what, wanted, got)]
  if (typeof got !== 'object' || got === null || Array.isArray(wanted) !== Array.isArray(got)) {
    return [differs(what, wanted, got)]
  }
  if (Array.isArray(wanted) && Array.isArray(got) && wanted.length !== got.length) {
    return [differs(what, wanted, got)]
  }
  return Object.entries(wanted).flatMap(([key, inner]) =>
    partDiffers(`${what}.${key}`, inner, (got as Record<string, unknown>)[key]),
  )
}

function differs(what: string, expected: unknown, got: unknown): Mismatch {
  return { what, expected: words(expected), got: words(got) }
}

function words(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  return typeof value === 'string' ? value : JSON.stringify(value)
}
