/** The virtual provider: follows scripts, and records its requests, the delivered items and the time of each abort. */
import type { QueuedHandler, Transport, UpstreamRequest } from '../../src/providers/transport.ts'
import { drawScript, type Item, type Script } from './answers.ts'
import type { Entry, World } from './world.ts'

/** The provider's record of one request. */
export interface ProviderRequest {
  readonly exchange: string
  /** The number of the client, from the prompt. */
  readonly client: number
  readonly body: Record<string, unknown>
  readonly script: Script
  readonly life: number
  readonly askedAt: number
  /** The time at which the request was sent; null while it waits for a connection. */
  sentAt: number | null
  /** Items that the gateway has received, with their times. */
  readonly delivered: { readonly item: Item; readonly at: number }[]
  headAt: number | null
  status: number | null
  /** The time at which the last piece was delivered. */
  pieceAt: number | null
  /** Whether the gateway paused the answer at any time. */
  wasPaused: boolean
  end: 'complete' | 'error' | 'aborted' | 'process ended' | null
  endedAt: number | null
}

export interface ProviderParts {
  readonly world: World
  readonly life: number
  /** Called when the gateway dispatches the request, before the provider reads it. */
  onAsked(request: ProviderRequest): void
  onSent(request: ProviderRequest): void
  /** Called after the gateway has received a piece with these items. */
  onDelivered(request: ProviderRequest, items: readonly Item[]): void
}

export interface Provider {
  readonly dispatch: Transport
  readonly requests: ProviderRequest[]
  /** Called when the gateway's process ends. */
  hangUp(): void
}

export function createProvider(parts: ProviderParts): Provider {
  const requests: ProviderRequest[] = []
  const runs = new Set<Run>()
  let isHungUp = false
  return {
    requests,
    dispatch(request, handler) {
      // A dead process sends no request.
      if (isHungUp) return
      const run = new Run(parts, requestOf(request, parts), handler, () => runs.delete(run))
      requests.push(run.request)
      runs.add(run)
      run.start()
    },
    hangUp() {
      isHungUp = true
      for (const run of runs) run.over('process ended')
    },
  }
}

function requestOf({ headers, body }: UpstreamRequest, { world, life }: ProviderParts): ProviderRequest {
  const json = JSON.parse(body.toString()) as Record<string, unknown>
  const [message] = json['messages'] as { content: string }[]
  const asked = {
    stream: json['stream'] === true,
    choices: Number(json['n'] ?? 1),
    cap: Number(json['max_completion_tokens']),
  }
  return {
    exchange: headers['x-request-id']!,
    client: Number(/^client (\d+)/.exec(message!.content)?.[1]),
    body: json,
    script: drawScript(asked, world.random),
    life,
    askedAt: world.now,
    sentAt: null,
    delivered: [],
    headAt: null,
    status: null,
    pieceAt: null,
    wasPaused: false,
    end: null,
    endedAt: null,
  }
}

class Run {
  readonly request: ProviderRequest
  readonly #parts: ProviderParts
  readonly #handler: QueuedHandler
  readonly #onOver: () => void
  #next = 0
  #isPaused = false
  #entry: Entry | null = null

  constructor(parts: ProviderParts, request: ProviderRequest, handler: QueuedHandler, onOver: () => void) {
    this.#parts = parts
    this.request = request
    this.#handler = handler
    this.#onOver = onOver
  }

  start(): void {
    const { world, onAsked } = this.#parts
    const { client, script } = this.request
    world.note(`provider: client ${client} asked; ${script.name}`)
    world.count(`provider ${script.name.replace(/ \d+$/, '')}`)
    onAsked(this.request)
    this.#handler.onConnect(() => this.over('aborted'))
    if (this.request.end) return
    this.#handler.onQueued?.()
    // Usually there is a free connection; sometimes the request must wait for one.
    const waitMs = world.random.chance(0.1) ? world.random.whole(100, 3_000) : world.random.whole(0, 3)
    this.#entry = world.after(waitMs, () => this.#send())
  }

  /** Ends the request; the gateway gets no more events. */
  over(how: NonNullable<ProviderRequest['end']>): void {
    const { request } = this
    if (request.end) return
    request.end = how
    request.endedAt = this.#parts.world.now
    if (this.#entry) this.#entry.cancelled = true
    this.#parts.world.note(`provider: client ${request.client} ${how}`)
    this.#onOver()
  }

  #send(): void {
    this.request.sentAt = this.#parts.world.now
    this.#parts.onSent(this.request)
    this.#handler.onSent?.()
    this.#wait()
  }

  /** Schedules the next move; without one it stays silent. */
  #wait(): void {
    const { moves, endless } = this.request.script
    const move = moves[this.#next] ?? endless?.(this.#next)
    if (!move || this.request.end || this.#isPaused) return
    this.#next++
    this.#entry = this.#parts.world.after(move.afterMs, () => {
      if (this.#isPaused) {
        this.#next--
        return
      }
      if (move.head) {
        this.request.headAt = this.#parts.world.now
        this.request.status = move.head.status
        this.#handler.onHeaders(move.head.status, { ...move.head.headers }, () => this.#resume())
      } else if (move.bytes) this.#deliver(move.bytes, move.items ?? [])
      else if (move.end === 'complete') {
        this.over('complete')
        this.#handler.onComplete()
      } else if (move.end) {
        this.over('error')
        this.#handler.onError(move.end)
      }
      this.#wait()
    })
  }

  #deliver(bytes: Buffer, items: readonly Item[]): void {
    const { world, onDelivered } = this.#parts
    for (const item of items) this.request.delivered.push({ item, at: world.now })
    this.request.pieceAt = world.now
    // Sends a copy, because the real transport reuses its buffers.
    if (!this.#handler.onData(Buffer.from(bytes))) this.#isPaused = this.request.wasPaused = true
    onDelivered(this.request, items)
  }

  #resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    this.#parts.world.after(0, () => this.#wait())
  }
}
