/**
 * The bench for plugin authors: the real gateway with their own policy, in one process and without a network.
 *
 * @example
 * await using bench = await openBench({ plugins: [mine], steps: [{ use: 'api-key' }, { use: 'mine' }] })
 * bench.upstream.script({ content: ['Hel', 'lo'] })
 * const answer = await bench.chat({ stream: true })
 */

import { join, resolve } from 'node:path'
import { type AnyPlugin, parseMoney, type Random, type Receipt, type TrailEntry } from '#contract'
import type { Configuration } from '../config/configuration.ts'
import { loadConfiguration } from '../config/load.ts'
import { formatProblem } from '../config/yaml/problem.ts'
import { BUILT_IN } from '../loader/builtin.ts'
import { createRegistry } from '../loader/registry.ts'
import { namesOf, refuseUnknown } from '../simulate/known-options.ts'
import { createTime, STANDARD_START_MS, sameNumbers } from '../simulate/time.ts'
import type { ScriptedUpstream } from '../simulate/upstream.ts'
import { type BenchAnswer, type BenchRequest, headersOf, REQUEST_NAMES } from '../simulate/visit.ts'
import { type BenchRecord, TestGateway } from '../simulate/whole-gateway.ts'
import type { LocalStore } from '../store/local-store.ts'
import type { VerifyReport } from '../store/store.ts'

export interface BenchOptions {
  /** Plugins besides the built-in ones; one with the name of a built-in plugin replaces it. */
  readonly plugins?: readonly AnyPlugin[]
  /** The policy of /v1/chat/completions, as in YAML. Default: `api-key`, `schema`, `credits`, `route`. */
  readonly steps?: readonly object[]
  /** The catalog, as in gateway.yaml. Default: the model `m` at $1 and $2 a million tokens, of the provider `p`. */
  readonly models?: Readonly<Record<string, object>>
  /** Changes to gateway.yaml. */
  readonly yaml?: Readonly<Record<string, unknown>>
  /** The folder of `use: ./x.ts`, beside `policies/`. Default: the working folder. */
  readonly folder?: string
  /** The values of `${NAME}`. */
  readonly env?: Readonly<Record<string, string>>
  /** The start time, in milliseconds or as ISO text. Default: 2027-01-15T08:00:00Z. */
  readonly clock?: number | string
  /** Dollars of the account. Default: $10. */
  readonly credit?: string
  /** The account's plan. Default: default. */
  readonly plan?: string
  /** Default: always the same numbers. */
  readonly random?: Random
  /** Real time that a step may still take after the exchange has ended, in milliseconds. Default: 1,000. */
  readonly stepGraceMs?: number
  /** Real time before a request without progress is reported as stuck, in milliseconds. Default: 10,000. */
  readonly patienceMs?: number
  /** `file`: so that a crash can be simulated. Default: memory. */
  readonly store?: 'memory' | 'file'
}

const BENCH_OPTIONS = namesOf<BenchOptions>({
  plugins: true,
  steps: true,
  models: true,
  yaml: true,
  folder: true,
  env: true,
  clock: true,
  credit: true,
  plan: true,
  random: true,
  stepGraceMs: true,
  patienceMs: true,
  store: true,
})

export type ChatOptions = Omit<BenchRequest, 'body'>

/** The account's money. */
export interface BenchLedger {
  /** Nano-dollars: the posted balance, and the part that is held now. */
  balance(): { readonly posted: bigint; readonly held: bigint }
  /** Undefined if nothing was held. */
  receipt(answer: BenchAnswer): Receipt | undefined
  openHolds(): number
  /** Recomputes everything from the events. */
  verify(): VerifyReport
}

export interface Bench extends AsyncDisposable {
  /** A chat request to the first model; `body` is merged over the default. Resolves when the exchange has ended completely. */
  chat(body?: Readonly<Record<string, unknown>>, options?: ChatOptions): Promise<BenchAnswer>
  /** Any request. */
  send(request: BenchRequest): Promise<BenchAnswer>
  readonly upstream: ScriptedUpstream
  readonly ledger: BenchLedger
  /** The trail of the exchange; empty if the request reached no step. */
  trail(answer: BenchAnswer): readonly TrailEntry[]
  /** The summary of the exchange. */
  record(answer: BenchAnswer): BenchRecord | undefined
  /** Mistakes of steps. */
  readonly mistakes: TestGateway['mistakes']
  readonly log: TestGateway['log']
  readonly clock: { now(): number; pass(ms: number): Promise<void> }
  readonly store: LocalStore
  readonly configuration: Configuration
  readonly accountId: string
  /** The account's key, as clients send it. */
  readonly key: string
  reload(): Promise<void>
  /** Ends everything in progress, like the end of the process. */
  cut(): void
  /** The state that a start would find if the process were killed now; with `store: 'file'`. */
  crash(): ReturnType<TestGateway['crash']>
  close(): Promise<void>
}

