/** One seed: a run from the first start to the last audit. Resolves with the result, or throws the first violation. */
import { createHash } from 'node:crypto'
import { Audit } from './audit.ts'
import { Books } from './books.ts'
import { Client } from './client.ts'
import { allowSpool, type Disk, refuseSpool } from './disk.ts'
import type { Place } from './engines.ts'
import type { Ground } from './ground.ts'
import { Life } from './life.ts'
import { createProvider, type Provider } from './provider.ts'
import { drawScenario, type Mishap, MODELS, type Scenario } from './scenario.ts'
import { World } from './world.ts'

export interface SeedResult {
  readonly seed: number
  readonly lines: readonly string[]
  /** The SHA-256 of the whole event log. */
  readonly hash: string
  readonly tally: ReadonlyMap<string, number>
  /** Null if every invariant held. */
  readonly violation: Error | null
}

export async function runSeed(seed: number, ground: Ground): Promise<SeedResult> {
  const world = new World(seed)
  const run = new Run(world, ground)
  let violation: Error | null = null
  try {
    await run.run()
  } catch (error) {
    violation = error as Error
  } finally {
    run.close()
  }
  const hash = createHash('sha256').update(world.lines.join('\n')).digest('hex')
  return { seed, lines: world.lines, hash, tally: world.tally, violation }
}

/** This long after the end of a process, none of its deadlines may be watched. */
const QUIET_AFTER_MS = 7_000

class Run {
  readonly #world: World
  readonly #ground: Ground
  readonly #scenario: Scenario
  readonly #clients: Client[] = []
  readonly #lives: Life[] = []
  readonly #diedAt = new Map<number, number>()
  readonly #providers: Provider[] = []
  readonly #audit: Audit
  readonly #disk: Disk
  #books!: Books
  #place: Place
  #outage: { readonly fault: NonNullable<ReturnType<Disk['fault']>>; readonly share: number; until: number } | null =
    null
  /** The path of the store whose spool cannot be written now, as `Place.beside`. */
  #lockedSpool: string | null = null
  #isEnding = false
  #grants = 0

