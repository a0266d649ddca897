/** Reads a file of policy tests and its configuration. Problems have a place in one of the two. */
import { readFile as readFromDisk } from 'node:fs/promises'
import { isIP } from 'node:net'
import { basename, dirname, resolve } from 'node:path'
import { parse } from 'yaml'
import { ERRORS } from '#contract'
import type { Configuration, RouteConfig } from '../../config/configuration.ts'
import { loadConfiguration } from '../../config/load.ts'
import { checkShape } from '../../config/yaml/ajv.ts'
import { didYouMean, listed, ordered, type Problem } from '../../config/yaml/problem.ts'
import { pointer, readSource, type Source } from '../../config/yaml/source.ts'
import type { Registry } from '../../loader/registry.ts'
import { standIns } from '../../simulate/environment.ts'
import { startOf } from '../bench.ts'
import { accountsOf } from './accounts.ts'
import { patternOf } from './expect.ts'
import { HTTP_KEY } from './http.ts'
import { type JwtSettings, tokenStepOf } from './identity.ts'
import { inherited } from './inherit.ts'
import { mergeParts } from './replaced-parts.ts'
import {
  type ExpectShape,
  type FileShape,
  type HttpShape,
  type KeyShape,
  POLICY_TEST_SCHEMA,
  type RequestShape,
  type StepShape,
  type TestShape,
} from './schema.ts'

export interface ReadOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly registry: Registry
  /** The configuration of tests without their own. Default: `../gateway.yaml` beside them. */
  readonly config?: string
}

/** A file whose tests can run. */
export interface PolicyTests {
  readonly file: string
  readonly policy: string
  readonly configuration: Configuration
  /** Answers of plugins' services in each test. */
  readonly http?: HttpShape | undefined
  readonly tests: readonly PlacedTest[]
}

export interface PlacedTest extends TestShape {
  readonly line: number
}

export interface ReadProblems {
  readonly problems: readonly Problem[]
  readonly sources: ReadonlyMap<string, string>
}

const ENDING = '.test.yaml'

/** Reads a file of policy tests. Returns the problems of its contents; never throws for them. */
export async function readPolicyTests(file: string, options: ReadOptions): Promise<PolicyTests | ReadProblems> {
  let text: string
  try {
    text = await readFromDisk(file, 'utf8')
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'the file does not exist' : String(error)
    return wrong(file, '', { rule: 'unreadable-file', message: `the policy tests cannot be read: ${reason}` })
  }
  const source = await readSource(file, text, { env: standIns(options.env), readFile: async () => '' })
  if (!source.usable) return { problems: source.problems, sources: new Map([[file, text]]) }
  const shape = checkShape(source, '', source.value, POLICY_TEST_SCHEMA) as FileShape
  if (source.problems.length === 0) checkRest(source, shape)
  if (source.problems.length > 0)
    return { problems: ordered(source.problems, [file]), sources: new Map([[file, text]]) }
  const policy = shape.policy ?? basename(file).replace(ENDING, '')
  // As written in the file, because the configuration loader resolves `${NAME}`.
  const loaded = await loadFor(source, parse(text) as FileShape, policy, options)
  if ('problems' in loaded) return loaded
  const { configuration } = loaded
  if (!configuration.routes.some(route => route.policy === policy)) {
    const suggestion = `add to this file: routes: [{ path: /v1/chat/completions, policy: ${policy} }]`
    const message = `no route of ${configuration.file} has the policy "${policy}"`
    return wrong(file, text, { rule: 'unknown-policy', message, suggestion })
  }
  checkNames(source, shape, configuration)
  checkKeys(source, shape, policy, configuration)
  if (source.problems.length > 0)
    return { problems: ordered(source.problems, [file]), sources: new Map([[file, text]]) }
  const tests = shape.tests.map((test, nth) => ({ ...test, line: source.position(`/tests/${nth}`).line }))
  return { file, policy, configuration, http: shape.http, tests }
}

