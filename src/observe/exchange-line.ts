/** The log line of an exchange: its client, request, outcome and duration. */
import { formatMoney, visibleJson } from '#contract'
import type { ExchangeSummary } from './summary.ts'

/** Maximum number of cached texts and nodes; most lines consist of cached texts. */
const MAX_KNOWN = 4096

/** A node of the cache: a path of field values leads to the text of these fields. */
class Piece {
  next: Map<string | number | boolean | null, Piece> | null = null
  /** The text of the fields up to this one; empty until first used. */
  text = ''
}

/**
 * Formats lines without a general serializer, because each exchange has one. Fields that are null are omitted.
 * Clients and providers may have chosen any text but the exchange's id, so secrets are removed from it.
 */
export class ExchangeLines {
  readonly #clean: (text: string) => string
  /** The caches of the three parts that most lines share. */
  #requests = new Piece()
  #clients = new Piece()
  #ends = new Piece()
  /** Texts as JSON, with quotes. */
  readonly #texts = new Map<string, string>()
  #size = 0

  /** @param clean removes secrets from a text */
  constructor(clean: (text: string) => string) {
    this.#clean = clean
  }

  /** Clears the caches after the secrets changed. */
  forget(): void {
    this.#requests = new Piece()
    this.#clients = new Piece()
    this.#ends = new Piece()
    this.#texts.clear()
    this.#size = 0
  }

  /** @param time the field with the time, with the comma before it */
  line(summary: ExchangeSummary, time: string): string {
    const { usage, attempts, charge, firstChunkMs } = summary
    if (this.#size >= MAX_KNOWN) this.forget()
    let line = `{"level":"info"${time},"id":"${summary.id}"${this.#requestIn(summary)}${this.#clientIn(summary)}`
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

  #requestIn({ route, kind, traceId, policy, method, model, target }: ExchangeSummary): string {
    const ofRoute = this.#next(this.#next(this.#requests, route), kind)
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

/** Rounds to tenths of a millisecond: further digits are noise. */
function rounded(ms: number): number | null {
  return number(Math.round(ms * 10) / 10)
}

/** Null for Infinity, as JSON writes it: a count of a provider may exceed all numbers. */
function number(value: number): number | null {
  return Number.isFinite(value) ? value : null
}
