/** One request of the fake provider: the operations of a behaviour, and the record of the request. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { WireUsage } from '#contract'
import type { Call, Meter, ProviderRequest, RequestEnd } from './fake-provider.ts'
import { Gate } from './gate.ts'

type Writable<T> = { -readonly [Key in keyof T]: T[Key] }
type Line = Writable<Omit<ProviderRequest, 'emitted'>> & { readonly emitted: Writable<ProviderRequest['emitted']> }

const EMITTED_TEXT_MOST = 65_536

export class Served implements Call {
  readonly request: Line
  readonly url: string
  readonly gate = new Gate()
  readonly closed: Promise<void>
  readonly ended: Promise<RequestEnd>
  private readonly incoming: IncomingMessage
  private readonly response: ServerResponse
  private readonly startedAt = performance.now()
  private resolveEnded: (ending: RequestEnd) => void = () => {}
  private brokenOff = false

  constructor(incoming: IncomingMessage, response: ServerResponse, connection: number, url: string) {
    this.incoming = incoming
    this.response = response
    this.url = url
    this.ended = new Promise(resolve => {
      this.resolveEnded = resolve
    })
    this.request = {
      index: -1,
      connection,
      method: incoming.method ?? '',
      path: incoming.url ?? '',
      headers: Object.fromEntries(Object.entries(incoming.headers).map(([name, value]) => [name, String(value)])),
      rawHeaders: incoming.rawHeaders,
      raw: Buffer.alloc(0),
      body: undefined,
      emitted: { bytes: 0, text: '', tokens: 0, usage: null },
      ending: null,
      step: count => this.gate.step(count),
      release: () => this.gate.release(),
    }
    this.closed = this.watch()
  }

  /** Reads the body. If the client disconnects, keeps the part that has arrived. */
  async read(): Promise<void> {
    const pieces: Buffer[] = []
    try {
      for await (const piece of this.incoming) pieces.push(piece as Buffer)
      this.request.body = JSON.parse(Buffer.concat(pieces).toString('utf8'))
    } catch {
      this.request.body = undefined
    }
    this.request.raw = Buffer.concat(pieces)
  }

  head(status: number, headers: Record<string, string | string[]> = {}): void {
    this.response.writeHead(status, headers)
    this.response.flushHeaders()
  }

  async write(data: string | Buffer, meter: Meter = {}): Promise<boolean> {
    if (this.response.destroyed || this.response.socket?.destroyed !== false) return false
    const roomy = this.response.write(data)
    this.count(data, meter)
    if (!roomy) await Promise.race([new Promise(resolve => this.response.once('drain', resolve)), this.closed])
    // Lets the event loop turn, so that two writes are two packets and a reset is noticed.
    else await nextTurn()
    return !this.response.destroyed
  }

  async end(data: string | Buffer = '', meter: Meter = {}): Promise<void> {
    if (data.length > 0) this.count(data, meter)
    await Promise.race([new Promise<void>(resolve => this.response.end(data, resolve)), this.closed])
  }

  async sendRaw(data: string | Buffer): Promise<boolean> {
    const { socket } = this.incoming
    if (socket.destroyed) return false
    this.count(data, {})
    await Promise.race([new Promise(resolve => socket.write(data, resolve)), this.closed])
    return !socket.destroyed
  }

  fin(): void {
    this.brokenOff = true
    this.incoming.socket.end()
  }

  reset(): void {
    this.brokenOff = true
    this.incoming.socket.resetAndDestroy()
  }

  async step(send: () => Promise<unknown>): Promise<boolean> {
    await Promise.race([this.gate.pass(), this.closed])
    if (this.incoming.socket.destroyed || this.request.ending) return false
    await send()
    this.gate.done()
    return true
  }

  private count(data: string | Buffer, { tokens = 0, usage }: Meter): void {
    const { emitted } = this.request
    emitted.bytes += Buffer.byteLength(data)
    if (emitted.text.length < EMITTED_TEXT_MOST) emitted.text += data.toString().slice(0, EMITTED_TEXT_MOST)
    emitted.tokens += tokens
    emitted.usage = usage ?? (emitted.usage as WireUsage | null)
  }

  /** Records the first event of the end. Node emits the events of FIN, RST and close in an order that differs. */
  private watch(): Promise<void> {
    const { socket } = this.incoming
    const end = (how: RequestEnd['how']) => {
      if (this.request.ending) return
      const at = performance.now()
      this.request.ending = { how: this.brokenOff ? 'provider' : how, ms: at - this.startedAt, at }
      this.resolveEnded(this.request.ending)
    }
    const onFin = () => end('fin')
    const onError = () => end('reset')
    socket.once('end', onFin)
    socket.once('error', onError)
    const closed = new Promise<void>(resolve => {
      const onClose = () => {
        end('reset')
        resolve()
      }
      socket.once('close', onClose)
      this.response.once('finish', () => {
        end('answered')
        resolve()
        socket.off('end', onFin).off('error', onError).off('close', onClose)
      })
    })
    return closed
  }
}
