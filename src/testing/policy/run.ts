/** Runs policy tests, each in its own gateway, with its own account, money and time. */
import { asksModel, mistakeText, type TrailEntry } from '#contract'
import type { Configuration } from '../../config/configuration.ts'
import { PlanError } from '../../loader/plan.ts'
import { render, type ScriptedAnswer } from '../../simulate/answers.ts'
import { simulated } from '../../simulate/steps.ts'
import { type BenchTime, createTime, sameNumbers } from '../../simulate/time.ts'
import { type BenchAnswer, type BenchRequest, headersOf } from '../../simulate/visit.ts'
import { gatewayMistakeText, pause, StuckError, TestGateway } from '../../simulate/whole-gateway.ts'
import { openStore } from '../../store/engine/sqlite.ts'
import { startOf } from '../bench.ts'
import { accountsOf, createAccounts, type TestAccount, type TestAccounts } from './accounts.ts'
import { type ExchangeResult, type Mismatch, mismatches } from './expect.ts'
import { HttpStandIn } from './http.ts'
import { tokenFor, tokenStepOf, trusting } from './identity.ts'
import { inherited } from './inherit.ts'
import type { Guard } from './isolation.ts'
import { type PlacedTest, type PolicyTests, routeFor } from './read.ts'
import type { RequestShape, StepShape, UpstreamShape } from './schema.ts'

export interface TestResult {
  readonly name: string
  readonly line: number
  /** Empty if it passed. */
  readonly failures: readonly StepFailure[]
  readonly exchanges: number
}

/** The differences of a step, and its trail. */
export interface StepFailure {
  /** Number from 1; further steps are under `then`. */
  readonly step: number
  readonly mismatches: readonly Mismatch[]
  /** Null if it has no exchange. */
  readonly trail: readonly TrailEntry[] | null
  readonly mistakes: readonly string[]
}

const STEP_GRACE_MS = 1_000
/** Scripted requests take a few milliseconds. */
const PATIENCE_MS = 4_000
const LATER_MS = 20

/**
 * Runs one test. Never rejects because of a policy or a plugin: that is a failure of the test.
 *
 * @param patienceMs minimum real time before a request without progress is reported as stuck, in milliseconds
 */
export async function runTest(
  tests: PolicyTests,
  test: PlacedTest,
  guard: Guard,
  patienceMs = PATIENCE_MS,
): Promise<TestResult> {
  const time = createTime(startOf(test.given?.clock))
  const run: Run = { failures: [], exchanges: 0, step: 1 }
  const http = httpOf(tests, test)
  guard.answerBy(http)
  try {
    const configuration = await trusting(simulated(tests.configuration), accountsOf(test.given)[0]![0])
    const testGateway = await TestGateway.open({
      configuration,
      time,
      random: sameNumbers(),
      stepGraceMs: STEP_GRACE_MS,
      patienceMs,
      store: 'memory',
    })
    try {
      await runSteps({ tests, test, configuration, testGateway, time, http }, run)
    } finally {
      await testGateway.close()
    }
  } catch (error) {
    run.failures.push(brokenBy(error, run.step))
  } finally {
    guard.answerBy(null)
  }
  const last = run.failures.pop()
  const refused = guard.takeRefused()
  if (last) run.failures.push({ ...last, mistakes: [...last.mistakes, ...refused] })
  const others = [...httpFailures(http, run.step), ...unhandledFailures(guard, run.step)]
  return { name: test.name, line: test.line, failures: [...run.failures, ...others], exchanges: run.exchanges }
}

/** Null if neither the file nor the test has `http`: calls of plugins then fail, as in an outage. */
function httpOf({ http }: PolicyTests, test: PlacedTest): HttpStandIn | null {
  if (!http && !test.http && !test.then?.some(step => step.http)) return null
  const standIn = new HttpStandIn()
  // Includes calls of a step at its creation.
  standIn.setAnswers({ ...http, ...test.http })
  return standIn
}

/** Calls without an answer in `http`. */
function unmatched(http: HttpStandIn | null): Mismatch[] {
  const calls = http?.takeUnmatched() ?? []
  return calls.map(got => ({ what: 'http', expected: 'an answer for every call', got }))
}

/** Calls after the last step, or of steps that could not be created. */
function httpFailures(http: HttpStandIn | null, step: number): StepFailure[] {
  const found = unmatched(http)
  return found.length === 0 ? [] : [{ step, mismatches: found, trail: null, mistakes: [] }]
}

