/**
 * Runs one request with the real gateway code in this process, without a network. Time, money, the client and the providers are
 * simulated.
 */
import type { Exchange, NanoUsd, Receipt, StepMiddleware } from '#contract'
import type { Configuration } from '../../config/configuration.ts'
import type { ScriptedAnswer } from '../../simulate/answers.ts'
import { createTime, sameNumbers } from '../../simulate/time.ts'
import type { UpstreamCall } from '../../simulate/upstream.ts'
import { type BenchAnswer, headersOf } from '../../simulate/visit.ts'
import { type BenchRecord, gatewayMistakeText, StuckError, TestGateway } from '../../simulate/whole-gateway.ts'
import { createAccounts } from '../../testing/policy/accounts.ts'
import { CommandError } from '../terminal.ts'
import { type Caller, type RequestRecording, standInsFor, withRecorders } from './recorder.ts'
import { type Fit, fitsOf } from './targets.ts'

/** A header of the command line; null removes a default header. */
export interface HeaderText {
  readonly name: string
  readonly value: string | null
}

/** The options for the request and its client. */
export interface RunOptions {
  readonly path: string | null
  readonly account: string
  readonly plan: string
  readonly balance: NanoUsd
  /** Null: all public models. */
  readonly models: readonly string[] | null
  readonly atMs: number
  readonly headers: readonly HeaderText[]
  /** The provider's answers, in order; empty: each call succeeds. */
  readonly upstream: readonly string[]
}

/** The request to try. */
export interface TrialRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string | null>>
  /** A value to encode as JSON, or a text; undefined: no body. */
  readonly body: unknown
}

/** The result of the request with the recordings. */
export interface RunResult {
  readonly answer: BenchAnswer
  /** Undefined if the request reached no step: no route, a wrong method, or a refused request head. */
  readonly record: BenchRecord | undefined
  readonly seen: RequestRecording
  readonly exchange: Exchange | null
  /** Empty if the request was refused before the upstream call. */
  readonly fits: readonly Fit[]
  readonly calls: readonly UpstreamCall[]
  readonly receipt: Receipt | undefined
  /** Errors in the code of steps. */
  readonly mistakes: readonly string[]
}

/** The time that a step has to return after the answer. External steps may wait for other systems. */
const STEP_GRACE_MS = 1_000

/**
 * Runs the request and reports the result. The report comes before the steps are disposed, because an external step may not end.
 * Returns a sentence about the steps that did not end, or null.
 */
export async function runRequest(
  configuration: Configuration,
  request: TrialRequest,
  run: RunOptions,
  report: (ran: RunResult) => Promise<void>,
): Promise<string | null> {
  const time = createTime(run.atMs)
  const seen: RequestRecording = { steps: new Map(), exchange: null }
  const caller: Caller = { account: '', key: null }
  let testGateway: TestGateway | null = null
  let fits: readonly Fit[] = []
  const beforeSend: StepMiddleware = async ({ exchange }, next) => {
    fits = fitsOf(configuration, exchange, time.clock.now)
    keepFitting(exchange, fits)
    await next()
  }
  const standIn = standInsFor(caller, id => testGateway?.store.reads.findAccount(id))
  testGateway = await TestGateway.open({
    configuration: withRecorders(configuration, { seen, standIn, beforeSend }),
    time,
    random: sameNumbers(),
    stepGraceMs: STEP_GRACE_MS,
    store: 'memory',
    run: 'explain',
  })
  let held: string | null = null
  try {
    const key = run.models ? { models: run.models } : {}
    const people = await createAccounts(testGateway, {
      account: { name: run.account, plan: run.plan, balance: run.balance },
      key,
    })
    caller.account = people.account
    caller.key = people.key
    testGateway.upstream.script(run.upstream.map(answerOf))
    const answer = await send(testGateway, configuration, request, people.good)
    await report({
      answer,
      record: testGateway.records.get(answer.id ?? ''),
      seen,
      exchange: seen.exchange,
      fits,
      calls: testGateway.upstream.calls,
      receipt: answer.id === null ? undefined : testGateway.store.reads.findReceipt(answer.id),
      mistakes: testGateway.mistakes.map(gatewayMistakeText),
    })
  } finally {
    await testGateway.close().catch((error: Error) => {
      held = error.message
    })
  }
  return held
}

async function send(
  testGateway: TestGateway,
  configuration: Configuration,
  request: TrialRequest,
  token: string,
): Promise<BenchAnswer> {
  const { method, path, headers, body } = request
  const sent = { method, path, headers, ...(body === undefined ? {} : { body }) }
  try {
    return await testGateway.send(sent, headersOf(sent, token, configuration))
  } catch (error) {
    if (error instanceof StuckError) throw new CommandError(error.message)
    throw error
  }
}

/** Removes targets that do not support the request. Without any left, the request is refused, as in a running gateway. */
function keepFitting(exchange: Exchange, fits: readonly Fit[]): void {
  const fitting = fits.filter(({ refusal }) => refusal === null).map(({ target }) => target)
  const unfit = fits.at(-1)?.refusal
  if (fitting.length === 0 && unfit) throw unfit
  Object.defineProperty(exchange, 'targets', { get: () => fitting })
}

const FAULTS = ['unreachable', 'reset', 'silent', 'garbage'] as const

/** Parses `503`, `unreachable`, or the text of an answer. */
function answerOf(text: string): ScriptedAnswer {
  const fault = FAULTS.find(each => each === text)
  if (fault) return { fault }
  if (!/^\d{3}$/.test(text)) return { content: text }
  const status = Number(text)
  if (status < 200 || status > 599) throw new CommandError(`--upstream: ${text} is not a status from 200 to 599`)
  return { status }
}
