/**
 * Watches a plugin: how often each of its middlewares calls `next`, and which timers and connections it leaves open. The rest of the
 * gateway is not counted.
 */
import { AsyncLocalStorage, createHook, executionAsyncId } from 'node:async_hooks'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  type AnyPlugin,
  type DecidingStep,
  definePlugin,
  type Exchange,
  SERVICE_NAMES,
  type ServiceName,
  type StepInstance,
  type StepMiddleware,
  type WrappingStep,
} from '#contract'
import { factFailures, snapshotFacts } from './kept-facts.ts'

/** Resources that keep a process alive, by Node's names. */
const LASTING: ReadonlyMap<string, string> = new Map([
  ['Timeout', 'a timer'],
  ['TCPWRAP', 'a connection'],
  ['TCPSERVERWRAP', 'a server'],
  ['TLSWRAP', 'a TLS connection'],
  ['PIPEWRAP', 'a pipe'],
  ['UDPWRAP', 'a UDP socket'],
  ['FSEVENTWRAP', 'a watched file'],
  ['STATWATCHER', 'a watched file'],
  ['PROCESSWRAP', 'a process'],
  ['WORKER', 'a worker'],
])

/** Resources that Node creates before one of `LASTING`. Their frames are kept, because the plugin is not on the later stack. */
const STEPS: ReadonlySet<string> = new Set(['TickObject', 'GETADDRINFOREQWRAP'])

export interface WatchedPlugin {
  readonly plugin: AnyPlugin
  /** Number of calls of `next` in each run of its middleware. */
  readonly nexts: number[]
  /** Invalid changes of facts, and missing facts, as sentences. */
  readonly facts: readonly string[]
  /** Number of calls of `create` and `dispose`. */
  readonly lives: { created: number; disposed: number }
  /** Resources that it left open, with the place of their creation: `a timer made at plugins/mine.ts:12:5`. */
  lasting(): readonly string[]
  /** New listeners on the process. */
  listeners(): readonly string[]
  stop(): void
}

type Handle = (ctx: { readonly exchange: Exchange }, next: () => Promise<void>) => Promise<void>

/** Services that cannot fail. `ledger` is included because its failures are handled by `credits`, with retries for seconds. */
const INFALLIBLE: readonly ServiceName[] = ['catalog', 'plans', 'clock', 'random', 'log', 'ledger']
const FALLIBLE: ReadonlySet<string> = new Set(SERVICE_NAMES.filter(name => !INFALLIBLE.includes(name)))

/**
 * Wraps a plugin and watches it until `stop()`.
 * @param fails whether its services fail now
 */
export function watchPlugin(plugin: AnyPlugin, fails: () => boolean = () => false): WatchedPlugin {
  const resources = watchResources()
  const { inside } = resources
  const before = processListeners()
  const nexts: number[] = []
  const lives = { created: 0, disposed: 0 }

  const facts: string[] = []

  function watched(handle: Handle): Handle {
    return async (ctx, next) => {
      const { exchange } = ctx
      const run = nexts.push(0) - 1
      let seen = snapshotFacts(exchange)
      const counted = () => {
        facts.push(...factFailures(seen, exchange), ...notGiven(plugin, exchange))
        nexts[run]!++
        // The code of later steps is not the plugin's.
        const over = inside.run(false, next).finally(() => {
          seen = snapshotFacts(exchange)
        })
        // The runner reports a promise that is not awaited.
        over.catch(() => {})
        return over
      }
      try {
        await inside.run(true, () => handle(ctx, counted))
      } finally {
        facts.push(...factFailures(seen, exchange))
      }
    }
  }

  const copy = definePlugin({
    ...plugin,
    create(settings: never, services: never, place): StepInstance {
      const made = inside.run(true, () => plugin.create(settings, fallible(services, fails) as never, place))
      const instance = (typeof made === 'function' ? { handle: made } : made) as WrappingStep | DecidingStep
      lives.created++
      const dispose = async () => {
        lives.disposed++
        await inside.run(true, async () => instance.dispose?.())
      }
      if (instance.decide) return { ...watchedDecision(instance, { plugin, inside, facts, nexts }), dispose }
      return { handle: watched(instance.handle as unknown as Handle) as unknown as StepMiddleware, dispose }
    },
  } as Parameters<typeof definePlugin>[0])
  return {
    plugin: copy,
    nexts,
    facts,
    lives,
    lasting: resources.lasting,
    listeners() {
      const now = processListeners()
      return [...now].flatMap(([name, count]) => (count > (before.get(name) ?? 0) ? [name] : []))
    },
    stop: resources.stop,
  }
}

/** The records of a watched step. */
interface Notes {
  readonly plugin: AnyPlugin
  /** Whether the plugin's own code is running. */
  readonly inside: AsyncLocalStorage<boolean>
  readonly facts: string[]
  readonly nexts: number[]
}

/** A decision that admits the request counts as one call of `next`. */
function watchedDecision(step: DecidingStep, notes: Notes): DecidingStep {
  const { after } = step
  const { facts, nexts, plugin } = notes
  return {
    decide(ctx) {
      const { exchange } = ctx
      const run = nexts.push(0) - 1
      const passed = () => {
        if ((exchange as { readonly answered?: boolean }).answered) return
        facts.push(...notGiven(plugin, exchange))
        nexts[run] = 1
      }
      return runChecked(notes, exchange, () => step.decide(ctx), passed)
    },
    ...(after && { after: (ctx, ...end) => runChecked(notes, ctx.exchange, () => after.call(step, ctx, ...end)) }),
  }
}

