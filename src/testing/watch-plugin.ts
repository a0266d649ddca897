/**
 * Watches one plugin at work: how often each of its middlewares calls `next`, and which timers and connections it begins
 * and does not end. What the rest of the gateway does beside it is not counted.
 */
import { AsyncLocalStorage, createHook } from 'node:async_hooks'
import { fileURLToPath } from 'node:url'
import { type AnyPlugin, definePlugin, type Exchange, type StepInstance, type StepMiddleware } from '#contract'
import { factsWrong, seeFacts } from './facts.ts'

/** What Node calls those things that keep a process at work. */
const LASTING: ReadonlySet<string> = new Set([
  'Timeout',
  'TCPWRAP',
  'TCPSERVERWRAP',
  'TLSWRAP',
  'PIPEWRAP',
  'UDPWRAP',
  'FSEVENTWRAP',
  'STATWATCHER',
  'PROCESSWRAP',
  'WORKER',
])

export interface WatchedPlugin {
  readonly plugin: AnyPlugin
  /** Of each run of its middleware: how often it called `next`. */
  readonly nexts: number[]
  /** What it has done to facts that it must leave alone, or not given, in words. */
  readonly facts: readonly string[]
  /** How often `create` and `dispose` were called. */
  readonly lives: { created: number; disposed: number }
  /** What it has begun and not ended, by Node's name for it. */
  lasting(): readonly string[]
  /** Listeners on the process that were not there before. */
  listeners(): readonly string[]
  stop(): void
}

type Handle = (ctx: { readonly exchange: Exchange }, next: () => Promise<void>) => Promise<void>

/** Those that can fail; `ledger` is the matter of the plugin that takes the money, and is tried again for seconds. */
const FALLIBLE: ReadonlySet<string> = new Set(['keys', 'accounts', 'buckets', 'targets'])

/**
 * The same plugin, watched until `stop()`.
 * @param fails whether its services fail now
 */
export function watchPlugin(plugin: AnyPlugin, fails: () => boolean = () => false): WatchedPlugin {
  const inside = new AsyncLocalStorage<boolean>()
  const open = new Map<number, string>()
  const hook = createHook({
    init(id, type) {
      if (LASTING.has(type) && inside.getStore() === true && !isBegunByGateway()) open.set(id, type)
    },
    destroy: id => void open.delete(id),
  }).enable()
  const before = processListeners()
  const nexts: number[] = []
  const lives = { created: 0, disposed: 0 }

  const facts: string[] = []

  function watched(handle: Handle): Handle {
    return async (ctx, next) => {
      const { exchange } = ctx
      const run = nexts.push(0) - 1
      let seen = seeFacts(exchange)
      const counted = () => {
        facts.push(...factsWrong(seen, exchange), ...notGiven(exchange))
        nexts[run]!++
        // What is further in is not the plugin's.
        const over = inside.run(false, next).finally(() => {
          seen = seeFacts(exchange)
        })
        // Whether it is awaited is the runner's to say.
        over.catch(() => {})
        return over
      }
      try {
        await inside.run(true, () => handle(ctx, counted))
      } finally {
        facts.push(...factsWrong(seen, exchange))
      }
    }
  }

  function notGiven(exchange: Exchange): string[] {
    return (plugin.gives ?? []).flatMap(name =>
      exchange[name] === undefined ? [`it goes on without giving "${name}"`] : [],
    )
  }

  const copy = definePlugin({
    ...plugin,
    create(settings: never, services: never, place): StepInstance {
      const made = inside.run(true, () => plugin.create(settings, fallible(services, fails) as never, place))
      const instance = typeof made === 'function' ? { handle: made } : made
      lives.created++
      return {
        handle: watched(instance.handle as unknown as Handle) as unknown as StepMiddleware,
        async dispose() {
          lives.disposed++
          await inside.run(true, async () => 'dispose' in instance && instance.dispose?.())
        },
      }
    },
  } as Parameters<typeof definePlugin>[0])
  return {
    plugin: copy,
    nexts,
    facts,
    lives,
    lasting: () => [...open.values()],
    listeners() {
      const now = processListeners()
      return [...now].flatMap(([name, count]) => (count > (before.get(name) ?? 0) ? [name] : []))
    },
    stop: () => void hook.disable(),
  }
}

/** The services, whose verbs throw while they fail. */
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

/** What the gateway begins while the plugin calls it (`exchange.answer`) is the gateway's own. */
function isBegunByGateway(): boolean {
  const { stackTraceLimit } = Error
  // Node's own frames come first, and there may be many.
  Error.stackTraceLimit = 50
  const frames = new Error('where').stack?.split('\n').slice(1) ?? []
  Error.stackTraceLimit = stackTraceLimit
  const caller = frames.find(
    frame => !frame.includes('node:') && !frame.includes(HERE) && !frame.includes(fileURLToPath(HERE)),
  )
  return caller !== undefined && (caller.includes(GATEWAY) || caller.includes(fileURLToPath(GATEWAY)))
}

function processListeners(): Map<string, number> {
  return new Map(process.eventNames().map(name => [String(name), process.listenerCount(name as string)]))
}
