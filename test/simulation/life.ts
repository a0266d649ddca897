/** A life is one process of the gateway, from its start to its end, with the real store, gateway, application and parser. */
import { formatMoney, type Log, refuse } from '#contract'
import { createClientApp, createListener, type Listener } from '../../src/app.ts'
import { createDeadlineClock, type DeadlineClock } from '../../src/common/clock.ts'
import type { Configuration } from '../../src/config/configuration.ts'
import { Gateway } from '../../src/gateway.ts'
import { createGeneration, type Generation } from '../../src/request/generation.ts'
import { createTimelessQueue } from '../../src/request/http/owners.ts'
import { summaryOf } from '../../src/request/send/exchange-summary.ts'
import type { Wire } from '../../src/simulate/connection.ts'
import { createLocalState } from '../../src/state/state.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { createIds } from '../../src/store/ids.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import type { RecoveryReport } from '../../src/store/store.ts'
import type { Disk } from './disk.ts'
import type { Place } from './engines.ts'
import type { Provider } from './provider.ts'
import type { World } from './world.ts'

export interface LifeParts {
  readonly world: World
  readonly number: number
  readonly place: Place
  readonly secret: string
  readonly configuration: Configuration
  readonly disk: Disk
  readonly provider: Provider
  /** Called when the gateway accepts requests. */
  onUp(): void
  /** Called when an exchange has ended, except for its last bytes, with its idempotency key. */
  onOver(key: string): void
  /** Called when the gateway has shut down in order. */
  onClosed(): void
}

/** The settles for which the spool reserves space: more than a run has. */
const RESERVED = 64

const SILENT: Log = { info() {}, warn() {}, error() {} }

/** The interval of the deadline clock. Its rounds are most of the events, and no timeout is shorter. */
const ROUND_MS = 100

export class Life {
  readonly parts: LifeParts
  state: 'starting' | 'up' | 'stopping' | 'closed' | 'dead' = 'starting'
  store!: LocalStore
  gateway!: Gateway
  recovered: RecoveryReport | null = null
  /** The number of deadlines that the deadline clock watches. */
  watched = 0
  /** The time at which the gateway cut its streams. */
  cutAt: number | null = null
  /** The time at which the process had shut down in order. */
  endedAt: number | null = null
  #generation!: Generation
  #listener!: Listener
  readonly #wires = new Set<Wire>()

  constructor(parts: LifeParts) {
    this.parts = parts
  }

  /** Opens store and gateway in no virtual time, then starts recovery. */
  async start(): Promise<void> {
    const { world, place, secret, configuration, disk, provider } = this.parts
    const { clock } = world
    world.note(`life ${this.parts.number} starts`)
    this.store = await openStore({
      url: place.url,
      ...(place.folder === undefined ? {} : { folder: place.folder }),
      secret,
      clock,
      writes: 'here',
      schedule: run => void world.after(world.random.next() * 2, () => this.isAlive && run()),
      log: this.#stepLog(),
      reserve: () => RESERVED,
      connector: { module: new URL('./disk.ts', import.meta.url).href, data: disk },
    })
    const { store } = this
    const generation = await createGeneration({
      configuration,
      store,
      state: createLocalState(clock),
      clock,
      random: () => world.random.next(),
      version: '0',
      deadlineClock: this.#deadlineClock(),
      log: SILENT,
      logFor: () => this.#stepLog(),
      redact: text => text,
    })
    const providerConnection = { transport: provider.dispatch }
    const upstreams = new Map(
      [...generation.upstreams].map(([name, upstream]) => [name, { ...upstream, ...providerConnection }]),
    )
    this.#generation = { ...generation, upstreams }
    this.gateway = new Gateway({
      work: null,
      store,
      clock,
      random: () => world.random.next(),
      deadlineClock: this.#deadlineClock(),
      log: SILENT,
      generation: () => this.#generation,
      entered() {},
      left() {},
      stepGraceMs: 5_000,
      reportStep: ({ step, mistake, error }) => this.#mistake(`step ${step}: ${mistake}`, error),
      reportBug: (_exchange, error) => this.#mistake('an unexpected error', error),
      record: (exchange, sent) => {
        if (!this.isAlive) return
        const { idempotencyKey } = exchange
        this.parts.onOver(idempotencyKey ?? '')
        const { status, outcome, code, charge } = summaryOf(exchange, sent, clock)
        const charged = charge && formatMoney(charge.amount)
        world.note(`gateway: ${idempotencyKey} is over: ${outcome} ${status} ${code ?? ''} charged ${charged}`)
        world.count(`code ${code ?? 'none'}`)
      },
    })
    const ids = createIds(clock)
    const app = createClientApp({
      gateway: this.gateway,
      generation: () => this.#generation,
      nextId: () => ids.next('req_'),
      ready: () => ({ ready: true }),
      reportBug: (_exchange, error) => this.#mistake('an unexpected error', error),
    })
    this.#listener = createListener(app, configuration.limits, () => ids.next('req_'), undefined, createTimelessQueue())
    void this.#recover()
  }

