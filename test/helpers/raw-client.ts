/**
 * A client that sends the given bytes and reads the answer byte by byte. For requests that fetch would normalize, and for each kind of
 * disconnect.
 */
import { connect, type Socket } from 'node:net'

/** An answer as received. */
export interface RawResponse {
  readonly statusLine: string
  readonly status: number
  /** In their order and spelling. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** The body, decoded from its framing. */
  readonly body: Buffer
  /** How the body ended: at its length, at the last chunk, at the end of the connection, or too early. */
  readonly end: 'length' | 'chunked' | 'close' | 'cut'
  /** The first header of that name, or undefined. */
  header(name: string): string | undefined
  text(): string
}

export interface RawClient {
  readonly socket: Socket
  /** The received bytes that `readResponse` has not yet returned. */
  received(): Buffer
  /** Sends bytes. Text is sent as Latin-1, so that it can have any byte. Resolves when the kernel has them. */
  send(bytes: string | Buffer): Promise<void>
  /** Sends a good POST with a JSON body; `headers` are added. */
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<void>
  /** The next response that is not informational. Rejects if the connection ends before its head. */
  readResponse(options?: { readonly toHead?: boolean }): Promise<RawResponse>
  /** Resolves when the text has arrived, and rejects when the connection ends without it. */
  readUntil(text: string): Promise<void>
  /** All bytes until the end of the connection. */
  readToEnd(): Promise<Buffer>
  /** Stops reading. When the kernel's buffers are full, the other side must wait. */
  pause(): void
  resume(): void
  /** Half-closes the connection: sends FIN. */
  fin(): void
  /** Sends RST. */
  reset(): void
  /** Resolves with how the other side ended the connection; `own`: this side did. Never rejects. */
  readonly closed: Promise<'fin' | 'reset' | 'own'>
}

/** Connects to a URL's host and port, or to a loopback port. */
export async function openRaw(to: string | number): Promise<RawClient> {
  const { hostname, port } = new URL(typeof to === 'number' ? `http://127.0.0.1:${to}` : to)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true, noDelay: true })
  const client = new Client(socket, `${hostname}:${port}`)
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  return client
}

class Client implements RawClient {
  readonly socket: Socket
  readonly closed: Promise<'fin' | 'reset' | 'own'>
  private readonly host: string
  private readonly arrived: Buffer[] = []
  private length = 0
  private over: Error | null = null
  private finished = false
  private readers: (() => void)[] = []

  constructor(socket: Socket, host: string) {
    this.socket = socket
    this.host = host
    this.closed = this.watch()
  }

  received(): Buffer {
    if (this.arrived.length > 1) this.arrived.splice(0, this.arrived.length, Buffer.concat(this.arrived))
    return this.arrived[0] ?? Buffer.alloc(0)
  }

  send(bytes: string | Buffer): Promise<void> {
    const data = typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes
    return new Promise((resolve, reject) => this.socket.write(data, error => (error ? reject(error) : resolve())))
  }

  post(path: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<void> {
    const text = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
    const all = {
      host: this.host,
      'content-type': 'application/json',
      'content-length': String(text.length),
      ...headers,
    }
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
    return this.send(Buffer.concat([Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`), text]))
  }

  async readResponse({ toHead = false } = {}): Promise<RawResponse> {
    const head = await this.head()
    if (head.status < 200 && head.status !== 101) return this.readResponse({ toHead })
    const response = (body: Buffer, end: RawResponse['end']) => ({
      ...head,
      body,
      end,
      text: () => body.toString('utf8'),
    })
    if (toHead) return response(Buffer.alloc(0), 'cut')
    if (head.status === 204 || head.status === 304) return response(Buffer.alloc(0), 'length')
    if (/\bchunked$/i.test(head.header('transfer-encoding') ?? '')) return this.chunked(response)
    const length = head.header('content-length')
    if (length === undefined) {
      const body = await this.readToEnd()
      return response(body, (await this.closed) === 'reset' ? 'cut' : 'close')
    }
    await this.until(() => this.length >= Number(length))
    const whole = this.length >= Number(length)
    return response(this.take(Number(length)), whole ? 'length' : 'cut')
  }

  async readUntil(text: string): Promise<void> {
    await this.until(() => this.received().includes(text))
    if (!this.received().includes(text)) throw this.ended(`before ${JSON.stringify(text)} came`)
  }

  async readToEnd(): Promise<Buffer> {
    await this.until(() => false)
    return this.take(this.length)
  }

  pause(): void {
    this.socket.pause()
  }

  resume(): void {
    this.socket.resume()
  }

  fin(): void {
    this.finished = true
    this.socket.end()
  }

  reset(): void {
    this.finished = true
    this.socket.resetAndDestroy()
  }

  private async head() {
    const length = () => this.received().indexOf('\r\n\r\n')
    await this.until(() => length() >= 0)
    if (length() < 0) throw this.ended('before a response head')
    const [statusLine = '', ...lines] = this.take(length()).toString('latin1').split('\r\n')
    this.take(4)
    const headers = lines.map(
      line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()] as const,
    )
    const header = (name: string) => headers.find(([other]) => other.toLowerCase() === name)?.[1]
    return { statusLine, status: Number(statusLine.split(' ')[1]), headers, header }
  }

  private async chunked<T>(response: (body: Buffer, end: RawResponse['end']) => T): Promise<T> {
    const chunks: Buffer[] = []
    for (;;) {
      await this.until(() => this.received().includes('\r\n'))
      const line = this.received().indexOf('\r\n')
      const size = line < 0 ? Number.NaN : Number.parseInt(this.received().toString('latin1', 0, line), 16)
      if (Number.isNaN(size)) return response(Buffer.concat(chunks), 'cut')
      await this.until(() => this.length >= line + 2 + size + 2)
      const whole = this.length >= line + 2 + size + 2
      this.take(line + 2)
      chunks.push(this.take(size))
      if (!whole) return response(Buffer.concat(chunks), 'cut')
      this.take(2)
      if (size === 0) return response(Buffer.concat(chunks), 'chunked')
    }
  }

  private take(count: number): Buffer {
    const all = this.received()
    this.arrived.splice(0, 1, all.subarray(count))
    this.length = this.arrived[0]!.length
    return all.subarray(0, count)
  }

  /** Waits until the condition is true or the connection has ended. */
  private async until(isSo: () => boolean): Promise<void> {
    while (!isSo() && !this.over) await new Promise<void>(resolve => this.readers.push(resolve))
  }

  private ended(when: string): Error {
    return new Error(`the connection ended ${when}: ${this.over?.message}`)
  }

  private watch(): Promise<'fin' | 'reset' | 'own'> {
    const wake = () => {
      for (const reader of this.readers.splice(0)) reader()
    }
    this.socket.on('data', (bytes: Buffer) => {
      this.arrived.push(bytes)
      this.length += bytes.length
      wake()
    })
    return new Promise(resolve => {
      const end = (how: 'fin' | 'reset' | 'own') => {
        this.over ??= new Error(how)
        resolve(how)
        wake()
      }
      this.socket.on('end', () => {
        end(this.finished ? 'own' : 'fin')
        // Answer a FIN with a FIN; otherwise the socket would stay open.
        if (!this.finished) this.socket.end()
      })
      this.socket.on('error', () => end(this.finished ? 'own' : 'reset'))
      this.socket.on('close', () => end('own'))
    })
  }
}