/** Checks that the schema cannot express. */
function checkRest(source: Source, { tests, http }: FileShape): void {
  const names = new Set<string>()
  checkUrls(source, '', http)
  for (const [nth, test] of tests.entries()) {
    const { name, given } = test
    const services = new Set(Object.keys(http ?? {}))
    for (const [place, step] of placesOf(test, `/tests/${nth}`)) {
      checkUrls(source, place, step.http)
      for (const key of Object.keys(step.http ?? {})) services.add(key)
      for (const key of Object.keys(step.expect.http ?? {})) {
        if (services.has(key)) continue
        const suggestion = didYouMean(key, [...services]) ?? 'add its answer there'
        source.report(`${place}/expect/http${pointer(key)}`, `"http" has no service ${key}`, { key: true, suggestion })
      }
      checkPatterns(source, `${place}/expect`, step.expect.headers)
      checkUpstream(source, place, step.upstream)
      checkAccount(source, `${place}/request/account`, step, given)
      const { address } = step.request ?? {}
      if (address !== undefined && isIP(address) === 0) {
        source.report(`${place}/request/address`, `"${address}" is not an IP address`)
      }
    }
    if (names.has(name)) source.report(`/tests/${nth}/name`, `two tests have the name "${name}"`)
    names.add(name)
    const [own] = accountsOf(given)[0]!
    if (given?.accounts && Object.hasOwn(given.accounts, own)) {
      const message = `"${own}" is already the account of given.account`
      source.report(`/tests/${nth}/given/accounts${pointer(own)}`, message, { key: true })
    }
    try {
      startOf(given?.clock)
    } catch (error) {
      source.report(`/tests/${nth}/given/clock`, (error as Error).message)
    }
  }
}

function checkUrls(source: Source, place: string, http: HttpShape = {}): void {
  for (const key of Object.keys(http)) {
    if (URL.canParse(HTTP_KEY.exec(key)?.[2] ?? '')) continue
    source.report(`${place}/http${pointer(key)}`, `${key} is not a URL`, { key: true })
  }
}

/** The account of a request must be one of the test. */
function checkAccount(source: Source, at: string, { request }: StepShape, given: TestShape['given']): void {
  const names = accountsOf(given).map(([name]) => name)
  if (request?.account === undefined || names.includes(request.account)) return
  const suggestion = didYouMean(request.account, names) ?? `the accounts are ${listed(names, 'and')}`
  source.report(at, `the test has no account "${request.account}"`, { suggestion })
}

function checkPatterns(source: Source, place: string, headers: ExpectShape['headers'] = {}): void {
  for (const [name, wanted] of Object.entries(headers)) {
    try {
      patternOf(wanted)
    } catch (error) {
      source.report(`${place}/headers${pointer(name)}`, `${wanted} is not a pattern: ${(error as Error).message}`)
    }
  }
}

/** `after` needs a fault, and an unreachable provider sends nothing before it. */
function checkUpstream(source: Source, place: string, upstream: StepShape['upstream'] = []): void {
  const at = (nth: number) => `${place}/upstream${Array.isArray(upstream) ? `/${nth}` : ''}/after`
  for (const [nth, { after, fault }] of [upstream].flat().entries()) {
    if (after === undefined || (fault !== undefined && fault !== 'unreachable')) continue
    const message = fault
      ? 'an unreachable provider sends no events, so "after" has no effect'
      : '"after" is the number of events before a fault, but "fault" is missing'
    source.report(at(nth), message, { rule: 'useless-key', key: true })
  }
}

/** Checks the steps and codes of expectations: a negative expectation about a misspelt one would always hold. */
function checkNames(source: Source, { tests }: FileShape, { routes }: Configuration): void {
  const steps = new Set(routes.flatMap(route => route.steps.steps.map(({ id }) => id)))
  const deciders = [...steps, 'send', 'gateway']
  for (const [nth, test] of tests.entries()) {
    for (const [place, { expect }] of placesOf(test, `/tests/${nth}`)) {
      const { decided_by: decider, trail = {}, code } = expect
      if (typeof decider === 'string') checkStep(source, `${place}/expect/decided_by`, decider, deciders)
      for (const step of Object.keys(trail)) {
        checkStep(source, `${place}/expect/trail${pointer(step)}`, step, [...steps, 'send'])
      }
      // Raw routes return a provider's own codes, so only a code that looks misspelt is reported.
      const meant = typeof code === 'string' && !Object.hasOwn(ERRORS, code) && didYouMean(code, Object.keys(ERRORS))
      if (meant)
        source.report(`${place}/expect/code`, `the error "${code}" does not exist`, {
          rule: 'wrong-value',
          suggestion: meant,
        })
    }
  }
}

