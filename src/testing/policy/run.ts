/** Runs policy tests: each in a gateway of its own, with its own account, money and time. */
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
import { accountsOf, type People, type Person, settle } from './accounts.ts'
import { type Mismatch, mismatches, type Seen } from './expect.ts'
import { HttpStandIn } from './http.ts'
import { tokenFor, tokenStepOf, trusting } from './identity.ts'
import { inherited } from './inherit.ts'
import type { Guard } from './isolation.ts'
import { type PlacedTest, type PolicyTests, routeFor } from './read.ts'
import type { RequestShape, StepShape, UpstreamShape } from './schema.ts'

/** What became of a test. */
export interface TestResult {
  readonly name: string
  readonly line: number
  /** Empty: it passed. */
  readonly failures: readonly StepFailure[]
  readonly exchanges: number
}

/** What was not as expected, and the way there. */
export interface StepFailure {
  /** `1` is the first step, further ones stand under `then`. */
  readonly step: number
  readonly mismatches: readonly Mismatch[]
  /** Null: it is about no exchange. */
  readonly trail: readonly TrailEntry[] | null
  readonly mistakes: readonly string[]
}

const STEP_GRACE_MS = 1_000
/** What is scripted takes a few. */
const PATIENCE_MS = 4_000
const LATER_MS = 20

/**
 * Runs one test. Never rejects for what a policy or a plugin does: that is a failure of the test.
 *
 * @param patienceMs how long a request may come to no end, at least, in real milliseconds
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
  const beside = [...unanswered(http, run.step), ...wentWrongBeside(guard, run.step)]
  return { name: test.name, line: test.line, failures: [...run.failures, ...beside], exchanges: run.exchanges }
}

/** Null where no service is said: then nobody is reached, and a test may be about that. */
function httpOf({ http }: PolicyTests, test: PlacedTest): HttpStandIn | null {
  if (!http && !test.http && !test.then?.some(step => step.http)) return null
  const standIn = new HttpStandIn()
  // Also what a step asks when it is made.
  standIn.say({ ...http, ...test.http })
  return standIn
}

/** Calls that no answer of `http` is for. */
function unmatched(http: HttpStandIn | null): Mismatch[] {
  const calls = http?.takeUnmatched() ?? []
  return calls.map(got => ({ what: 'http', expected: 'an answer for every call', got }))
}

/** Those behind the last step, or from steps that could not be made. */
function unanswered(http: HttpStandIn | null, step: number): StepFailure[] {
  const found = unmatched(http)
  return found.length === 0 ? [] : [{ step, mismatches: found, trail: null, mistakes: [] }]
}

/** What the last test has set going, and what goes wrong in the moment after it. */
export async function wentWrongLater(guard: Guard): Promise<StepFailure[]> {
  await pause(LATER_MS)
  return wentWrongBeside(guard, 1)
}

/** What went wrong where nobody waits for it since this was last asked: a step has broken all the same. */
function wentWrongBeside(guard: Guard, step: number): StepFailure[] {
  const expected = 'nothing to go wrong beside it'
  const found = guard.takeErrors().map((got): Mismatch => ({ what: 'the test', expected, got }))
  return found.length === 0 ? [] : [{ step, mismatches: found, trail: null, mistakes: [] }]
}

/** What has become of a test so far. */
interface Run {
  readonly failures: StepFailure[]
  exchanges: number
  /** The step under way. */
  step: number
}

async function runSteps(stage: Omit<Stage, 'person' | 'said'>, run: Run): Promise<void> {
  const { test } = stage
  const people: People = await settle(stage.testGateway, test.given)
  const said: Said = { answers: [], from: 0 }
  for (const [nth, step] of [test, ...(test.then ?? [])].entries()) {
    run.step = nth + 1
    const request = nth === 0 ? (test.request ?? {}) : inherited(test, step)
    run.exchanges += request.times ?? 1
    const failure = await runStep(
      { ...stage, said, person: people.of(request.account) },
      { ...step, request },
      run.step,
    )
    if (failure) run.failures.push(failure)
  }
}

/** A test that does not come to its end, or whose gateway cannot be put together. */
function brokenBy(error: unknown, step: number): StepFailure {
  const isStuck = error instanceof StuckError
  const reason = error instanceof PlanError ? error.message : mistakeText(error)
  const got = isStuck && error.step !== null ? `the step "${error.step}" does not come to its end` : reason
  const trail = isStuck ? error.trail : null
  return { step, mismatches: [{ what: 'the test', expected: 'to run to its end', got }], trail, mistakes: [] }
}

interface Stage {
  readonly tests: PolicyTests
  readonly test: PlacedTest
  /** Whose identity provider, if it has one, is that of the tests. */
  readonly configuration: Configuration
  readonly testGateway: TestGateway
  readonly time: BenchTime
  readonly http: HttpStandIn | null
  /** Whose request it is. */
  readonly person: Person
  readonly said: Said
}