/** Errors shortly after the last test. */
export async function laterFailures(guard: Guard): Promise<StepFailure[]> {
  await pause(LATER_MS)
  return unhandledFailures(guard, 1)
}

/** Unhandled errors since the last call, as a failure of a step. */
function unhandledFailures(guard: Guard, step: number): StepFailure[] {
  const expected = 'no unhandled error'
  const found = guard.takeErrors().map((got): Mismatch => ({ what: 'the test', expected, got }))
  return found.length === 0 ? [] : [{ step, mismatches: found, trail: null, mistakes: [] }]
}

/** The state of a running test. */
interface Run {
  readonly failures: StepFailure[]
  exchanges: number
  /** The current step. */
  step: number
}

async function runSteps(stage: Omit<Stage, 'account' | 'script'>, run: Run): Promise<void> {
  const { test } = stage
  const accounts: TestAccounts = await createAccounts(stage.testGateway, test.given)
  const script: UpstreamScript = { answers: [], from: 0 }
  for (const [nth, step] of [test, ...(test.then ?? [])].entries()) {
    run.step = nth + 1
    const request = nth === 0 ? (test.request ?? {}) : inherited(test, step)
    run.exchanges += request.times ?? 1
    const failure = await runStep(
      { ...stage, script, account: accounts.of(request.account) },
      { ...step, request },
      run.step,
    )
    if (failure) run.failures.push(failure)
  }
}

/** The failure for a test that does not end, or whose gateway cannot be created. */
function brokenBy(error: unknown, step: number): StepFailure {
  const isStuck = error instanceof StuckError
  const reason = error instanceof PlanError ? error.message : mistakeText(error)
  const got = isStuck && error.step !== null ? `the step "${error.step}" does not end` : reason
  const trail = isStuck ? error.trail : null
  return { step, mismatches: [{ what: 'the test', expected: 'to end', got }], trail, mistakes: [] }
}

interface Stage {
  readonly tests: PolicyTests
  readonly test: PlacedTest
  /** The configuration, which trusts the identity provider of the tests. */
  readonly configuration: Configuration
  readonly testGateway: TestGateway
  readonly time: BenchTime
  readonly http: HttpStandIn | null
  /** The account of the request. */
  readonly account: TestAccount
  readonly script: UpstreamScript
}

/** The provider's script, and the number of calls before it was set. */
interface UpstreamScript {
  answers: readonly ScriptedAnswer[]
  from: number
}

async function runStep(
  stage: Stage,
  step: StepShape & { readonly request: RequestShape },
  number: number,
): Promise<StepFailure | null> {
  const { testGateway, time, http } = stage
  // The test itself has set its answers already.
  if (number > 1) http?.setAnswers(step.http ?? {})
  if (step.after !== undefined) await time.pass(step.after)
  if (step.upstream !== undefined || number === 1) setScript(testGateway, stage.script, step.upstream)
  const before = { calls: testGateway.upstream.calls.length, mistakes: testGateway.mistakes.length }
  const request = await requestOf(stage, step.request)
  let answer: BenchAnswer | null = null
  for (let left = step.request.times ?? 1; left > 0; left--) {
    answer = await testGateway.send(request, headersOf(request, stage.account.good, stage.tests.configuration))
  }
  const result = resultOf(stage, answer!, before.calls)
  const found = [
    ...mismatches(step.expect, result),
    ...faultsAfterEnd(testGateway, before.calls, stage.script),
    ...unmatched(http),
  ]
  if (found.length === 0) return null
  const mistakes = testGateway.mistakes.slice(before.mistakes).map(gatewayMistakeText)
  return { step: number, mismatches: found, trail: result.trail, mistakes }
}

/** Sets the script, also for later steps without their own. */
function setScript(testGateway: TestGateway, script: UpstreamScript, upstream: StepShape['upstream'] = {}): void {
  script.answers = [upstream].flat().map(answerOf)
  script.from = testGateway.upstream.calls.length
  testGateway.upstream.script(script.answers)
}