  constructor(world: World, ground: Ground) {
    this.#world = world
    this.#ground = ground
    this.#place = ground.engine.fresh()
    this.#scenario = drawScenario(world.random, ground.keys)
    this.#audit = new Audit(world, {
      clients: this.#clients,
      lives: this.#lives,
      providers: this.#providers,
      diedAt: this.#diedAt,
      scenario: this.#scenario,
      books: () => this.#books,
    })
    this.#disk = {
      engine: ground.engine,
      crashAt: null,
      connections: [],
      fault: () => {
        const { random, now } = world
        const outage = this.#outage
        if (!outage || now > outage.until || !random.chance(outage.share)) return null
        world.count(`disk ${outage.fault}`)
        return outage.fault
      },
      crash: () => this.#crash(),
      committed: () => this.#audit.onCommit(),
    }
  }

  async run(): Promise<void> {
    const { random } = this.#world
    this.#world.after(0, () => this.#startLife())
    for (const plan of this.#scenario.clients) {
      const words = Array.from({ length: plan.words }, () => random.pick(['why ', 'über ', 'x', 'and so on ']))
      const body = Buffer.from(
        JSON.stringify({
          model: plan.model,
          messages: [{ role: 'user', content: `client ${plan.index} ${words.join('')}` }],
          ...(plan.stream ? { stream: true } : {}),
          ...(plan.includeUsage ? { stream_options: { include_usage: true } } : {}),
          ...(MODELS[plan.model]!.tariff.search === undefined ? {} : { web_search_options: {} }),
          ...(plan.choices > 1 ? { n: plan.choices } : {}),
          ...(plan.cap === null ? {} : { max_completion_tokens: plan.cap }),
        }),
      )
      const client = new Client(plan, body, { world: this.#world, onComplete: each => this.#audit.onComplete(each) })
      this.#clients.push(client)
      this.#world.after(plan.atMs, () => this.#startClient(client))
    }
    for (const mishap of this.#scenario.mishaps) this.#world.after(mishap.atMs, () => this.#happen(mishap))
    this.#world.after(this.#scenario.stopAtMs, () => this.#end())
    await this.#world.run()
    this.#audit.finish()
  }

  close(): void {
    for (const life of this.#lives) life.forget()
    this.#closeConnections()
  }

  get #life(): Life {
    return this.#lives.at(-1)!
  }

  /** Closes the file handles of the last life, whose process has ended. */
  #closeConnections(): void {
    for (const database of this.#disk.connections.splice(0)) {
      try {
        database.close()
      } catch {
        // The store has closed it itself.
      }
    }
    this.#books?.close()
  }

  async #startLife(): Promise<void> {
    const world = this.#world
    if (this.#lives.length > 0) this.#closeConnections()
    const number = this.#lives.length
    const provider = createProvider({
      world,
      life: number,
      onAsked: request => this.#audit.onAsked(request),
      onSent: request => this.#audit.onSent(request),
      onDelivered: (request, items) => {
        const client = this.#clients[request.client]!
        const hasFinished = items.some(item => item.finishes.length > 0) && !items.some(item => item.usage)
        if (client.plan.leaveAtFinish && hasFinished) world.after(1, () => client.leave('at its finish'))
      },
    })
    this.#providers.push(provider)
    const { configuration, secret } = this.#ground
    const life = new Life({
      world,
      number,
      place: this.#place,
      secret,
      configuration,
      disk: this.#disk,
      provider,
      onUp: () => this.#onUp(life),
      onOver: key => this.#audit.onOver(key),
      onClosed: () => this.#onClosed(life),
    })
    this.#lives.push(life)
    await life.start()
    this.#books = new Books(this.#place)
  }

  #onUp(life: Life): void {
    if (this.#isEnding) {
      this.#audit.ledger(life.store.reads.verify())
      life.stop(0)
    } else if (this.#lives.length === 1) for (const grant of this.#scenario.credits) this.#grant(life, grant)
  }

  #onClosed(life: Life): void {
    const deaths = this.#diedAt.size
    this.#world.after(QUIET_AFTER_MS, () => {
      // A crash removes the timers of all lives, also of one that has ended.
      if (life.watched > 0 && this.#diedAt.size === deaths)
        this.#world.fail(`life ${life.parts.number} has ended, but ${life.watched} deadlines are still watched`)
    })
    if (!this.#isEnding) this.#world.after(this.#world.random.whole(10, 500), () => this.#startLife())
    else if (life.parts.number < this.#lastNumber) this.#world.after(10, () => this.#startLife())
    else this.#closeConnections()
  }

  /** The number of the last life, which only audits. */
  #lastNumber = Number.POSITIVE_INFINITY

  /** All clients have started. Stops the gateway; exchanges in progress may finish. */
  #end(): void {
    const life = this.#life
    if (life.state !== 'up') {
      this.#world.after(500, () => this.#end())
      return
    }
    this.#isEnding = true
    this.#disk.crashAt = null
    this.#lastNumber = this.#lives.length
    life.stop(this.#scenario.cutAfterMs)
  }

  #startClient(client: Client): void {
    const life = this.#lives.at(-1)
    if (!life || (life.state !== 'up' && life.state !== 'stopping')) {
      client.cut('no connection')
      return
    }
    this.#world.count('exchanges')
    client.start(life.parts.number, wire => life.connect(wire))
  }

  #happen(mishap: Mishap): void {
    const world = this.#world
    const life = this.#lives.at(-1)
    if (mishap.what !== 'disk' && mishap.what !== 'clock' && life?.state !== 'up') return
    world.note(
      `mishap: ${JSON.stringify(mishap, (_, value) => (typeof value === 'bigint' ? String(value) : value?.token ? value.name : value))}`,
    )
    world.count(`mishap ${mishap.what}`)
    const unless = (promise: Promise<unknown>) =>
      void promise.catch((error: Error) => world.note(`${mishap.what} did not happen: ${error.message}`))
    if (mishap.what === 'disk') {
      this.#outage = { fault: mishap.fault, share: mishap.share, until: world.now + mishap.forMs }
      this.#lockSpool()
      world.after(mishap.forMs + 1, () => this.#lockSpool())
    } else if (mishap.what === 'clock') world.skewMs += mishap.byMs
    else if (mishap.what === 'revoke') unless(life!.store.revokeKey(mishap.key.id))
    else if (mishap.what === 'credit') this.#grant(life!, mishap)
    else if (mishap.what === 'crash') this.#crash()
    else if (mishap.what === 'crash at commit') this.#disk.crashAt = mishap.when
    else if (mishap.what === 'stop') life!.stop(mishap.cutAfterMs)
    else {
      unless(life!.store.freeze(mishap.account, true))
      world.after(mishap.forMs, () => {
        if (this.#life.state === 'up') unless(this.#life.store.freeze(mishap.account, false))
      })
    }
  }

  /** On a disk that is read-only now, the spool cannot be written either. */
  #lockSpool(): void {
    const isReadOnly = this.#outage?.fault === 'read-only' && this.#world.now <= this.#outage.until
    const locked = isReadOnly ? this.#place.beside : null
    if (locked === this.#lockedSpool) return
    if (this.#lockedSpool !== null) allowSpool(this.#lockedSpool)
    if (locked !== null) refuseSpool(locked)
    this.#lockedSpool = locked
  }

  #grant(life: Life, { account, amount }: { readonly account: string; readonly amount: bigint }): void {
    const grant = { account, amount, reference: `grant ${++this.#grants}`, actor: 'simulation', note: 'why' }
    // A removal may be written although its answer is lost.
    if (amount < 0n) this.#audit.granted(grant)
    const again = (tries: number): void => {
      if (!life.isAlive) return
      life.store.credit(grant).then(
        () => {
          if (amount > 0n) this.#audit.granted(grant)
          else this.#world.count('credit taken')
        },
        () => {
          if (tries > 0 && life.state === 'up') this.#world.after(400, () => again(tries - 1))
        },
      )
    }
    again(40)
  }

  #crash(): void {
    const life = this.#life
    if (life.state === 'dead' || life.state === 'closed') return
    this.#disk.crashAt = null
    this.#diedAt.set(life.parts.number, this.#world.now)
    const before = this.#lockedSpool
    if (before !== null) allowSpool(before)
    this.#lockedSpool = null
    this.#place = life.die()
    this.#lockSpool()
    // `die` also removed the timers of earlier lives, with their pending aborts.
    for (const provider of this.#providers) provider.hangUp()
    for (const client of this.#clients) {
      if (client.life === life.parts.number && client.wire) client.cut('process ended')
    }
    this.#world.count('crashes')
    this.#world.after(this.#world.random.whole(20, 800), () => this.#startLife())
  }
}
