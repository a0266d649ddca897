/** The providers of a bench: they answer with the script of a test, and record requests. */

import { failureOfError } from '../providers/attempt.ts'
import { RawAbort, RawFailure, type RawProxy, type RawRequest, type RawSink } from '../providers/raw.ts'
import type { QueuedHandler, Transport } from '../providers/transport.ts'
import { ANSWER_NAMES, type Fault, render, type ScriptedAnswer } from './answers.ts'
import { refuseUnknown } from './known-options.ts'
import { type BenchTime, turn } from './time.ts'

/** A request to a provider, and its progress. */
export interface UpstreamCall {
  readonly provider: string
  readonly path: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: Buffer
  /** Null if it is not a JSON object. */
  readonly body: Readonly<Record<string, unknown>> | null
  /** Number of pieces of the answer that were delivered. */
  readonly pieces: number
  /** `aborted`: the gateway ended it. Null while it is in progress. */
  readonly end: 'complete' | 'failed' | 'aborted' | null
}

/** Answers in order, the last one repeated; or a function of the request. */
export type Script =
  | ScriptedAnswer
  | readonly ScriptedAnswer[]
  | ((call: UpstreamCall, nth: number) => ScriptedAnswer | Promise<ScriptedAnswer>)

export interface ScriptedUpstream {
  /** All requests so far, oldest first. */
  readonly calls: readonly UpstreamCall[]
  /** Sets the script for later requests. */
  script(script: Script): void
  transportTo(provider: string): Transport
  readonly rawProxy: RawProxy
}

/** Maximum length of a silence, longer than the gateway's longest deadline. It ends earlier when the gateway aborts the request. */
const MAX_SILENCE_MS = 25 * 3_600_000
const SILENT_ROUND_MS = 1_000

type Writable<Value> = { -readonly [Name in keyof Value]: Value[Name] }
type Call = Writable<UpstreamCall>

/** @param onCall called for each request before it is answered */
export function createUpstream(time: BenchTime, onCall: (call: UpstreamCall) => void): ScriptedUpstream {
  const calls: Call[] = []
  let script: Script = {}
  let scriptedFrom = 0

  function begin(request: Pick<UpstreamCall, 'provider' | 'path' | 'headers' | 'bytes'>): Call {
    const call: Call = { ...request, body: objectIn(request.bytes), pieces: 0, end: null }
    calls.push(call)
    onCall(call)
    return call
  }

  async function answerTo(call: Call): Promise<ScriptedAnswer> {
    const nth = calls.indexOf(call) - scriptedFrom
    if (typeof script === 'function') return script(call, nth)
    return [script].flat()[Math.min(nth, [script].flat().length - 1)] ?? {}
  }

  return {
    calls,
    script(next) {
      if (typeof next !== 'function')
        for (const each of [next].flat()) refuseUnknown('upstream.script()', each, ANSWER_NAMES)
      script = next
      scriptedFrom = calls.length
    },
    transportTo: provider => (request, handler) => {
      const call = begin({ provider, path: request.path, headers: { ...request.headers }, bytes: request.body })
      void new Play(call, handler, time).run(() => answerTo(call))
    },
    rawProxy: {
      async send(request) {
        const { path, headers, bytes } = request
        const call = begin({ provider: request.provider.name, path, headers: { ...headers }, bytes })
        return sendRaw(call, request, time, await answerTo(call))
      },
      close() {},
    },
  }
}

/** Delivers one scripted answer to the gateway. */
class Play {
  readonly #call: Call
  readonly #handler: QueuedHandler
  readonly #time: BenchTime
  #resumed: PromiseWithResolvers<void> | null = null

  constructor(call: Call, handler: QueuedHandler, time: BenchTime) {
    this.#call = call
    this.#handler = handler
    this.#time = time
  }

  async run(answer: () => Promise<ScriptedAnswer>): Promise<void> {
    this.#handler.onConnect(() => this.#abort())
    await turn()
    try {
      await this.#answer(await answer())
    } catch (error) {
      this.#fail(error as Error)
    }
  }

