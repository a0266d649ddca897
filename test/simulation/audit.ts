/** The invariants: checked during the run, and once more at its end. */
import type { VerifyReport } from '../../src/store/store.ts'
import type { Books, HoldRow, SettleRow } from './books.ts'
import type { Client } from './client.ts'
import { TIMEOUTS } from './ground.ts'
import type { Life } from './life.ts'
import { type Case, caseOf, ceilingOf, chargeOf, checkpointOf, holdOf, sumOf } from './oracle.ts'
import type { Provider, ProviderRequest } from './provider.ts'
import type { Scenario } from './scenario.ts'
import { SLACK_MS, Witnesses } from './witnesses.ts'
import type { World } from './world.ts'

export interface Evidence {
  readonly clients: readonly Client[]
  readonly lives: readonly Life[]
  readonly providers: readonly Provider[]
  /** The times of kills, by the number of the life. */
  readonly diedAt: ReadonlyMap<number, number>
  readonly scenario: Scenario
  books(): Books
}

const CHECKPOINT_MS = 5_000

export class Audit {
  readonly #world: World
  readonly #evidence: Evidence
  readonly #witnesses: Witnesses
  /** The least credit of each account: added credit counts when it is acknowledged, removed credit when it is requested. */
  readonly #granted = new Map<string, bigint>()
  #isDirty = false
  #isAudited = false

  constructor(world: World, evidence: Evidence) {
    this.#world = world
    this.#evidence = evidence
    this.#witnesses = new Witnesses(world, evidence)
  }

  granted({ account, amount }: { readonly account: string; readonly amount: bigint }): void {
    this.#granted.set(account, (this.#granted.get(account) ?? 0n) + amount)
  }