/** The default steps of a bench. */
export const STANDARD_STEPS: readonly object[] = [
  { use: 'api-key' },
  { use: 'schema' },
  { use: 'credits' },
  { use: 'route', with: { attempts: 1 } },
]

const STANDARD_MODELS = {
  m: {
    targets: [{ provider: 'p', model: 'upstream-model' }],
    price: { per: '1M tokens', input: '$1', output: '$2' },
    context: 8192,
    max_output: 1000,
  },
}

/** Opens a bench. Throws with all problems of the configuration. */
export async function openBench(options: BenchOptions = {}): Promise<Bench> {
  refuseUnknown('openBench()', options, BENCH_OPTIONS)
  const configuration = await configurationOf(options)
  const time = createTime(startOf(options.clock))
  const testGateway = await TestGateway.open({
    configuration,
    time,
    random: options.random ?? sameNumbers(),
    stepGraceMs: options.stepGraceMs ?? 1000,
    ...(options.patienceMs === undefined ? {} : { patienceMs: options.patienceMs }),
    store: options.store ?? 'memory',
  })
  const { store } = testGateway
  const account = await store.createAccount({ name: 'bench', plan: options.plan ?? 'default' })
  const amount = parseMoney(options.credit ?? '10')
  if (amount > 0n) await store.credit({ account: account.id, amount, reference: 'start', actor: 'bench' })
  const { token } = await store.createKey({ account: account.id, name: 'bench' })
  const [model] = configuration.models.keys()
  const send = async (request: BenchRequest) => {
    refuseUnknown('a request', request, REQUEST_NAMES)
    return testGateway.send(request, headersOf(request, token, configuration))
  }
  let closing: Promise<void> | null = null
  const close = () => {
    closing ??= testGateway.close()
    return closing
  }
  return {
    chat: (body = {}, more = {}) =>
      send({ ...more, body: { model, messages: [{ role: 'user', content: 'Hello' }], ...body } }),
    send,
    upstream: testGateway.upstream,
    ledger: {
      balance() {
        const { posted, held } = store.reads.findAccount(account.id)!
        return { posted, held }
      },
      receipt: ({ id }) => (id === null ? undefined : store.reads.findReceipt(id)),
      openHolds: () => store.openHolds(),
      verify: () => store.reads.verify(),
    },
    trail: ({ id }) => testGateway.records.get(id ?? '')?.trail ?? [],
    record: ({ id }) => testGateway.records.get(id ?? ''),
    mistakes: testGateway.mistakes,
    log: testGateway.log,
    clock: { now: time.clock.now, pass: time.pass },
    store,
    configuration,
    accountId: account.id,
    key: token,
    reload: () => testGateway.reload(),
    cut: testGateway.gateway.cut,
    crash: () => testGateway.crash(),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** A time as milliseconds since the epoch. Throws for an invalid text. */
export function startOf(clock: number | string | undefined): number {
  if (clock === undefined) return STANDARD_START_MS
  const ms = typeof clock === 'number' ? clock : Date.parse(clock)
  if (!Number.isSafeInteger(ms)) throw new TypeError(`"${clock}" is not a time such as 2027-01-15T08:00:00Z`)
  // A day after the end of its month would be parsed as a day of the next month.
  const day = typeof clock === 'string' ? /^\d{4}-\d\d-\d\d/.exec(clock)?.[0] : undefined
  if (day !== undefined && new Date(day).toISOString().slice(0, day.length) !== day) {
    throw new TypeError(`"${clock}" is not a time: its month does not have such a day`)
  }
  return ms
}

async function configurationOf({ plugins = [], steps, models, yaml, env, folder = '.' }: BenchOptions) {
  const file = join(resolve(folder), 'gateway.yaml')
  const gateway = {
    version: 1,
    listen: '127.0.0.1:0',
    store: 'memory',
    providers: { p: { dialect: 'openai', base_url: 'http://127.0.0.1:1/v1' } },
    models: models ?? STANDARD_MODELS,
    routes: [{ path: '/v1/chat/completions', policy: 'bench' }],
    ...yaml,
  }
  const texts = new Map([
    [file, JSON.stringify(gateway, null, 2)],
    [join(resolve(folder), 'policies', 'bench.yaml'), JSON.stringify({ steps: steps ?? STANDARD_STEPS }, null, 2)],
  ])
  const loaded = await loadConfiguration(file, {
    env: env ?? {},
    registry: createRegistry([...BUILT_IN.filter(({ name }) => !plugins.some(mine => mine.name === name)), ...plugins]),
    readFile: async path => texts.get(path) ?? notThere(path),
  })
  if ('configuration' in loaded) return loaded.configuration
  const words = loaded.problems.map(problem => formatProblem(problem, loaded.sources.get(problem.file)))
  throw new Error(`the bench cannot be set up:\n${words.join('\n')}`)
}

function notThere(path: string): never {
  throw Object.assign(new Error(`${path} does not exist`), { code: 'ENOENT' })
}