  get #isOver(): boolean {
    return this.#call.end !== null
  }

  async #answer(scripted: ScriptedAnswer): Promise<void> {
    const { fault, after, waitMs = 0 } = scripted
    await this.#time.pass(waitMs)
    if (fault === 'unreachable' || (fault && fault !== 'garbage' && after === undefined)) {
      return this.#fault(fault)
    }
    const { status, headers, pieces } = render(scripted, this.#call.body)
    if (this.#isOver) return
    this.#handler.onHeaders(status, { ...headers }, () => this.#resumed?.resolve())
    for (const piece of fault ? pieces.slice(0, after ?? 0) : pieces) {
      await this.#deliver(piece)
      await scripted.onPiece?.(this.#call.pieces)
    }
    if (fault) return this.#fault(fault)
    if (this.#isOver) return
    this.#call.end = 'complete'
    this.#handler.onComplete()
  }

  async #deliver(piece: string): Promise<void> {
    await turn()
    if (this.#isOver) return
    this.#call.pieces++
    this.#resumed = Promise.withResolvers()
    if (!this.#handler.onData(Buffer.from(piece)) && !this.#isOver) await this.#resumed.promise
    await turn()
  }

  async #fault(fault: Fault): Promise<void> {
    if (fault === 'silent') return this.#beSilent()
    if (fault === 'garbage') {
      await this.#deliver('data: {"oh\n\n')
      if (!this.#isOver) this.#handler.onComplete()
      this.#call.end ??= 'failed'
      return
    }
    this.#fail(faultError(fault))
  }

  async #beSilent(): Promise<void> {
    for (let ms = 0; ms < MAX_SILENCE_MS && !this.#isOver; ms += SILENT_ROUND_MS) {
      await this.#time.pass(SILENT_ROUND_MS)
    }
  }

  #fail(error: Error): void {
    if (this.#isOver) return
    this.#call.end = 'failed'
    this.#handler.onError(error)
  }

  #abort(): void {
    this.#call.end ??= 'aborted'
    this.#resumed?.resolve()
  }
}

async function sendRaw(call: Call, request: RawRequest, time: BenchTime, scripted: ScriptedAnswer) {
  const { signal, provider, decodeError } = request
  const checkSignal = () => {
    if (!signal.aborted) return
    call.end ??= 'aborted'
    throw new RawAbort(signal, true)
  }
  const broken = (failure: RawFailure): RawFailure => {
    call.end ??= 'failed'
    return failure
  }
  await turn()
  await time.pass(scripted.waitMs ?? 0)
  checkSignal()
  if (scripted.fault === 'silent') {
    await time.pass(provider.timeouts.firstByteMs)
    checkSignal()
    throw broken(new RawFailure({ code: 'upstream_timeout', detail: 'the provider is silent' }, null))
  }
  if (scripted.fault === 'unreachable' || (scripted.fault === 'reset' && scripted.after === undefined)) {
    throw broken(new RawFailure(failureOfError(faultError(scripted.fault), false), null))
  }
  const { status, headers, pieces } = render(scripted, call.body)
  const whole = Buffer.from(pieces.join(''))
  if (status > 299) throw broken(new RawFailure(decodeError(status, headers, whole), status))
  const shown = Object.fromEntries(Object.entries(headers).filter(([name]) => PASSED_ON.includes(name)))
  const head = { status, headers: shown, length: scripted.fault ? null : whole.length }
  const sink = request.begin?.(head, () => {}) ?? null
  await deliverRaw(call, scripted.fault ? pieces.slice(0, scripted.after) : pieces, sink, checkSignal)
  if (scripted.fault) throw broken(new RawFailure(failureOfError(faultError('reset'), true), status))
  call.end = 'complete'
  return { ...head, body: sink ? Buffer.alloc(0) : whole }
}

const PASSED_ON: readonly string[] = ['content-type', 'content-disposition']

async function deliverRaw(
  call: Call,
  pieces: readonly string[],
  sink: RawSink | null,
  check: () => void,
): Promise<void> {
  for (const piece of pieces) {
    await turn()
    check()
    call.pieces++
    sink?.(Buffer.from(piece))
  }
  await turn()
  check()
}

function faultError(fault: Fault): Error {
  const code = fault === 'unreachable' ? 'ECONNREFUSED' : 'ECONNRESET'
  return Object.assign(new Error(`the provider is down (${code})`), { code })
}

function objectIn(bytes: Buffer): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null
  } catch {
    return null
  }
}