/** What the provider answers, and how many calls came before that was said. */
interface Said {
  answers: readonly ScriptedAnswer[]
  from: number
}

async function runStep(
  stage: Stage,
  step: StepShape & { readonly request: RequestShape },
  number: number,
): Promise<StepFailure | null> {
  const { testGateway, time, http } = stage
  // Those of the test itself are said already.
  if (number > 1) http?.say(step.http ?? {})
  if (step.after !== undefined) await time.pass(step.after)
  if (step.upstream !== undefined || number === 1) say(testGateway, stage.said, step.upstream)
  const before = { calls: testGateway.upstream.calls.length, mistakes: testGateway.mistakes.length }
  const request = await requestOf(stage, step.request)
  let answer: BenchAnswer | null = null
  for (let left = step.request.times ?? 1; left > 0; left--) {
    answer = await testGateway.send(request, headersOf(request, stage.person.good, stage.tests.configuration))
  }
  const seen = look(stage, answer!, before.calls)
  const found = [
    ...mismatches(step.expect, seen),
    ...faultsBehindTheEnd(testGateway, before.calls, stage.said),
    ...unmatched(http),
  ]
  if (found.length === 0) return null
  const mistakes = testGateway.mistakes.slice(before.mistakes).map(gatewayMistakeText)
  return { step: number, mismatches: found, trail: seen.trail, mistakes }
}

/** From now on, also in later steps that say nothing of their own: a provider does not know of steps. */
function say(testGateway: TestGateway, said: Said, upstream: StepShape['upstream'] = {}): void {
  said.answers = [upstream].flat().map(answerOf)
  said.from = testGateway.upstream.calls.length
  testGateway.upstream.script(said.answers)
}

/** A fault behind the last event is not the one that was meant: the whole answer has come before it. */
function faultsBehindTheEnd(testGateway: TestGateway, callsBefore: number, { answers, from }: Said): Mismatch[] {
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

function look({ testGateway, person, http }: Stage, answer: BenchAnswer, callsBefore: number): Seen {
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
    balance: testGateway.store.reads.findAccount(person.account)!.posted,
  }
}

function answerOf({ wait, ...said }: UpstreamShape): ScriptedAnswer {
  return { ...said, ...(wait === undefined ? {} : { waitMs: wait }) }
}

async function requestOf(stage: Stage, said: RequestShape): Promise<BenchRequest> {
  const { tests } = stage
  const target = routeFor(tests.configuration, tests.policy, said)
  const path = said.path ?? target.path
  const method = said.method ?? target.methods[0] ?? 'POST'
  const { headers, address, leaves_after: leaveAfter } = said
  const body = bodyOf(tests, said, method, asksModel(target.kind) ? target.kind : null)
  return {
    method,
    path,
    ...(headers ? { headers } : {}),
    ...(body === undefined ? {} : { body }),
    ...(address === undefined ? {} : { address }),
    ...(leaveAfter === undefined ? {} : { leaveAfter }),
    key: await tokenOf(stage, said),
  }
}

function bodyOf({ configuration }: PolicyTests, said: RequestShape, method: string, kind: string | null): unknown {
  const { body, model, content = 'Hello', stream } = said
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

async function tokenOf(stage: Stage, said: RequestShape): Promise<string | null> {
  const { testGateway, time, person, configuration } = stage
  const { store } = testGateway
  const which = said.key ?? 'good'
  const step = tokenStepOf(routeFor(configuration, stage.tests.policy, said))
  if (step && which !== 'none' && which !== 'revoked') {
    const { name: account, models } = person
    const { claims } = said
    const bearer = { account, nowMs: time.clock.now(), ...(models ? { models } : {}), ...(claims ? { claims } : {}) }
    return tokenFor(step, which, bearer, configuration.models.values())
  }
  switch (which) {
    case 'good':
      return person.good
    case 'none':
      return null
    case 'unknown':
      // Well formed, and of nobody: it is made by another store.
      return strangersKey(time)
    case 'revoked': {
      const { key, token } = await store.createKey({ account: person.account, name: 'revoked' })
      await store.revokeKey(key.id)
      return token
    }
    case 'expired': {
      const expiresAt = time.clock.now() + 1
      const { token } = await store.createKey({ account: person.account, name: 'expired', expiresAt })
      await time.pass(2)
      return token
    }
  }
}

async function strangersKey({ clock }: BenchTime): Promise<string> {
  const store = await openStore({ url: 'memory', secret: "a stranger's secret, of another testGateway", clock })
  try {
    const { id } = await store.createAccount({ name: 'stranger' })
    return (await store.createKey({ account: id, name: 'stranger' })).token
  } finally {
    await store.close()
  }
}
