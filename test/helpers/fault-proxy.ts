/**
 * A TCP proxy with faults: it delays, slows, slices or withholds bytes, or stops after a number of them. Tests put it between gateway
 * and provider, or between client and gateway.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { Gate } from './gate.ts'

/** The faults in one direction of a connection. Default: none. */
export interface Direction {
  /** Delay of each byte, in milliseconds. */
  readonly latencyMs?: number
  readonly bytesPerSecond?: number
  /** The maximum size of a write. The event loop turns between two writes, so the reader gets slices. */
  readonly sliceBytes?: number
  /** After this number of bytes, both sides are closed, by FIN or RST. */
  readonly cut?: { readonly afterBytes: number; readonly how: 'fin' | 'rst' }
  /** After this number of bytes, all others wait for `release()`. */
  readonly holdAfterBytes?: number
}

export interface ConnectionFaults {
  /** From the client to the target. */
  readonly up?: Direction
  /** From the target to the client. */
  readonly down?: Direction
  /** RST instead of a connection to the target. */
  readonly refuse?: boolean
}

/** A connection through the proxy. */
export interface ProxiedConnection {
  readonly index: number
  /** The number of bytes that were forwarded. */
  readonly passed: { up: number; down: number }
  /** Sends the held bytes. */
  release(): void
  /** Closes both sides now. */
  cut(how: 'fin' | 'rst'): void
  /** Resolves when both sides are closed. */
  readonly closed: Promise<void>
}

export interface FaultProxy extends AsyncDisposable {
  readonly url: string
  readonly port: number
  readonly connections: readonly ProxiedConnection[]
  /** Resolves with the connection of that index (the first: 0). */
  waitForConnection(index?: number): Promise<ProxiedConnection>
  close(): Promise<void>
}

/** If more bytes than these wait for a slow reader, the writer is paused. */
const BUFFER_MOST = 65_536

/** Starts a proxy to a URL's host and port. `faults` is called for each connection. */
export async function startFaultProxy(options: {
  readonly target: string
  readonly faults?: ConnectionFaults | ((connection: number) => ConnectionFaults)
}): Promise<FaultProxy> {
  const { hostname, port: targetPort } = new URL(options.target)
  const connections: ProxiedConnection[] = []
  const arrivals: (() => void)[] = []

  // A FIN closes one direction only; the other one continues.
  const server = createServer({ allowHalfOpen: true, noDelay: true }, client => {
    const { faults = {} } = options
    const own = typeof faults === 'function' ? faults(connections.length) : faults
    connections.push(join(client, connections.length, own, hostname, Number(targetPort)))
    for (const arrived of arrivals.splice(0)) arrived()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo

  const close = async (): Promise<void> => {
    const closed = new Promise<void>(resolve => server.close(() => resolve()))
    for (const connection of connections) connection.cut('rst')
    await closed
  }
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    connections,
    async waitForConnection(index = 0) {
      while (connections.length <= index) await new Promise<void>(resolve => arrivals.push(resolve))
      return connections[index]!
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

function join(client: Socket, index: number, faults: ConnectionFaults, host: string, port: number): ProxiedConnection {
  const gate = new Gate()
  const passed = { up: 0, down: 0 }
  client.on('error', () => {})
  const clientClosed = new Promise<void>(resolve => client.once('close', () => resolve()))
  if (faults.refuse) {
    client.resetAndDestroy()
    return { index, passed, release() {}, cut() {}, closed: clientClosed }
  }
  const target = connect({ host, port, allowHalfOpen: true, noDelay: true })
  const targetClosed = new Promise<void>(resolve => target.once('close', () => resolve()))
  const cut = (how: 'fin' | 'rst') => {
    gate.close()
    for (const socket of [client, target]) {
      if (how === 'rst') socket.resetAndDestroy()
      // destroySoon delivers the bytes that were already written, and then sends FIN.
      else socket.destroySoon()
    }
  }
  // A reset on one side becomes a reset on the other. A target that cannot be reached causes one too.
  client.on('error', () => target.resetAndDestroy())
  target.on('error', () => client.resetAndDestroy())
  const run = (from: Socket, to: Socket, way: 'up' | 'down') =>
    pass(from, to, faults[way] ?? {}, gate, cut, bytes => (passed[way] += bytes)).catch(() => cut('rst'))
  void run(client, target, 'up')
  void run(target, client, 'down')
  const closed = Promise.all([clientClosed, targetClosed]).then(() => gate.close())
  return { index, passed, release: () => gate.release(), cut, closed }
}

/** Forwards the bytes of one direction until their end. */
async function pass(
  from: Socket,
  to: Socket,
  direction: Direction,
  gate: Gate,
  cut: (how: 'fin' | 'rst') => void,
  count: (bytes: number) => number,
): Promise<void> {
  const { latencyMs = 0, bytesPerSecond = Infinity, sliceBytes = Infinity } = direction
  const holdAfter = direction.holdAfterBytes ?? Infinity
  const cutAfter = direction.cut?.afterBytes ?? Infinity
  // A slow direction sends twenty pieces per second, so that the rate is even.
  const stride = Math.max(1, bytesPerSecond / 20)
  let sent = 0
  if (cutAfter === 0) return cut(direction.cut!.how)
  for await (const { bytes, dueAt } of delayed(from, latencyMs)) {
    const early = dueAt - performance.now()
    if (early > 0) await pause(early)
    for (let at = 0; at < bytes.length; ) {
      if (sent >= holdAfter) await gate.pass()
      const untilHold = sent < holdAfter ? holdAfter - sent : Infinity
      const piece = bytes.subarray(at, at + Math.min(sliceBytes, stride, cutAfter - sent, untilHold))
      if (bytesPerSecond < Infinity) await pause((piece.length / bytesPerSecond) * 1000)
      at += piece.length
      sent = count(piece.length)
      if (to.destroyed) return
      if (!to.write(piece)) await roomOrEnd(to)
      if (sent >= cutAfter) return cut(direction.cut!.how)
      if (sliceBytes < Infinity) await nextTurn()
    }
  }
  if (!to.destroyed) to.end()
}

/** The bytes of a socket, with the time from which each may be forwarded. Only a full buffer pauses reading; a delay does not. */
async function* delayed(from: Socket, latencyMs: number): AsyncGenerator<{ bytes: Buffer; dueAt: number }> {
  const queue: { bytes: Buffer; dueAt: number }[] = []
  let waiting = 0
  let ended = false
  let wake = () => {}
  from.on('data', (bytes: Buffer) => {
    queue.push({ bytes, dueAt: performance.now() + latencyMs })
    waiting += bytes.length
    if (waiting > BUFFER_MOST) from.pause()
    wake()
  })
  for (const event of ['end', 'close']) {
    from.on(event, () => {
      ended = true
      wake()
    })
  }
  for (;;) {
    const next = queue.shift()
    if (next) {
      yield next
      waiting -= next.bytes.length
      if (waiting <= BUFFER_MOST) from.resume()
    } else if (ended) return
    else await new Promise<void>(resolve => (wake = resolve))
  }
}

function roomOrEnd(socket: Socket): Promise<void> {
  return new Promise(resolve => {
    const done = () => {
      socket.off('drain', done).off('close', done)
      resolve()
    }
    socket.once('drain', done).once('close', done)
  })
}
