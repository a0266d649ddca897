/** The one line that the log has of an exchange: who asked for what, how it ended, how long it took. */
import { formatMoney, visibleJson } from '#contract'
import type { ExchangeSummary } from './summary.ts'

/** Texts that were written before; most lines are made of them. */
const MAX_KNOWN = 4096

/** The text of several fields, found from one field's value to the next one's. */
class Piece {
  next: Map<string | number | boolean | null, Piece> | null = null
  /** Of the fields up to this one; empty until it is needed. */
  text = ''
}

/**
 * Writes lines of one shape, without a general serializer: this line is written for each exchange. What is null is left out.
 * Every text but the exchange's own id may come from outside: secrets are taken out of it.
 */
export class ExchangeLines {
  readonly #clean: (text: string) => string
  /** The three parts of a line that most exchanges share. */
  #asked = new Piece()
  #clients = new Piece()
  #ends = new Piece()
  /** As JSON, with its quotes. */
  readonly #texts = new Map<string, string>()
  #size = 0

  /** @param clean takes secrets out of a text */
  constructor(clean: (text: string) => string) {
    this.#clean = clean
  }

  /** The secrets have changed. */
  forget(): void {
    this.#asked = new Piece()
    this.#clients = new Piece()
    this.#ends = new Piece()
    this.#texts.clear()
    this.#size = 0
  }

  /** @param time the field with the time, with the comma before it */
  line(summary: ExchangeSummary, time: string): string {
    const { usage, attempts, charge, firstChunkMs } = summary
    if (this.#size >= MAX_KNOWN) this.forget()
    let line = `{"level":"info"${time},"id":"${summary.id}"${this.#askedIn(summary)}${this.#clientIn(summary)}`
    if (summary.tags) line += this.#tagsIn(summary.tags)
    line += `${this.#endIn(summary)},"ms":${rounded(summary.ms)}`
    if (firstChunkMs !== null) line += `,"first_chunk_ms":${rounded(firstChunkMs)}`
    if (usage !== null) {
      line += `,"prompt_tokens":${number(usage.input ?? 0)},"completion_tokens":${number(usage.output ?? 0)}`
      if (usage.search !== undefined && Number.isFinite(usage.search)) line += `,"searches":${number(usage.search)}`
      line += `,"usage_source":"${usage.source}"`
    }
    if (charge !== null) line += `,"charged":"${formatMoney(charge.amount)}"`
    return `${line},"attempts":${attempts.length},"address":${this.#text(summary.address)},"bytes_in":${summary.bytesIn},"msg":"exchange"}\n`
  }

  #askedIn({ route, kind, traceId, policy, method, model, target }: ExchangeSummary): string {
    const ofRoute = this.#next(this.#next(this.#asked, route), kind)
    const all = this.#next(this.#next(this.#next(this.#next(ofRoute, policy), method), model), target)
    if (all.text === '') {
      ofRoute.text = `,"route":${this.#text(route)},"kind":"${kind}"`
      all.text = `,"policy":${this.#text(policy)},"method":${this.#text(method)}`
      all.text += this.#field('model', model) + this.#field('target', target)
    }
    return traceId === null ? ofRoute.text + all.text : `${ofRoute.text},"trace_id":"${traceId}"${all.text}`
  }

  #clientIn({ accountId, keyId }: ExchangeSummary): string {
    const all = this.#next(this.#next(this.#clients, accountId), keyId)
    if (all.text === '') all.text = this.#field('account', accountId) + this.#field('key', keyId)
    return all.text
  }

  #tagsIn(tags: NonNullable<ExchangeSummary['tags']>): string {
    const texts = Object.entries(tags).map(([name, value]) => `"${name}":${this.#text(value)}`)
    return texts.length === 0 ? '' : `,"tags":{${texts.join()}}`
  }

  #endIn({ status, outcome, code, decidedBy, stream }: ExchangeSummary): string {
    const ofStatus = this.#next(this.#next(this.#next(this.#ends, status), outcome), code)
    const all = this.#next(this.#next(ofStatus, decidedBy), stream)
    if (all.text === '') {
      all.text = status === null ? '' : `,"status":${status}`
      if (outcome !== null) all.text += `,"outcome":"${outcome}"`
      if (code !== null) all.text += `,"code":"${code}"`
      all.text += this.#field('decided_by', decidedBy)
      if (stream !== null) all.text += `,"stream":${stream}`
    }
    return all.text
  }

  #next(known: Piece, value: string | number | boolean | null): Piece {
    known.next ??= new Map()
    let next = known.next.get(value)
    if (next === undefined) {
      next = new Piece()
      known.next.set(value, next)
      this.#size++
    }
    return next
  }

  #field(name: string, value: string | null): string {
    return value === null ? '' : `,"${name}":${this.#text(value)}`
  }

  #text(value: string): string {
    const known = this.#texts.get(value)
    if (known !== undefined) return known
    const text = visibleJson(JSON.stringify(this.#clean(value.toWellFormed())))
    this.#texts.set(value, text)
    this.#size++
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