  /** Called after each COMMIT. Checks the balances at the end of the turn. */
  onCommit(): void {
    if (this.#isDirty) return
    this.#isDirty = true
    this.#world.after(0, () => {
      this.#isDirty = false
      const wrong = this.#evidence.books().wrongBalance()
      if (wrong) this.#world.fail(`I1: account ${wrong}`)
    })
  }

  /** I7: no request is sent to a provider before its hold is on disk, and none for a disconnected client. */
  onAsked(request: ProviderRequest): void {
    this.#checkHeld(request)
    const client = this.#evidence.clients[request.client]!
    if (client.end === 'left' && !client.leftBlocked)
      this.#fail(client, 'is sent to the provider after it has disconnected')
  }

  onSent(request: ProviderRequest): void {
    this.#checkHeld(request)
  }

  #checkHeld(request: ProviderRequest): void {
    const held = this.#evidence.books().openHold(request.exchange)
    const client = this.#evidence.clients[request.client]!
    if (held === undefined) {
      this.#fail(client, 'I7: is sent upstream without a committed, open hold')
      return
    }
    const expected = holdOf(caseOf(client, Number(request.body['max_completion_tokens'])))
    if (held !== expected) this.#fail(client, `holds ${held}; it can cost ${expected}`)
  }

  /** I9: the end of an answer is delivered only after its charge was committed or spooled. */
  onComplete(client: Client): void {
    const exchange = client.received().headers['x-request-id'] ?? ''
    const settle = this.#evidence.books().durableSettle(exchange)
    if (!settle) this.#fail(client, 'I9: has all of its answer, but nothing is settled')
    else if (settle.outcome !== 'answered')
      this.#fail(client, `has all of its answer, but is settled as ${settle.outcome}`)
    const cost = client.received().headers['x-tollgate-cost']
    const amount =
      settle && `${settle.amount / 1_000_000_000n}.${String(settle.amount % 1_000_000_000n).padStart(9, '0')}`
    if (!client.plan.stream && cost !== amount)
      this.#fail(client, `received the cost ${cost}, but is charged ${amount}`)
  }

  onOver(key: string): void {
    this.#witnesses.overAt.set(key, this.#world.now)
  }

  /** The final audit, in a life of its own after recovery. */
  ledger(report: VerifyReport): void {
    this.#isAudited = true
    for (const { invariant, subject, message } of report.violations) {
      this.#world.fail(`verify ${invariant}: ${subject}: ${message}`)
    }
    const books = this.#evidence.books()
    const accounts = new Map(
      this.#evidence.lives
        .at(-1)!
        .store.reads.listAccounts()
        .map(({ id, name }) => [id, name]),
    )
    for (const { account, posted, held, owed, open, credits } of books.balances()) {
      const granted = this.#granted.get(accounts.get(account)!) ?? 0n
      if (credits < granted) this.#world.fail(`account ${account} was granted ${granted}, but got ${credits}`)
      if (held !== 0n || open !== 0n) this.#world.fail(`I2: account ${account} holds ${held}, but ${open} is open`)
      if (posted !== owed) this.#world.fail(`I3: account ${account} has posted ${posted}; its events add up to ${owed}`)
    }
    const holds = books.holds()
    const settles = Map.groupBy(books.settles(), ({ id }) => id)
    const charged = new Map<string, bigint>()
    for (const hold of holds) {
      const [settle, ...more] = settles.get(hold.id) ?? []
      settles.delete(hold.id)
      const client = this.#evidence.clients[Number(hold.idempotency_key.slice('client-'.length))]!
      if (!settle || more.length > 0) {
        this.#fail(client, `I4: its hold ends in ${settle ? more.length + 1 : 0} settles`)
        continue
      }
      if (settle.amount > hold.amount) this.#fail(client, `I5: is charged ${settle.amount} of ${hold.amount}`)
      const name = accounts.get(hold.account)!
      charged.set(name, (charged.get(name) ?? 0n) + settle.amount)
      if (client.plan.key.account !== name) this.#fail(client, `is charged to ${name}`)
      this.#exchange(client, hold, settle)
    }
    for (const id of settles.keys()) this.#world.fail(`I7: ${id} is settled without a hold`)
    this.#checkHolds(holds)
  }

  /** Called after the last event. */
  finish(): void {
    if (!this.#isAudited) this.#world.fail('it ended without its audit: something never resolved')
    for (const client of this.#evidence.clients) this.#witnesses.client(client)
    for (const { requests } of this.#evidence.providers)
      for (const request of requests) this.#witnesses.request(request)
    this.#world.throwViolation()
  }

  #checkHolds(holds: readonly HoldRow[]): void {
    const held = new Set(holds.map(({ id }) => id))
    for (const { requests } of this.#evidence.providers) {
      for (const { exchange, client } of requests) {
        if (!held.has(exchange))
          this.#fail(this.#evidence.clients[client]!, 'was sent upstream, but its hold is missing')
      }
    }
  }

  /** Checks one exchange with a hold: how it ended, and its charge. */
  #exchange(client: Client, hold: HoldRow, settle: SettleRow): void {
    const world = this.#world
    world.count(`source ${settle.source}`)
    world.count(`outcome ${settle.outcome}`)
    const requests = this.#witnesses.requestsOf(client)
    if (requests.length > 1) this.#fail(client, `was sent upstream ${requests.length} times`)
    const [request] = requests
    if (!request) {
      if (settle.amount !== 0n) this.#fail(client, `is charged ${settle.amount}, but was not sent to a provider`)
      if (settle.source === 'recovered' && !this.#evidence.diedAt.has(client.life))
        this.#fail(client, 'was not sent to a provider, but its hold stayed until the next start')
      return
    }
    const about = caseOf(client, Number(request.body['max_completion_tokens']))
    if (hold.cap_tokens !== BigInt(ceilingOf(about))) this.#fail(client, `its hold pays for ${hold.cap_tokens} tokens`)
    const items = request.delivered.map(({ item }) => item)
    if (settle.source === 'recovered') {
      this.#recovered(client, about, request, hold, settle)
      return
    }
    this.#outcome(client, about, request, settle)
    const expected = chargeOf(about, settle.outcome, items, {
      wasTaken: request.end === 'complete' && request.status === 200,
      wasAbandoned: this.#wasAbandoned(client, about, request, settle),
    })
    const amount = expected.amount < hold.amount ? expected.amount : hold.amount
    if (settle.amount !== amount || settle.source !== expected.source) {
      this.#fail(
        client,
        `is charged ${settle.amount} (${settle.source}) for "${settle.outcome}"; by the rules it is ${amount} (${expected.source}); the provider: ${request.script.name}`,
      )
    }
  }

  /** Whether the gateway aborted a sent request only because its client had disconnected. */
  #wasAbandoned(client: Client, about: Case, request: ProviderRequest, { outcome }: SettleRow): boolean {
    const { end, endedAt, askedAt, sentAt, headAt, pieceAt, status, delivered } = request
    if (end !== 'aborted' || sentAt === null || (status !== null && status !== 200)) return false
    const { leftAt, leftBlocked } = client
    const hasLeft = outcome === 'client_left' || (leftAt !== null && !leftBlocked && leftAt < endedAt!)
    if (!hasLeft || !(outcome === 'client_left' || outcome === 'cut')) return false
    const items = delivered.map(({ item }) => item)
    if (about.stream && sumOf(items, about).isBroken) return false
    // A request that is aborted at once is not late.
    if (endedAt === leftAt) return true
    const lastMs = pieceAt ?? (about.stream ? null : headAt)
    const isSilent = lastMs === null ? endedAt! - askedAt > TIMEOUTS.firstByteMs : endedAt! - lastMs > TIMEOUTS.idleMs
    return !isSilent && endedAt! - askedAt <= TIMEOUTS.totalMs
  }

  /** Checks that the exchange may have its outcome. */
  #outcome(client: Client, about: Case, request: ProviderRequest, { outcome }: SettleRow): void {
    const sum = sumOf(
      request.delivered.map(({ item }) => item),
      about,
    )
    const isBodyWhole = request.end === 'complete' && request.status === 200
    const isGood = about.stream
      ? request.status === 200 && !sum.isBroken && (sum.isDone ? sum.hasFinish : isBodyWhole && sum.isComplete)
      : isBodyWhole && !sum.isBroken
    const life = this.#evidence.lives[client.life]!
    if (outcome === 'answered' && !isGood)
      this.#fail(client, `counts as answered; the provider: ${request.script.name}`)
    if (outcome === 'failed' && isGood) this.#fail(client, `counts as failed; the provider: ${request.script.name}`)
    if (outcome === 'client_left' && client.leftAt === null && client.plan.stall === null) {
      this.#fail(client, 'counts as disconnected, but it is not')
    }
    if (outcome === 'cut' && life.cutAt === null) this.#fail(client, 'counts as cut, but no client was')
    if (outcome === 'refused') this.#fail(client, 'was sent upstream but counts as refused')
  }

  /** The charge after a kill: the last checkpoint, at most five seconds old. */
  #recovered(client: Client, about: Case, request: ProviderRequest, hold: HoldRow, settle: SettleRow): void {
    const checkpoints = this.#evidence.books().checkpoints(hold.id)
    const last = checkpoints.at(-1)
    this.#world.count(last ? 'recovered at a checkpoint' : 'recovered at nothing')
    const reached = last?.amount ?? 0n
    const amount = reached < hold.amount ? reached : hold.amount
    if (settle.amount !== amount)
      this.#fail(client, `is recovered at ${settle.amount}; its last checkpoint has ${amount}`)
    const diedAt = this.#evidence.diedAt.get(request.life)
    if (diedAt === undefined) {
      this.#fail(client, 'is recovered, but its process was not killed')
      return
    }
    let before = -1
    for (const { amount: said, completion_tokens } of checkpoints) {
      const tokens = Number(completion_tokens)
      if (said !== checkpointOf(about, tokens)) this.#fail(client, `has a checkpoint of ${said} at ${tokens} tokens`)
      if (tokens < before) this.#fail(client, `has a checkpoint of ${tokens} tokens behind one of ${before}`)
      before = tokens
    }
    const countedAt = (ms: number) =>
      sumOf(
        request.delivered.filter(({ at }) => at <= ms).map(({ item }) => item),
        about,
      ).counted
    if (before > countedAt(diedAt))
      this.#fail(client, `has a checkpoint of ${before} tokens that the provider did not send`)
    const isDiskGood = !this.#evidence.scenario.mishaps.some(
      ({ what }) => what === 'disk' || what === 'crash at commit',
    )
    const least = Math.min(ceilingOf(about), countedAt(diedAt - CHECKPOINT_MS - SLACK_MS))
    if (about.stream && isDiskGood && least > 0 && before < least) {
      this.#fail(client, `had ${least} tokens five seconds before the end; its checkpoint has ${before}`)
    }
  }

  #fail(client: Client, message: string): void {
    this.#world.fail(`client ${client.plan.index} ${message}`)
  }
}
