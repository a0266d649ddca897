/** Runs policy tests: each in a gateway of its own, with its own account, money and time. */
import { asksModel, type TrailEntry } from '#contract'
import { played } from '../../pipeline/played.ts'
import { openStore } from '../../store/sqlite.ts'
import type { ScriptedAnswer } from '../answers.ts'
import { headersOf, sameNumbers, startOf } from '../bench.ts'
import { type House, openHouse } from '../house.ts'
import { type BenchTime, createTime } from '../time.ts'
import type { BenchAnswer, BenchRequest } from '../visit.ts'
import { type Mismatch, mismatches, type Seen } from './expect.ts'
import { type People, settle } from './people.ts'
import type { PlacedTest, PolicyTests } from './read.ts'
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
  readonly trail: readonly TrailEntry[]
  readonly mistakes: readonly string[]
}

const STEP_GRACE_MS = 50

export async function runTest(tests: PolicyTests, test: PlacedTest): Promise<TestResult> {
  const { configuration } = tests
  const time = createTime(startOf(test.given?.clock))
  const house = await openHouse({
    configuration: played(configuration),
    time,
    random: sameNumbers(),
    stepGraceMs: STEP_GRACE_MS,
    store: 'memory',
  })
  const failures: StepFailure[] = []
  let exchanges = 0
  try {
    const people = await settle(house, test.given)
    for (const [nth, step] of [test, ...(test.then ?? [])].entries()) {
      exchanges += step.request?.times ?? 1
      const failure = await runStep({ tests, house, time, people }, step, nth + 1)
      if (failure) failures.push(failure)
    }
  } finally {
    await house.close()
  }
  return { name: test.name, line: test.line, failures, exchanges }
}

interface Stage {
  readonly tests: PolicyTests
  readonly house: House
  readonly time: BenchTime
  readonly people: People
}

async function runStep(stage: Stage, step: StepShape, number: number): Promise<StepFailure | null> {
  const { house, time } = stage
  if (step.after !== undefined) await time.pass(step.after)
  house.upstream.script([step.upstream ?? {}].flat().map(answerOf))
  const before = { calls: house.upstream.calls.length, mistakes: house.mistakes.length }
  const request = await requestOf(stage, step.request ?? {})
  let answer: BenchAnswer | null = null
  for (let left = step.request?.times ?? 1; left > 0; left--) {
    answer = await house.send(request, headersOf(request, stage.people.good, stage.tests.configuration))
  }
  const seen = look(stage, answer!, before.calls)
  const found = mismatches(step.expect, seen)
  if (found.length === 0) return null
  const mistakes = house.mistakes.slice(before.mistakes).map(mistake => {
    const why = mistake.error instanceof Error ? `: ${mistake.error.message}` : ''
    return 'what' in mistake ? `the step "${mistake.step}" ${mistake.what}${why}` : `an unexpected error${why}`
  })
  return { step: number, mismatches: found, trail: seen.trail, mistakes }
}

function look({ house, people }: Stage, answer: BenchAnswer, callsBefore: number): Seen {
  const record = house.records.get(answer.id ?? '')
  const calls = house.upstream.calls.slice(callsBefore)
  return {
    answer,
    trail: record?.trail ?? [],
    outcome: record?.outcome ?? null,
    decidedBy: record?.decidedBy ?? null,
    calls: calls.length,
    sent: calls.at(-1)?.body ?? null,
    receipt: answer.id === null ? undefined : house.store.findReceipt(answer.id),
    balance: house.store.findAccount(people.account)!.posted,
  }
}

function answerOf({ wait, ...said }: UpstreamShape): ScriptedAnswer {
  return { ...said, ...(wait === undefined ? {} : { waitMs: wait }) }
}

async function requestOf(stage: Stage, said: RequestShape): Promise<BenchRequest> {
  const { tests } = stage
  const route = tests.configuration.routes.find(({ policy }) => policy === tests.policy)!
  const path = said.path ?? route.path
  const target = tests.configuration.routes.find(each => each.path === path) ?? route
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
    key: await tokenOf(stage, said.key ?? 'good'),
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

async function tokenOf(
  { house, time, people }: Stage,
  which: NonNullable<RequestShape['key']>,
): Promise<string | null> {
  const { store } = house
  switch (which) {
    case 'good':
      return people.good
    case 'none':
      return null
    case 'unknown':
      // Well formed, and of nobody: it is made by another store.
      return strangersKey(time)
    case 'revoked': {
      const { key, token } = await store.createKey({ account: people.account, name: 'revoked' })
      await store.revokeKey(key.id)
      return token
    }
    case 'expired': {
      const expiresAt = time.clock.now() + 1
      const { token } = await store.createKey({ account: people.account, name: 'expired', expiresAt })
      await time.pass(2)
      return token
    }
  }
}

async function strangersKey({ clock }: BenchTime): Promise<string> {
  const store = await openStore({ url: 'memory', secret: "a stranger's secret, of another house", clock })
  try {
    const { id } = await store.createAccount({ name: 'stranger' })
    return (await store.createKey({ account: id, name: 'stranger' })).token
  } finally {
    await store.close()
  }
}