/** Runs code of the plugin and then checks the facts: immediately, or when its promise settles. */
function runChecked<Result>(
  { inside, facts }: Notes,
  exchange: Exchange,
  work: () => Result | Promise<Result>,
  passed: () => void = () => {},
): Result | Promise<Result> {
  const seen = snapshotFacts(exchange)
  const look = () => facts.push(...factFailures(seen, exchange))
  const done = (result: Result) => {
    look()
    passed()
    return result
  }
  const failed = (error: unknown): never => {
    look()
    throw error
  }
  let result: Result | Promise<Result>
  try {
    result = inside.run(true, work)
  } catch (error) {
    return failed(error)
  }
  return result instanceof Promise ? result.then(done, failed) : done(result)
}

function notGiven(plugin: AnyPlugin, exchange: Exchange): string[] {
  return (plugin.gives ?? []).flatMap(name =>
    exchange[name] === undefined ? [`it goes on without giving "${name}"`] : [],
  )
}

/** Tracks resources that are created while `inside` is true, until they end. */
function watchResources() {
  const inside = new AsyncLocalStorage<boolean>()
  const open = new Map<unknown, string>()
  const steps = new Map<number, string>()
  const begin = (id: unknown, what: string) => {
    const frame = callerFrame() ?? steps.get(executionAsyncId())
    if (frame === undefined || !isGateway(frame)) open.set(id, `${what}${placeOf(frame)}`)
  }
  const hook = createHook({
    init(id, type) {
      const what = LASTING.get(type)
      if ((what === undefined && !STEPS.has(type)) || inside.getStore() !== true) return
      if (what !== undefined) return begin(id, what)
      const frame = callerFrame() ?? steps.get(executionAsyncId())
      if (frame !== undefined) steps.set(id, frame)
    },
    destroy(id) {
      open.delete(id)
      steps.delete(id)
    },
  }).enable()
  const endNetwork = watchNetwork({
    fetch(ask) {
      if (inside.getStore() !== true) return ask()
      const id = Symbol('fetch')
      begin(id, 'a fetch')
      return inside.run(false, ask).finally(() => open.delete(id))
    },
    timeout: make => (inside.getStore() === true ? inside.run(false, make) : make()),
  })
  return {
    inside,
    lasting: () => [...open.values()],
    stop() {
      hook.disable()
      endNetwork()
    },
  }
}

/** Wraps the services so that their methods throw while `fails` is true. */
function fallible(services: Readonly<Record<string, object>>, fails: () => boolean): Record<string, object> {
  const through = (service: object): object =>
    new Proxy(service, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name)
        if (typeof value !== 'function') return value
        return (...args: unknown[]): unknown => {
          if (fails()) throw new Error(`the service fails: ${String(name)}`)
          return Reflect.apply(value, target, args)
        }
      },
    })
  return Object.fromEntries(
    Object.entries(services).map(([name, service]) => [name, FALLIBLE.has(name) ? through(service) : service]),
  )
}

const GATEWAY = new URL('..', import.meta.url).href
const HERE = import.meta.url

/** The first stack frame that is not of Node or of this file. */
function callerFrame(): string | undefined {
  const { stackTraceLimit } = Error
  // Node's own frames come first, and there may be many.
  Error.stackTraceLimit = 50
  const frames = new Error('where').stack?.split('\n').slice(1) ?? []
  Error.stackTraceLimit = stackTraceLimit
  return frames.find(frame => !frame.includes('node:') && !frame.includes(HERE) && !frame.includes(fileURLToPath(HERE)))
}

/** Resources that the gateway creates in a call of the plugin (`exchange.answer`) are the gateway's own. */
function isGateway(frame: string): boolean {
  return frame.includes(GATEWAY) || frame.includes(fileURLToPath(GATEWAY))
}

/** ` made at plugins/mine.ts:12:5`; empty if the stack has no file. */
function placeOf(frame: string | undefined): string {
  const [, path, line] = /\(?((?:file:\/\/)?\/[^()]+?)(:\d+:\d+)\)?$/.exec(frame ?? '') ?? []
  if (path === undefined) return ''
  const file = path.startsWith('file:') ? fileURLToPath(path) : path
  const near = relative(process.cwd(), file)
  return ` made at ${near.startsWith('..') ? file : near}${line}`
}

/**
 * Wraps `fetch` and `AbortSignal.timeout`, to exclude resources that Node keeps. Connections of `fetch` stay open for reuse, and the timer
 * of the signal ends with the last reference to it. A `fetch` in progress is the plugin's.
 */
interface Network {
  fetch(ask: () => Promise<Response>): Promise<Response>
  timeout(make: () => AbortSignal): AbortSignal
}

const networks = new Set<Network>()
let endPatch: (() => void) | null = null

/** Passes every `fetch` and `AbortSignal.timeout` of this process to `network` until the returned function is called. */
function watchNetwork(network: Network): () => void {
  networks.add(network)
  endPatch ??= patchNetwork()
  return () => {
    networks.delete(network)
    if (networks.size > 0) return
    endPatch?.()
    endPatch = null
  }
}

function patchNetwork(): () => void {
  const { fetch } = globalThis
  const { timeout } = AbortSignal
  const watchedFetch: typeof fetch = (input, init) =>
    [...networks].reduce<() => Promise<Response>>(
      (ask, network) => () => network.fetch(ask),
      () => fetch(input, init),
    )()
  const watchedTimeout: typeof timeout = ms =>
    [...networks].reduce<() => AbortSignal>(
      (make, network) => () => network.timeout(make),
      () => timeout.call(AbortSignal, ms),
    )()
  globalThis.fetch = watchedFetch
  AbortSignal.timeout = watchedTimeout
  return () => {
    globalThis.fetch = fetch
    AbortSignal.timeout = timeout
  }
}

function processListeners(): Map<string, number> {
  return new Map(process.eventNames().map(name => [String(name), process.listenerCount(name as string)]))
}
