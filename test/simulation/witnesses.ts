/** Final checks of the clients' and providers' records: honest endings, and no provider is kept busy for nothing. */
import type { Evidence } from './audit.ts'
import type { Client } from './client.ts'
import { STALL_MS, TIMEOUTS } from './ground.ts'
import { type Case, caseOf, sumOf } from './oracle.ts'
import type { ProviderRequest } from './provider.ts'
import type { World } from './world.ts'

/** Two rounds of the deadline clock (100 ms each), and 100 ms more. */
export const SLACK_MS = 300
/** Maximum wait for a client after a cut. */
const HURRY_MS = 2_000

export class Witnesses {
  readonly #world: World
  readonly #evidence: Evidence
  /** When an exchange was complete except for its last bytes, by its idempotency key. */
  readonly overAt = new Map<string, number>()

  constructor(world: World, evidence: Evidence) {
    this.#world = world
    this.#evidence = evidence
  }

  /** The requests to a provider for a client: at most one. */
  requestsOf(client: Client): ProviderRequest[] {
    return this.#evidence.providers.flatMap(({ requests }) =>
      requests.filter(each => each.client === client.plan.index),
    )
  }

  /** The client's view: one ending, and an honest one. */
  client(client: Client): void {
    const { plan, end, endedAt } = client
    this.#world.count(`client ${end}`)
    const overAt = this.overAt.get(`client-${plan.index}`)
    const life = this.#evidence.lives[client.life]
    const cutAt = life?.cutAt ?? 0
    const patience = Math.max((overAt ?? 0) + STALL_MS, cutAt + HURRY_MS) + SLACK_MS
    // A client may read bytes from the kernel after the process has ended.
    const waitedUntil = Math.min(endedAt ?? 0, life?.endedAt ?? Number.POSITIVE_INFINITY)
    if (overAt !== undefined && waitedUntil > patience) {
      this.#fail(client, `read nothing for ${waitedUntil - overAt} ms and was waited for`)
    }
    if (end === null) {
      this.#fail(client, 'never received an ending')
      return
    }
    if (end !== 'closed') return
    const { status, body, isWhole, headers } = client.received()
    const isExcused = plan.stall !== null
    if (status === null) {
      if (!isExcused) this.#fail(client, 'got no answer at all')
      return
    }
    this.#world.count(`status ${status}`)
    if (headers['x-tollgate-max-output-tokens']) this.#world.count('clamped cap')
    if (status !== 200) {
      const error = isWhole ? (JSON.parse(body) as { error?: object }).error : undefined
      const keys = Object.keys(error ?? {}).sort()
      if (keys.join() !== 'code,message,param,type' && !isExcused)
        this.#fail(client, `got ${status} without an error body`)
      return
    }
    if (!plan.stream) {
      if (!isWhole && !isExcused) this.#fail(client, 'got half an answer')
      if (isWhole)
        this.#content(
          client,
          JSON.parse(body).choices.map((choice: { message: { content: string }; index: number }) => [
            choice.index,
            choice.message.content,
          ]),
          true,
        )
      return
    }
    this.#stream(client, body, isWhole, isExcused)
  }

  #stream(client: Client, body: string, isWhole: boolean, isExcused: boolean): void {
    const events = body
      .split('\n\n')
      .filter(text => text.startsWith('data: '))
      .map(text => text.slice('data: '.length))
    const dones = events.filter(data => data === '[DONE]').length
    // The remainder of a stalled client's answer was cut.
    const parsed = events.filter(data => data !== '[DONE]').flatMap(data => parseOr(data))
    const errors = parsed.filter(each => each.error).length
    const choices = parsed.flatMap(each => each.choices ?? [])
    const finished = new Set(choices.filter(each => each.finish_reason).map(each => each.index))
    if (dones + errors > 1) this.#fail(client, `saw ${dones} [DONE] and ${errors} errors`)
    if (dones + errors === 0 && !isExcused) this.#fail(client, 'saw its stream end in silence')
    if (dones === 1 && finished.size === 0) this.#fail(client, 'saw [DONE] without a finish reason')
    if (errors === 1 && finished.size >= client.plan.choices) this.#fail(client, 'saw a finish reason and an error')
    if (dones + errors === 0 && isWhole) this.#fail(client, 'saw a clean end of an empty answer')
    if (errors === 1 && !isWhole && !isExcused) this.#fail(client, 'saw its stream break behind the error')
    if (dones === 1) this.#world.count('streams done')
    if (errors === 1) this.#world.count('streams with an error')
    if (!client.plan.includeUsage && parsed.some(each => each.usage))
      this.#fail(client, 'saw a usage that it did not ask for')
    const contents = choices
      .filter(each => each.delta?.content)
      .map(each => [each.index, each.delta!.content!] as const)
    this.#content(client, contents, dones === 1)
  }

  /** Checks that the client read the provider's contents in order, and all of them if the answer was marked as complete. */
  #content(client: Client, received: readonly (readonly [number, string])[], isAll: boolean): void {
    const [request] = this.requestsOf(client)
    if (!request) {
      this.#fail(client, 'got an answer without a request to a provider')
      return
    }
    const items = request.delivered.map(({ item }) => item)
    const end = items.findIndex(item => item.last)
    const provided = (end < 0 ? items : items.slice(0, end)).flatMap(({ contents }) => contents)
    for (let index = 0; index < client.plan.choices; index++) {
      const saw = received
        .filter(([each]) => each === index)
        .map(([, text]) => text)
        .join('')
      const sent = provided
        .filter(each => each.index === index)
        .map(each => each.text)
        .join('')
      if (isAll ? saw !== sent : !sent.startsWith(saw))
        this.#fail(client, `read ${JSON.stringify(saw)} of ${JSON.stringify(sent)}`)
    }
  }

  /** The provider's view: it was busy only as long as necessary. */
  request(request: ProviderRequest): void {
    const client = this.#evidence.clients[request.client]!
    const { askedAt, sentAt, headAt, pieceAt, endedAt, delivered, body } = request
    if (endedAt === null) {
      this.#fail(client, 'its request at the provider was never ended')
      return
    }
    const about = caseOf(client, Number(body['max_completion_tokens']))
    const within = (from: number, ms: number, what: string) => {
      if (endedAt > from + ms + SLACK_MS) this.#fail(client, `${what}: the provider was busy ${endedAt - from} ms more`)
    }
    if (!request.wasPaused) {
      if (pieceAt !== null) within(pieceAt, TIMEOUTS.idleMs, 'nothing came')
      else if (headAt !== null && !about.stream) within(headAt, TIMEOUTS.idleMs, 'nothing came')
      else within(askedAt, TIMEOUTS.firstByteMs, 'no answer came')
    }
    within(askedAt, TIMEOUTS.totalMs, 'it took very long')
    // After [DONE] the answer has ended, also for a connected client. The body gets one more second to end.
    const doneAt = delivered.find(({ item }) => item.last === 'done')?.at
    if (doneAt !== undefined) {
      within(doneAt, 1_000, 'it had sent [DONE]')
      return
    }
    const { leftAt } = client
    if (leftAt === null || client.leftBlocked || leftAt < askedAt || endedAt <= leftAt) return
    const drains = client.plan.path.startsWith('/drain') || (about.reasoning && !about.forgives)
    const before = delivered.filter(({ at }) => at <= leftAt).map(({ item }) => item)
    const isComplete = sumOf(before, about).isComplete
    const isDrained = !isComplete && drains && sentAt !== null && sentAt <= leftAt
    if (isComplete || isDrained) this.#patience(client, about, request, leftAt + (isComplete ? 2_000 : 30_000))
    if (isComplete) this.#world.count('left behind the finish')
    if (isDrained) this.#world.count('left and drained')
    if (isComplete) within(leftAt, 2_000, 'its client left at its end')
    else if (isDrained) within(leftAt, 30_000, 'its client left, and it is drained')
    else within(leftAt, 1_000 - SLACK_MS, 'its client left')
  }

  /** Checks that the gateway did not abort the request while it should still wait for the usage. */
  #patience(client: Client, about: Case, request: ProviderRequest, until: number): void {
    const { end, endedAt, askedAt, headAt, pieceAt, status, delivered } = request
    const isCut = this.#evidence.lives[request.life]!.cutAt !== null
    if (end !== 'aborted' || isCut || (status !== null && status !== 200) || endedAt! >= until) return
    const sum = sumOf(
      delivered.map(({ item }) => item),
      about,
    )
    const lastMs = pieceAt ?? (about.stream ? null : headAt)
    const isLate = lastMs === null ? endedAt! - askedAt > TIMEOUTS.firstByteMs : endedAt! - lastMs > TIMEOUTS.idleMs
    // The answer finished while it was drained: from then on the gateway waits two seconds for the usage.
    if (sum.isBroken || isLate || (sum.isComplete && endedAt! >= lastMs! + 1_000)) return
    this.#fail(client, `was aborted ${until - endedAt!} ms too early: its usage might still have come`)
  }

  #fail(client: Client, message: string): void {
    this.#world.fail(`client ${client.plan.index} ${message}`)
  }
}

interface StreamEvent {
  readonly error?: unknown
  readonly usage?: unknown
  readonly choices?: readonly { index: number; finish_reason: string | null; delta?: { content?: string } }[]
}

function parseOr(data: string): StreamEvent[] {
  try {
    return [JSON.parse(data) as StreamEvent]
  } catch {
    return []
  }
}
