/** A client: sends its request, reads some of the answer, may disconnect early, and records the received bytes. */
import { Wire } from '../../src/simulate/connection.ts'
import type { ClientPlan } from './scenario.ts'
import type { World } from './world.ts'

/** How the connection ended, from the client's view. */
export type ConnectionEnd = 'left' | 'closed' | 'process ended' | 'no connection'

/** The client's reading of the received bytes. */
export interface ReceivedAnswer {
  readonly status: number | null
  readonly headers: Readonly<Record<string, string>>
  /** Whether its framing shows that it is complete. */
  readonly isWhole: boolean
  readonly body: string
}

export interface ClientParts {
  readonly world: World
  /** Called when the client has received the end of a good answer. */
  onComplete(client: Client): void
}

export class Client {
  readonly plan: ClientPlan
  readonly #parts: ClientParts
  readonly body: Buffer
  wire: Wire | null = null
  end: ConnectionEnd | null = null
  endedAt: number | null = null
  leftAt: number | null = null
  /** Whether bytes for the client were unread when it disconnected. Then the gateway notices the disconnect only after a read. */
  leftBlocked = false
  /** The number of the gateway's life in which the client connected. */
  life = 0
  /** The time at which all of the request was sent. */
  sentAt: number | null = null
  stalledForMs = 0
  #text = ''
  #bytes = 0
  #isComplete = false

  constructor(plan: ClientPlan, body: Buffer, parts: ClientParts) {
    this.plan = plan
    this.body = body
    this.#parts = parts
  }

  start(life: number, connect: (wire: Wire) => void): void {
    const { world } = this.#parts
    this.life = life
    const { plan } = this
    world.note(
      `client ${plan.index} comes: ${plan.key.name} ${plan.path} ${plan.model}${plan.stream ? ' stream' : ''} x${plan.choices} cap ${plan.cap}`,
    )
    this.wire = new Wire({
      data: bytes => this.#data(bytes),
      end: () => {},
      closed: () => this.#over('closed'),
    })
    connect(this.wire)
    const head = Buffer.from(
      `POST ${plan.path} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n` +
        `authorization: Bearer ${plan.key.token}\r\nidempotency-key: client-${plan.index}\r\n` +
        `content-length: ${this.body.length}\r\n\r\n`,
    )
    const request = Buffer.concat([head, this.body])
    let delayMs = 0
    plan.pieces.forEach((piece, nth) => {
      const from = nth === 0 ? 0 : Math.floor(request.length * plan.pieces[nth - 1]!.upTo)
      const to = Math.floor(request.length * piece.upTo)
      delayMs += piece.afterMs
      world.after(delayMs, () => {
        if (this.end) return
        this.wire!.send(request.subarray(from, to))
        if (nth === plan.pieces.length - 1) this.sentAt = world.now
      })
    })
    if (plan.leaveAfterMs !== null) world.after(plan.leaveAfterMs, () => this.leave('its time is over'))
    if (plan.stall) {
      world.after(plan.stall.afterMs, () => {
        if (!this.end) this.wire!.stall()
        world.note(`client ${plan.index} takes nothing any more`)
      })
      world.after(plan.stall.afterMs + plan.stall.forMs, () => {
        world.note(`client ${plan.index} takes again`)
        this.wire!.resumeTaking()
      })
    }
  }

  leave(why: string): void {
    if (this.end || !this.wire) return
    this.#parts.world.note(`client ${this.plan.index} leaves (${this.plan.leaveBy}): ${why}`)
    this.leftAt = this.#parts.world.now
    this.leftBlocked = this.wire.isBlocked
    this.#over('left')
    this.wire.leave(this.plan.leaveBy)
  }

  /** Its connection ended with the gateway's process, or was never accepted. */
  cut(how: 'process ended' | 'no connection'): void {
    this.wire?.cut()
    this.#over(how)
  }

  get isComplete(): boolean {
    return this.#isComplete
  }

  get text(): string {
    return this.#text
  }

  received(): ReceivedAnswer {
    const at = this.#text.indexOf('\r\n\r\n')
    if (at < 0) return { status: null, headers: {}, isWhole: false, body: '' }
    const [statusLine, ...lines] = this.#text.slice(0, at).split('\r\n')
    const headers: Record<string, string> = {}
    for (const line of lines) {
      const colon = line.indexOf(':')
      headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim()
    }
    const rest = this.#text.slice(at + 4)
    const status = Number(statusLine!.split(' ')[1])
    if (headers['transfer-encoding'] === 'chunked') return { status, headers, ...dechunk(rest) }
    const length = Number(headers['content-length'] ?? 0)
    return { status, headers, isWhole: rest.length === length, body: utf8(rest.slice(0, length)) }
  }

  #data(bytes: Buffer): void {
    // A disconnected client sees nothing any more.
    if (this.end) return
    this.#text += bytes.toString('latin1')
    this.#bytes += bytes.length
    if (!this.#isComplete && this.#looksComplete()) {
      this.#isComplete = true
      this.#parts.world.note(`client ${this.plan.index} has all of its answer`)
      this.#parts.onComplete(this)
    }
    const { leaveAfterBytes } = this.plan
    if (leaveAfterBytes !== null && this.#bytes >= leaveAfterBytes) this.leave(`after ${this.#bytes} bytes`)
  }

  /** `[DONE]`, or the last byte of a whole answer with status 200. */
  #looksComplete(): boolean {
    if (this.plan.stream) return this.#text.includes('data: [DONE]')
    const { status, isWhole } = this.received()
    return status === 200 && isWhole
  }

  #over(how: ConnectionEnd): void {
    if (this.end) return
    this.end = how
    this.endedAt = this.#parts.world.now
    if (how === 'left') return
    const { status } = this.received()
    this.#parts.world.note(`client ${this.plan.index}: ${how}, status ${status}, ${this.#bytes} bytes`)
  }
}

function dechunk(text: string): { isWhole: boolean; body: string } {
  let body = ''
  let at = 0
  for (;;) {
    const line = text.indexOf('\r\n', at)
    if (line < 0) return { isWhole: false, body: utf8(body) }
    const size = Number.parseInt(text.slice(at, line), 16)
    if (size === 0) return { isWhole: text.slice(line, line + 4) === '\r\n\r\n', body: utf8(body) }
    if (text.length < line + 2 + size + 2) return { isWhole: false, body: utf8(body + text.slice(line + 2)) }
    body += text.slice(line + 2, line + 2 + size)
    at = line + 2 + size + 2
  }
}

function utf8(latin1: string): string {
  return Buffer.from(latin1, 'latin1').toString('utf8')
}