/** Reports a fault after the last event: the client gets the whole answer before it, which cannot be intended. */
function faultsAfterEnd(testGateway: TestGateway, callsBefore: number, { answers, from }: UpstreamScript): Mismatch[] {
  return testGateway.upstream.calls.slice(callsBefore).flatMap(({ body }, nth) => {
    const at = Math.min(callsBefore + nth - from, answers.length - 1)
    const answer = answers[at]!
    if (answer.fault === undefined || answer.after === undefined) return []
    const most = render(answer, body).pieces.length - 1
    const what = answers.length > 1 ? `upstream.${at}.after` : 'upstream.after'
    return answer.after <= most
      ? []
      : [{ what, expected: `at most ${most}, before the end`, got: String(answer.after) }]
  })
}

function resultOf({ testGateway, account, http }: Stage, answer: BenchAnswer, callsBefore: number): ExchangeResult {
  const record = testGateway.records.get(answer.id ?? '')
  const calls = testGateway.upstream.calls.slice(callsBefore)
  return {
    answer,
    trail: record?.trail ?? [],
    outcome: record?.outcome ?? null,
    tags: record?.tags ?? {},
    decidedBy: record?.decidedBy ?? null,
    calls: calls.length,
    http: http?.takeCalls() ?? new Map(),
    sent: calls.at(-1)?.body ?? null,
    receipt: answer.id === null ? undefined : testGateway.store.reads.findReceipt(answer.id),
    balance: testGateway.store.reads.findAccount(account.account)!.posted,
  }
}

function answerOf({ wait, ...answer }: UpstreamShape): ScriptedAnswer {
  return { ...answer, ...(wait === undefined ? {} : { waitMs: wait }) }
}

async function requestOf(stage: Stage, shape: RequestShape): Promise<BenchRequest> {
  const { tests } = stage
  const target = routeFor(tests.configuration, tests.policy, shape)
  const path = shape.path ?? target.path
  const method = shape.method ?? target.methods[0] ?? 'POST'
  const { headers, address, leaves_after: leaveAfter } = shape
  const body = bodyOf(tests, shape, method, asksModel(target.kind) ? target.kind : null)
  return {
    method,
    path,
    ...(headers ? { headers } : {}),
    ...(body === undefined ? {} : { body }),
    ...(address === undefined ? {} : { address }),
    ...(leaveAfter === undefined ? {} : { leaveAfter }),
    key: await tokenOf(stage, shape),
  }
}

function bodyOf({ configuration }: PolicyTests, shape: RequestShape, method: string, kind: string | null): unknown {
  const { body, model, content = 'Hello', stream } = shape
  if (typeof body === 'string') return body
  if (kind === null || method === 'GET' || body === null) return body ?? undefined
  const asked = kind === 'responses' ? { input: content } : { messages: [{ role: 'user', content }] }
  return {
    model: model ?? [...configuration.models.keys()][0],
    ...asked,
    ...(kind === 'messages' ? { max_tokens: 100 } : {}),
    ...(stream ? { stream } : {}),
    ...body,
  }
}

async function tokenOf(stage: Stage, shape: RequestShape): Promise<string | null> {
  const { testGateway, time, account, configuration } = stage
  const { store } = testGateway
  const which = shape.key ?? 'good'
  const step = tokenStepOf(routeFor(configuration, stage.tests.policy, shape))
  if (step && which !== 'none' && which !== 'revoked') {
    const { name, plan, models } = account
    const { claims } = shape
    const more = { ...(models ? { models } : {}), ...(claims ? { claims } : {}) }
    const bearer = { account: name, plan, nowMs: time.clock.now(), ...more }
    return tokenFor(step, which, bearer, configuration.models.values())
  }
  switch (which) {
    case 'good':
      return account.good
    case 'none':
      return null
    case 'unknown':
      // Well formed, but made by another store.
      return foreignKey(time)
    case 'revoked': {
      const { key, token } = await store.createKey({ account: account.account, name: 'revoked' })
      await store.revokeKey(key.id)
      return token
    }
    case 'expired': {
      const expiresAt = time.clock.now() + 1
      const { token } = await store.createKey({ account: account.account, name: 'expired', expiresAt })
      await time.pass(2)
      return token
    }
  }
}

async function foreignKey({ clock }: BenchTime): Promise<string> {
  const store = await openStore({ url: 'memory', secret: 'the secret of another gateway', clock })
  try {
    const { id } = await store.createAccount({ name: 'foreign' })
    return (await store.createKey({ account: id, name: 'foreign' })).token
  } finally {
    await store.close()
  }
}
