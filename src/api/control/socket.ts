/**
 * The control socket, by which a command reaches the gateway that owns the store. Plain HTTP and JSON over a unix socket that only the
 * gateway's user may open (mode 0600):
 *
 *     POST /v1/account.create   {"name":"acme","credit":"10"}   ->   {"result":{"account":{…}}}
 *                                                               ->   {"error":{"message":"…"}}
 */
import { createHash } from 'node:crypto'
import { chmodSync, lstatSync, mkdirSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { isRefusal, type Log } from '#contract'
import { ByteCollector } from '../../common/bytes.ts'
import { StoreError } from '../../store/error.ts'
import { realPath } from '../../store/files/files.ts'
import type { Store } from '../../store/store.ts'
import { isVerb, type RunningParts, runVerb, VerbError, type VerbName, type VerbResults } from './verbs.ts'

export { runVerb, VerbError } from './verbs.ts'

/** The socket of a running gateway. */
export interface Control {
  readonly path: string
  /** Stops listening and removes the socket, after the answers to open calls. */
  close(): Promise<void>
}

export interface ControlOptions extends RunningParts {
  readonly log?: Log
  /** Verbs that this gateway refuses, each with the reason. */
  readonly refused?: Readonly<Partial<Record<VerbName, string>>>
}

/** No gateway runs on this store: the control socket has no listener. */
export class NoGateway extends Error {
  override readonly name = 'NoGateway'
}

/** A failed call. Its message is for people. */
export class ControlError extends Error {
  override readonly name = 'ControlError'
}

const LARGEST_CALL = 64 * 1024
const MAX_CALL_MS = 60_000
/** Arguments that identify the subject of a command, for the log. */
const ABOUT = ['account', 'key', 'person', 'email', 'token', 'exchange', 'name'] as const
/** The kernel's limit is 108 bytes on Linux and 104 on macOS, with the final zero. */
const MAX_PATH_LENGTH = 100

/**
 * The path of the control socket. It is beside the database (`tollgate.db` -> `tollgate.sock`), so that two databases in one
 * folder have two sockets. If that path is too long, or the store is not a file, it is in a private folder of the temporary
 * directory. Its name is then made from the path of the database or of the configuration.
 *
 * @param store `memory`, `sqlite:` with an absolute path, or an address in PostgreSQL
 * @param configFile the absolute path of gateway.yaml
 */
export function controlPath(store: string, configFile: string): string {
  if (store.startsWith('sqlite:')) {
    // All names of a database file have the same socket.
    const database = realPath(store.slice('sqlite:'.length))
    const beside = join(dirname(database), `${basename(database, '.db')}.sock`)
    if (Buffer.byteLength(beside) <= MAX_PATH_LENGTH) return beside
    return join(privateFolder(), `${shortHash(database)}.sock`)
  }
  return join(privateFolder(), `${shortHash(`memory:${configFile}`)}.sock`)
}

/**
 * Listens for commands. Replaces the socket of an ended process; throws a `ControlError` if a running one answers. Logs each
 * command with its subject, without secrets.
 */
export async function startControl(store: Store, path: string, options: ControlOptions = {}): Promise<Control> {
  if (dirname(path) === privateFolder()) makePrivateFolder()
  if (await isListening(path)) throw new ControlError(`another gateway already takes commands at ${path}`)
  rmSync(path, { force: true })

  const server = createServer((incoming, response) => {
    void answer(store, incoming, response, options)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    // `listen` creates the socket. The mask gives it its mode at once: before a chmod, other users could connect.
    const mask = process.umask(0o177)
    try {
      server.listen(path, resolve)
    } finally {
      process.umask(mask)
    }
  })
  chmodSync(path, 0o600)
  return {
    path,
    close: () => new Promise(resolve => server.close(() => resolve())),
  }
}

/**
 * Calls a verb of the running gateway. Throws `NoGateway` if none listens, a `VerbError` with the gateway's message if it refuses, and a
 * `ControlError` if the call fails.
 */
export async function callControl<Name extends VerbName>(
  path: string,
  verb: Name,
  args: Readonly<Record<string, unknown>>,
): Promise<VerbResults[Name]> {
  if (dirname(path) === privateFolder()) checkPrivateFolder()
  const { status, text } = await post(path, `/v1/${verb}`, JSON.stringify(args))
  let body: { result?: unknown; error?: { message?: unknown } }
  try {
    body = JSON.parse(text)
  } catch {
    throw new ControlError(`the program at ${path} is not a gateway: it answered ${status} without JSON`)
  }
  if (status === 200 && body.result !== undefined) return body.result as VerbResults[Name]
  if (typeof body.error?.message !== 'string') {
    throw new ControlError(`the gateway at ${path} answered ${status} without a result`)
  }
  if (status >= 500) throw new ControlError(body.error.message)
  throw new VerbError(body.error.message)
}

async function answer(
  store: Store,
  incoming: IncomingMessage,
  response: ServerResponse,
  options: ControlOptions,
): Promise<void> {
  const { log, refused = {} } = options
  const send = (status: number, body: object): void => {
    // The work is done even if the caller has disconnected.
    response.writeHead(status, { 'content-type': 'application/json', connection: 'close' }).end(JSON.stringify(body))
  }
  const verb = incoming.url?.startsWith('/v1/') ? incoming.url.slice('/v1/'.length) : ''
  let about: unknown
  try {
    if (incoming.method !== 'POST' || !isVerb(verb)) {
      const version = 'this gateway may be of another version than the command'
      throw new VerbError(`the gateway does not know "${incoming.method} ${incoming.url}"; ${version}`)
    }
    const args = await readArgumentsOf(incoming)
    const why = refused[verb]
    if (why !== undefined) throw new VerbError(why)
    about = ABOUT.map(name => args[name]).find(value => value !== undefined)
    const result = await runVerb(store, verb, args, options)
    log?.info({ verb, about, actor: args['actor'] }, 'operator command')
    send(200, { result })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const isMistake =
      error instanceof VerbError || error instanceof StoreError || (isRefusal(error) && error.status < 500)
    if (isMistake) log?.warn({ verb, about, error: message }, 'operator command refused')
    else log?.error({ verb, about, error: message }, 'operator command failed')
    const isSentence = isMistake || isRefusal(error)
    send(isMistake ? 400 : 500, {
      error: { message: isSentence ? message : `the gateway failed: ${message}` },
    })
  }
}

async function readArgumentsOf(incoming: IncomingMessage): Promise<Record<string, unknown>> {
  const body = new ByteCollector()
  for await (const piece of incoming as AsyncIterable<Buffer>) {
    body.add(piece)
    if (body.size > LARGEST_CALL) throw new VerbError(`the arguments are longer than ${LARGEST_CALL} bytes`)
  }
  let value: unknown
  try {
    value = JSON.parse(body.take().toString('utf8'))
  } catch {
    throw new VerbError('the arguments are not JSON')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new VerbError('the arguments must be a JSON object')
  }
  return value as Record<string, unknown>
}

function post(socketPath: string, path: string, body: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { host: 'localhost', 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const outgoing = request({ socketPath, path, method: 'POST', headers, agent: false }, response => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', piece => {
        text += piece
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', error => reject(callFailed(socketPath, error)))
    })
    outgoing.setTimeout(MAX_CALL_MS, () => {
      outgoing.destroy(new ControlError(`the gateway at ${socketPath} did not answer within ${MAX_CALL_MS / 1000} s`))
    })
    outgoing.on('error', error => reject(callFailed(socketPath, error)))
    outgoing.end(body)
  })
}

