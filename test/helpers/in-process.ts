/**
 * The whole gateway inside the test's process, with its real listeners, store and pipeline. For tests with their own
 * plugins, that read the store, or make the disk fail. All others use `startGateway`.
 *
 * @example
 * await using gateway = await startInProcess({ provider: provider.baseUrl, plugins: [mine], steps: [{ use: 'mine' }] })
 * const answer = await gateway.chat({ stream: true })
 */
import { rm } from 'node:fs/promises'
import { type AnyPlugin, parseMoney } from '#contract'
import { BUILT_IN } from '../../src/loader/builtin.ts'
import { createRegistry } from '../../src/loader/registry.ts'
import { type Running, type ServeOptions, serve } from '../../src/main.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { AT_FILE_END } from './file-end.ts'
import { type LogLine, temporaryDirectory, writeConfiguration } from './gateway.ts'

export interface InProcessOptions {
  /** Base URL of the provider behind the model `m`; left out: the embedded demo. */
  readonly provider?: string
  /** Plugins beside the built-in ones. */
  readonly plugins?: readonly AnyPlugin[]
  /** The policy's steps; default: the five-step pipeline without limits. */
  readonly steps?: readonly object[]
  /** Further policies by name: their steps, or the whole file. */
  readonly policies?: Readonly<Record<string, readonly object[] | { readonly steps: readonly object[] }>>
  /** Dollars on the account; default 10. */
  readonly credit?: string
  /** Changes to gateway.yaml. */
  readonly yaml?: Readonly<Record<string, unknown>>
  /** Changes to the model `m`. */
  readonly model?: Readonly<Record<string, unknown>>
  readonly timeouts?: Readonly<Record<string, string>>
  readonly open?: ServeOptions['open']
  readonly stepGraceMs?: number
  /** For `${NAME}` in the configuration. */
  readonly env?: Readonly<Record<string, string>>
  readonly store?: string
}

/** A gateway as one account sees it. */
export interface Account {
  readonly url: string
  readonly running: LocalRunning
  readonly accountId: string
  readonly key: string
  /** The log since the account was created. */
  readonly log: readonly LogLine[]
  /** A chat request to the model `m` with the account's key; `init` replaces parts of the request. */
  chat(body?: Readonly<Record<string, unknown>>, init?: RequestInit): Promise<Response>
  /** The posted and the held amount, in nano-dollars. */
  balance(): { readonly posted: bigint; readonly held: bigint }
  /** The receipt of an answer, from the store. */
  receipt(answer: Response): ReturnType<LocalStore['reads']['findReceipt']>
  /** Resolves with the first matching log line, also an earlier one. */
  waitForLog(fits: (line: LogLine) => boolean): Promise<LogLine>
  /** The log line of an exchange, which the gateway writes at its end. */
  exchangeLine(id: string): Promise<LogLine>
  /** The same gateway as a new account sees it. @param credit in dollars; default 10 */
  account(credit?: string): Promise<Account>
}

export interface InProcess extends Account, AsyncDisposable {
  stop(): Promise<number>
}

/** The standard pipeline without options. It makes one attempt, so the client sees the result of one provider. */
export const FIVE_STEPS: readonly object[] = [
  { use: 'api-key' },
  { use: 'schema' },
  { use: 'rate-limit', with: { per: 'key', requests: '1000000 per minute' } },
  { use: 'credits' },
  { use: 'route', with: { attempts: 1 } },
]

/** $1 and $2 per million: a token costs 1,000 or 2,000 nano-dollars, so that a charge is easy to check. */
export const PRICE = { per: '1M tokens', input: '$1', output: '$2' }