  get isAlive(): boolean {
    return this.state !== 'dead'
  }

  connect(wire: Wire): void {
    this.#wires.add(wire)
    wire.once('close', () => this.#wires.delete(wire))
    this.#listener.server.emit('connection', wire)
  }

  /** kill -9: committed data stay, and everything else is lost. */
  die(): Place {
    const { world, place } = this.parts
    world.note(`life ${this.parts.number} is killed`)
    this.state = 'dead'
    const left = place.left()
    world.dropTimers()
    for (const wire of this.#wires) wire.cut()
    return left
  }

  /** Frees the memory of the process: otherwise Node's parsers would keep it. */
  forget(): void {
    for (const wire of this.#wires) (wire as { parser?: { close(): void } | null }).parser?.close()
    // Undefined if the life could not start; then the error of the start must be shown.
    void (this.#generation as Generation | undefined)?.dispose()
  }

  /** SIGTERM, with a time until streams are cut. */
  stop(cutAfterMs: number): void {
    const { world } = this.parts
    world.note(`life ${this.parts.number} gets SIGTERM; its streams are cut in ${cutAfterMs} ms`)
    this.state = 'stopping'
    this.gateway.drain()
    const cut = world.after(cutAfterMs, () => {
      if (this.state !== 'stopping') return
      world.note('the gateway cuts')
      this.cutAt = world.now
      this.gateway.cut()
      this.#listener.cutBodies(refuse('shutting_down', { retryAfterMs: 1000 }))
      // A cut ends within the grace of steps, the timeout of clients and the retries of a settle.
      world.after(15_000, () => {
        if (this.state === 'stopping') world.fail('the gateway is not idle 15 s after its cut')
      })
    })
    void this.gateway.idle().then(async () => {
      // Resolves, because every fault of the disk ends.
      await this.store.flushed()
      cut.cancelled = true
      if (this.isAlive) void this.#close()
    })
  }

  async #close(): Promise<void> {
    await this.#generation.dispose()
    await this.store.close()
    if (!this.isAlive) return
    this.state = 'closed'
    this.endedAt = this.parts.world.now
    this.parts.world.note(`life ${this.parts.number} has ended`)
    this.parts.onClosed()
  }

  /** Repeats recovery until it succeeds, as a supervisor repeats the start. */
  async #recover(): Promise<void> {
    const { world } = this.parts
    for (;;) {
      try {
        this.recovered = await this.store.recover()
        break
      } catch (error) {
        if (!this.isAlive) return
        world.note(`recovery failed: ${(error as Error).message}`)
        world.count('recovery failed')
        await new Promise<void>(resolve => void world.after(500, () => resolve()))
      }
    }
    if (!this.isAlive) return
    const { settled, replayed, rejected } = this.recovered
    world.note(`life ${this.parts.number} is up: recovered ${settled}, replayed ${replayed}, rejected ${rejected}`)
    if (rejected > 0) world.fail(`recovery rejected ${rejected} lines of the spool`)
    this.state = 'up'
    this.parts.onUp()
  }

  #deadlineClock(): DeadlineClock {
    const deadlineClock = createDeadlineClock(ROUND_MS)
    return {
      ...deadlineClock,
      watch: check => {
        this.watched++
        const unwatch = deadlineClock.watch(check)
        let isOver = false
        return () => {
          if (!isOver) this.watched--
          isOver = true
          unwatch()
        }
      },
    }
  }

  #stepLog(): Log {
    const { world } = this.parts
    return {
      info() {},
      warn: (_fields, message) => {
        if (!this.isAlive) return
        world.note(`log: ${message}`)
        world.count(`log ${message}`)
      },
      error: (fields, message) => {
        if (!this.isAlive) return
        world.note(`log: ${message}`)
        world.count(`log ${message}`)
        // A disk can cause only these errors.
        if (!/it is in the spool|it waits in memory|spool cannot be reserved/.test(message))
          world.fail(`${message}: ${JSON.stringify(fields)}`)
      },
    }
  }

  #mistake(what: string, error: unknown): void {
    if (this.isAlive) this.parts.world.fail(`${what}: ${error instanceof Error ? error.stack : error}`, error)
  }
}
