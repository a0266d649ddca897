/** The one line that the log has of an exchange: who asked for what, how it ended, how long it took. */
import { formatMoney, visibleJson } from '#contract'
import type { ExchangeSummary } from './summary.ts'

/** Texts that were written before; in most lines every text is one of them. */
const MAX_KNOWN = 4096

/**
 * Writes lines of one shape, without a general serializer: this line is written for each exchange. What is null is left out.
 * Every text but the exchange's own id may come from outside: secrets are taken out of it.
 */
export class ExchangeLines {
  readonly #clean: (text: string) => string
  /** As JSON, with its quotes. */
  readonly #known = new Map<string, string>()

  /** @param clean takes secrets out of a text */
  constructor(clean: (text: string) => string) {
    this.#clean = clean
  }

  /** The secrets have changed. */
  forget(): void {
    this.#known.clear()
  }

  /** @param time the field with the time, with the comma before it */
  line(summary: ExchangeSummary, time: string): string {
    const { usage, attempts, charge, code, status, stream, firstChunkMs } = summary
    let line = `{"level":"info"${time},"id":"${summary.id}","route":${this.#text(summary.route)},"kind":"${summary.kind}"`
    if (summary.traceId !== null) line += `,"trace_id":"${summary.traceId}"`
    line += `,"policy":${this.#text(summary.policy)},"method":${this.#text(summary.method)}`
    line += this.#field('model', summary.model) + this.#field('target', summary.target)
    line += this.#field('account', summary.accountId) + this.#field('key', summary.keyId)
    if (status !== null) line += `,"status":${status}`
    if (summary.outcome !== null) line += `,"outcome":"${summary.outcome}"`
    if (code !== null) line += `,"code":"${code}"`
    line += this.#field('decided_by', summary.decidedBy)
    if (stream !== null) line += `,"stream":${stream}`
    line += `,"ms":${rounded(summary.ms)}`
    if (firstChunkMs !== null) line += `,"first_chunk_ms":${rounded(firstChunkMs)}`
    if (usage !== null) {
      line += `,"prompt_tokens":${number(usage.input ?? 0)},"completion_tokens":${number(usage.output ?? 0)}`
      if (usage.search !== undefined && Number.isFinite(usage.search)) line += `,"searches":${number(usage.search)}`
      line += `,"usage_source":"${usage.source}"`
    }
    if (charge !== null) line += `,"charged":"${formatMoney(charge.amount)}"`
    line += `,"attempts":${attempts.length},"address":${this.#text(summary.address)}`
    return `${line},"bytes_in":${summary.bytesIn},"msg":"exchange"}\n`
  }

  #field(name: string, value: string | null): string {
    return value === null ? '' : `,"${name}":${this.#text(value)}`
  }

  #text(value: string): string {
    const known = this.#known.get(value)
    if (known !== undefined) return known
    const text = visibleJson(JSON.stringify(this.#clean(value.toWellFormed())))
    if (this.#known.size >= MAX_KNOWN) this.#known.clear()
    this.#known.set(value, text)
    return text
  }
}

/** Tenths of a millisecond: more is noise. */
function rounded(ms: number): number | null {
  return number(Math.round(ms * 10) / 10)
}

/** As JSON writes it: a provider's count may be larger than any number. */
function number(value: number): number | null {
  return Number.isFinite(value) ? value : null
}