export async function startInProcess(options: InProcessOptions = {}): Promise<InProcess> {
  const dir = await temporaryDirectory()
  const configFile = await writeConfiguration(dir, {
    yaml: configurationOf(options),
    policies: Object.fromEntries(
      Object.entries({ test: options.steps ?? FIVE_STEPS, ...options.policies }).map(([name, policy]) => [
        name,
        'steps' in policy ? policy : { steps: policy },
      ]),
    ),
  })
  const logs: LogLine[][] = []
  const newLog = () => logs[logs.push([]) - 1]!
  const log = newLog()
  const waiting = new Set<() => void>()
  const running = await serveLocally({
    configFile,
    env: options.env ?? {},
    signals: false,
    registry: createRegistry([...BUILT_IN, ...(options.plugins ?? [])]),
    ...(options.open ? { open: options.open } : {}),
    ...(options.stepGraceMs === undefined ? {} : { stepGraceMs: options.stepGraceMs }),
    stdout(text) {
      const lines = text.split('\n').filter(line => line.trim() !== '')
      for (const line of lines.map(line => JSON.parse(line) as LogLine)) for (const each of logs) each.push(line)
      for (const look of waiting) look()
    },
  })
  const { store } = running
  const openAccount = async (log: readonly LogLine[], credit = '10'): Promise<Account> => {
    const name = logs.length === 1 ? 'test' : `test ${logs.length}`
    const { id } = await store.createAccount({ name })
    await store.credit({ account: id, amount: parseMoney(credit), reference: name, actor: 'test' })
    const { token } = await store.createKey({ account: id, name: 'test' })
    const waitForLog = (fits: (line: LogLine) => boolean) =>
      new Promise<LogLine>(resolve => {
        const look = () => {
          const line = log.find(fits)
          if (!line) return
          waiting.delete(look)
          resolve(line)
        }
        waiting.add(look)
        look()
      })
    return {
      url: running.url,
      running,
      accountId: id,
      key: token,
      log,
      chat: (body = {}, init = {}) =>
        fetch(`${running.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
          body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hello' }], ...body }),
          ...init,
        }),
      balance: () => store.reads.findAccount(id)!,
      receipt: answer => store.reads.findReceipt(answer.headers.get('x-request-id')!),
      waitForLog,
      exchangeLine: id => waitForLog(line => line['msg'] === 'exchange' && line['id'] === id),
      account: credit => openAccount(newLog(), credit),
    }
  }
  let stopped: Promise<number> | null = null
  const stop = () => {
    stopped ??= (async () => {
      running.drain()
      running.drain()
      const code = await running.finished
      await rm(dir, { recursive: true, force: true })
      return code
    })()
    return stopped
  }
  const account = await openAccount(log, options.credit)
  return { ...account, stop, [Symbol.asyncDispose]: async () => void (await stop()) }
}

const shared: InProcess[] = []
AT_FILE_END.push(async () => {
  await Promise.all(shared.splice(0).map(gateway => gateway.stop()))
})

/**
 * Gateways that the tests of a file share: one for each configuration, until the end of the file. For tests that only send
 * requests: a start costs 40 ms of CPU.
 *
 * @param common the options of all of them, read at each start, because the URL of a provider is not known earlier
 * @returns a function that returns a new account on the gateway with these further options
 *
 * @example
 * const start = shareGateways(() => ({ provider: provider.baseUrl, plugins: [mine] }))
 * const gateway = await start({ steps: [{ use: 'mine' }], credit: '1' })
 */
export function shareGateways(
  common: () => InProcessOptions,
): (options?: Pick<InProcessOptions, 'steps' | 'yaml' | 'credit'>) => Promise<Account> {
  const started = new Map<string, Promise<InProcess>>()
  return async ({ credit, ...options } = {}) => {
    const configuration = JSON.stringify(options)
    let gateway = started.get(configuration)
    if (!gateway) {
      gateway = startInProcess({ ...common(), ...options })
      started.set(configuration, gateway)
      shared.push(await gateway)
    }
    return (await gateway).account(credit)
  }
}

function configurationOf({ provider, yaml, model, timeouts, store }: InProcessOptions): object {
  return {
    version: 1,
    listen: '127.0.0.1:0',
    store: store ?? 'memory',
    providers: {
      p: provider
        ? { dialect: 'openai', base_url: provider, ...(timeouts ? { timeouts } : {}) }
        : { dialect: 'demo', pace: '1ms' },
    },
    models: {
      m: {
        targets: [{ provider: 'p', model: 'upstream-model' }],
        price: PRICE,
        context: 8192,
        max_output: 1000,
        ...model,
      },
    },
    routes: [{ path: '/v1/chat/completions', policy: 'test' }],
    // The head with 200 is sent with the first comment. On a slow machine it would come before the answer that a test waits for.
    heartbeat: { first: '1h', every: '1h' },
    ...yaml,
  }
}

/** A gateway whose store is in this process, where tests read it without waiting. */
export type LocalRunning = Running & { readonly store: LocalStore }

/** @param options Of a configuration with a store in a file or in memory. */
export async function serveLocally(options: ServeOptions): Promise<LocalRunning> {
  return (await serve(options)) as LocalRunning
}