function callFailed(path: string, error: NodeJS.ErrnoException): Error {
  if (error instanceof ControlError) return error
  if (error.code === 'EACCES' || error.code === 'EPERM') {
    return new ControlError(
      `the control socket ${path} belongs to another user: run this command as the gateway's user`,
    )
  }
  if (error.syscall === 'connect') return new NoGateway(`no gateway listens at ${path} (${error.code})`)
  // The gateway stopped during the call, so the verb may be done. The caller should check before a retry.
  return new ControlError(
    `the gateway at ${path} closed the connection during the call (${error.message}): check whether it was done`,
  )
}

function isListening(path: string): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

/** All users can write the temporary directory: a private folder keeps others from answering as the gateway. */
function privateFolder(): string {
  return join(tmpdir(), `tollgate-${process.getuid?.() ?? 'user'}`)
}

function makePrivateFolder(): void {
  checkPrivateFolder()
  mkdirSync(privateFolder(), { recursive: true, mode: 0o700 })
  checkPrivateFolder()
}

function checkPrivateFolder(): void {
  const folder = privateFolder()
  const found = lstatSync(folder, { throwIfNoEntry: false })
  if (!found) return
  const ours = process.getuid === undefined || found.uid === process.getuid()
  if (!found.isDirectory() || !ours || (found.mode & 0o077) !== 0) {
    throw new ControlError(`${folder} must be a folder that only this user can open (mode 0700); remove it or mend it`)
  }
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}
