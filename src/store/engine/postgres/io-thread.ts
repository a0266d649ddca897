/**
 * The I/O thread: the connections to PostgreSQL of a thread that blocks. That thread sleeps until its statements are answered, so the
 * client's sockets need an event loop elsewhere. One request is in progress at a time. Started by blocking-io.ts.
 */
import { workerData } from 'node:worker_threads'
import { Client, types } from 'pg'
import type { Answer, Call, IoParts, NumberedMessage, OpenCall, QueryCall, Wire, WireError } from './blocking-io.ts'
import { clientConfig } from './postgres-client.ts'

const { port, answered } = workerData as IoParts
const END_MS = 500
const DONE: Answer = { rows: [], before: [], changes: 0, status: 'I' }
const clients = new Map<number, Client>()
/** The reasons why connections were lost, for later statements on them. */
const lost = new Map<number, Error>()

port.on('message', ({ id, value: call }: NumberedMessage<Call>) => {
  void perform(call).then(
    value => answer({ id, value }),
    (error: Error) => answer({ id, value: { error: wireError(error), open: isOpen(call.connection) } }),
  )
})

function answer(answer: NumberedMessage<Answer>): void {
  port.postMessage(answer)
  Atomics.add(answered, 0, 1)
  Atomics.notify(answered, 0)
}

function isOpen(connection: number): boolean {
  return clients.has(connection) && !lost.has(connection)
}

async function perform(call: Call): Promise<Answer> {
  if (call.kind === 'open') return open(call)
  if (call.kind === 'query') return query(call)
  const client = clients.get(call.connection)
  clients.delete(call.connection)
  if (!lost.delete(call.connection) && client !== undefined) await end(client)
  return DONE
}

/** Closes the connection gracefully. If the server does not answer in time, the socket is destroyed. */
async function end(client: Client): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>(resolve => {
    timer = setTimeout(() => {
      destroy(client, new Error('it was closed'))
      resolve()
    }, END_MS)
  })
  await Promise.race([client.end().catch(() => {}), late])
  clearTimeout(timer)
}

async function open({ connection, url, timeoutMs, name }: OpenCall): Promise<Answer> {
  const client = new Client({
    ...clientConfig(url),
    application_name: name,
    connectionTimeoutMillis: timeoutMs,
    keepAlive: true,
    pipeline: true,
  })
  // Without a listener a connection that is cut between two statements would end the thread. An error that arrives after the connection
  // was opened again does not affect the new one.
  const lose = (error: Error) => {
    if (clients.get(connection) === client && !lost.has(connection)) lost.set(connection, error)
  }
  client.on('error', lose)
  client.on('end', () => lose(new Error('it was closed')))
  await client.connect().catch((error: Error) => {
    // The client's own timeout has no code.
    if (error.message !== 'timeout expired') throw error
    throw Object.assign(new Error(`no answer within ${timeoutMs} ms`), { code: 'ETIMEDOUT' })
  })
  lost.delete(connection)
  clients.set(connection, client)
  return DONE
}

async function query({ connection, statements, timeoutMs }: QueryCall): Promise<Answer> {
  const client = clients.get(connection)
  const reason = client ? lost.get(connection) : new Error('it was closed')
  if (reason) throw Object.assign(connectionError(reason), { unsent: true })
  const timer =
    timeoutMs === null
      ? null
      : setTimeout(() => {
          const error = Object.assign(new Error(`no answer within ${timeoutMs} ms`), { late: true })
          lost.set(connection, error)
          destroy(client!, error)
        }, timeoutMs)
  try {
    const sent = statements.map(({ text, name, values, wide }) =>
      client!.query({
        text,
        ...(name === null ? {} : { name }),
        values: values.map(toParameter),
        types: wide ? WIDE : NARROW,
      }),
    )
    // Waits for all of them: after an error no answer may be left on the connection.
    const settled = await Promise.allSettled(sent)
    const results = settled.map(resultOf)
    const { rows, rowCount } = results.pop()!
    const before = results.map(result => result.rows)
    return { rows, before, changes: rowCount ?? 0, status: client!.getTransactionStatus() ?? 'I' }
  } catch (error) {
    const lossReason = lost.get(connection)
    throw lossReason === undefined ? error : connectionError(lossReason)
  } finally {
    if (timer !== null) clearTimeout(timer)
  }
}

/** The result of a text with several statements is that of the last one. */
function resultOf(each: PromiseSettledResult<unknown>): Result {
  if (each.status === 'rejected') throw each.reason
  const value = each.value as Result | Result[]
  return Array.isArray(value) ? value.at(-1)! : value
}

function destroy(client: Client, error: Error): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(error: Error): void } } }
  connection.stream.destroy(error)
}

function connectionError(cause: Error & { late?: boolean }): Error {
  const error = new Error(`the connection to the database is lost: ${cause.message}`)
  return Object.assign(error, { lost: true, late: cause.late === true })
}

function wireError(error: Error & Partial<Omit<WireError, 'code'>> & { code?: unknown }): WireError {
  const code = typeof error.code === 'string' ? error.code : null
  return {
    message: error.message || String(code ?? error.name),
    code,
    lost: error.lost === true,
    late: error.late === true,
    unsent: error.unsent === true,
  }
}

const toParameter = (value: unknown) => (value instanceof Uint8Array ? Buffer.from(value) : value)

interface Result {
  readonly rows: Wire[]
  readonly rowCount: number | null
}

type Parse = (text: string) => unknown

const { builtins } = types
const asBytes: Parse = text => Uint8Array.from(Buffer.from(text.slice(2), 'hex'))
const NUMBERS: readonly number[] = [builtins.INT2, builtins.INT4, builtins.INT8, builtins.NUMERIC, builtins.FLOAT8]

/** Parses values like SQLite's: texts and JSON stay texts, numbers become `number`, and true is 1. */
const NARROW = parsers(Number, text => (text === 't' ? 1 : 0))
/** The same with `bigint` for every integer. */
const WIDE = parsers(BigInt, text => (text === 't' ? 1n : 0n))

function parsers(toNumber: Parse, toBoolean: Parse) {
  const byType = new Map<number, Parse>(NUMBERS.map(type => [type, toNumber]))
  byType.set(builtins.BOOL, toBoolean)
  byType.set(builtins.BYTEA, asBytes)
  const asText: Parse = text => text
  return { getTypeParser: (type: number) => byType.get(type) ?? asText } as never
}