/** Checks the keys of tests: their models must exist, and where a step takes tokens, a token must support their settings. */
function checkKeys(source: Source, { tests }: FileShape, policy: string, configuration: Configuration): void {
  const { models, routes } = configuration
  const known = [...new Set([...models.keys(), ...routes.flatMap(route => route.raw?.models ?? [])])]
  for (const [nth, test] of tests.entries()) {
    const place = `/tests/${nth}`
    const steps = placesOf(test, place)
    const route = routeFor(configuration, policy, test.request)
    for (const [at, key] of keysOf(test, place)) {
      for (const [i, id] of (key.models ?? []).entries()) {
        if (known.includes(id)) continue
        const suggestion =
          didYouMean(id, known) ?? (known.length > 0 ? `the models are ${listed(known, 'and')}` : undefined)
        source.report(`${at}/models/${i}`, `the model "${id}" does not exist`, { rule: 'unknown-model', suggestion })
      }
      checkToken(source, at, key, tokenStepOf(route))
    }
    for (const [at, step] of steps) {
      const request = step === test ? (test.request ?? {}) : inherited(test, step)
      const takesTokens = tokenStepOf(routeFor(configuration, policy, request)) !== null
      if (request.key === 'revoked' && takesTokens) {
        source.report(`${at}/request/key`, 'a token of an identity provider cannot be revoked, only expire')
      }
      if (step.request?.claims !== undefined && !takesTokens) {
        const message = 'no jwt step of this route takes tokens, and a gateway key has no claims'
        source.report(`${at}/request/claims`, message, { rule: 'useless-key', key: true })
      }
    }
  }
}

/** The keys in a test, each with its path. */
function keysOf({ given = {} }: TestShape, place: string): (readonly [string, KeyShape])[] {
  const others = Object.entries(given.accounts ?? {}).map(
    ([name, account]) => [`${place}/given/accounts${pointer(name)}/key`, account?.key] as const,
  )
  const all = [[`${place}/given/key`, given.key] as const, ...others]
  return all.flatMap(([at, key]) => (key === undefined ? [] : [[at, key] as const]))
}

/** Reports settings that a token cannot have. */
function checkToken(source: Source, at: string, key: KeyShape, step: ReturnType<typeof tokenStepOf>): void {
  if (step === null) return
  const { models, spending_cap: cap } = key
  const options = { rule: 'useless-key', key: true } as const
  if (cap !== undefined) {
    source.report(`${at}/spending_cap`, `the step "${step.id}" takes tokens, but a token has no spending cap`, options)
  }
  if (models !== undefined && (step.settings as JwtSettings).models_claim === undefined) {
    const message = `the step "${step.id}" takes tokens, but without models_claim a token is for every public model`
    source.report(`${at}/models`, message, options)
  }
}

/** The route of a request: the one with its path, else the first one with the policy. */
export function routeFor({ routes }: Configuration, policy: string, { path }: RequestShape = {}): RouteConfig {
  const first = routes.find(route => route.policy === policy)!
  return path === undefined ? first : (routes.find(route => route.path === path) ?? first)
}

/** The test and its further steps, each with its path in the file. */
function placesOf(test: TestShape, place: string): (readonly [string, StepShape])[] {
  return [[place, test], ...(test.then ?? []).map((step, nth) => [`${place}/then/${nth}`, step] as const)]
}

function checkStep(source: Source, at: string, step: string, known: readonly string[]): void {
  if (known.includes(step)) return
  const suggestion = didYouMean(step, known) ?? `the steps are ${known.join(', ')}`
  source.report(at, `no policy of the configuration has a step "${step}"`, { rule: 'wrong-value', suggestion })
}

/** Loads gateway.yaml with the parts that the tests replace. */
async function loadFor(
  source: Source,
  { config: given, routes, providers, models }: FileShape,
  policy: string,
  { env, registry, config: chosen }: ReadOptions,
): Promise<{ readonly configuration: Configuration } | ReadProblems> {
  const config = resolve(dirname(source.file), given ?? chosen ?? '../gateway.yaml')
  const own = { ...(routes ? { routes: routes.map(route => ({ policy, ...route })) } : {}), providers, models }
  const parts = Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined))
  // The loader reports a file that cannot be read.
  const text = await readFromDisk(config, 'utf8').catch(() => null)
  const isWhole = text === null || Object.keys(parts).length === 0
  const merged = isWhole ? null : await mergeParts(config, text, parts, source)
  const readMerged = async (path: string) => (path === config ? merged!.text : readFromDisk(path, 'utf8'))
  const loaded = await loadConfiguration(config, {
    env: standIns(env),
    registry,
    ...(merged === null ? {} : { readFile: readMerged }),
  })
  if (!('problems' in loaded)) return loaded
  const problems = merged === null ? loaded.problems : loaded.problems.map(merged.placed)
  const sources = new Map([...loaded.sources, [source.file, source.text]])
  if (text !== null && sources.has(config)) sources.set(config, text)
  return { problems: ordered(problems, [source.file, config]), sources }
}

function wrong(file: string, text: string, problem: Pick<Problem, 'rule' | 'message' | 'suggestion'>): ReadProblems {
  return {
    problems: [{ file, line: 1, column: 1, ...problem }],
    sources: new Map([[file, text]]),
  }
}
