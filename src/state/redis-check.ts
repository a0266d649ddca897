/** Checks whether a state server is usable, and words the reason if not. Messages never contain the address, which may have a password. */
import type { Redis } from 'ioredis'
import { EXPIRED, OTHER_HOST, UNKNOWN_CA } from '../common/certificate-faults.ts'

/** The parts of an address that may be shown. */
export interface ServerAddress {
  /** Host and port. */
  readonly shown: string
}

/** An unusable state server. The message continues "state: " and has no full stop. */
export class StateError extends Error {
  override readonly name = 'StateError'
  readonly suggestion: string

  constructor(message: string, suggestion: string) {
    super(message)
    this.suggestion = suggestion
  }
}

const OLDEST = { redis: [6, 2], valkey: [7, 2] } as const

/** Connects and checks the server. @param lastError returns the last error of the connection itself */
export async function checkServer(
  redis: Redis,
  server: ServerAddress,
  withinMs: number,
  lastError: () => unknown,
): Promise<void> {
  let info: string
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`no answer within ${withinMs} ms`)), withinMs)
  try {
    info = await Promise.race([readInfo(redis), late])
  } catch (error) {
    throw failureText(server, isAnswer(error) ? error : (lastError() ?? error))
  } finally {
    clearTimeout(timer)
    late.catch(() => {})
  }
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
  const kind = field('valkey_version') === undefined ? 'redis' : 'valkey'
  const version = field(`${kind}_version`) ?? '0'
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [oldMajor, oldMinor] = OLDEST[kind]
  if (major < oldMajor || (major === oldMajor && minor < oldMinor)) {
    const name = kind === 'redis' ? 'Redis' : 'Valkey'
    throw new StateError(
      `the server at ${server.shown} is ${name} ${version}, which is too old`,
      'use Redis 6.2 or later, or Valkey 7.2 or later',
    )
  }
  // Not `redis_mode`, which Valkey 8 calls `server_mode`.
  if (field('cluster_enabled') === '1') {
    throw new StateError(`the server at ${server.shown} is part of a cluster`, 'use a server that is not')
  }
}

/** Selects the database explicitly: if it does not exist, the client itself would continue in another one. */
async function readInfo(redis: Redis): Promise<string> {
  await redis.connect()
  await redis.select(redis.options.db ?? 0)
  return redis.info()
}

/** Whether the server sent the error. */
function isAnswer(error: unknown): error is Error {
  return (error as Error).name === 'ReplyError'
}

/** Matches the beginning of a server's message, or an error's code. */
type Failure = readonly [start: RegExp, words: string, suggestion: string]

const REFUSALS: readonly Failure[] = [
  [/^NOAUTH/, 'asks for a password', 'add it to the address: redis://:${NAME}@HOST'],
  [/^(WRONGPASS|ERR.*AUTH)/, 'refuses the user or the password', 'check the user and the password in the address'],
  [
    /^NOPERM|can't run this command/,
    'denies this user a command or a key',
    'allow the user all commands on keys that begin with "tollgate:"',
  ],
  [/^READONLY/, 'is a read-only replica', 'write the address of the primary'],
  [/^OOM/, 'has no memory left', 'give it more memory, or set maxmemory-policy volatile-lru'],
  [
    /^ERR unknown command/,
    'does not know a command that is needed',
    'remove rename-command for EVAL, EVALSHA, INFO and SELECT from its configuration',
  ],
  [/^ERR max number of clients/, 'has no connection left', 'raise its maxclients'],
  [/^DENIED.*protected mode/, 'is in protected mode', 'give it a password, and write that into the address'],
  [/^ERR (DB|invalid DB)/, 'does not have that database', 'write another number after the port'],
]

/** Converts an error to a sentence and a suggestion. */
export function failureText(server: ServerAddress, error: unknown): StateError {
  const { message } = error as Error
  if (isAnswer(error)) {
    const known = REFUSALS.find(([start]) => start.test(message))
    if (known) return new StateError(`the server at ${server.shown} ${known[1]}`, known[2])
    return new StateError(`the server at ${server.shown} answers: ${message.slice(0, 200)}`, 'check its log')
  }
  if (/\bRESP\b|protocol error/i.test(message)) {
    return new StateError(`the server at ${server.shown} is not a state server`, 'write the address of Redis or Valkey')
  }
  const { code = '' } = error as NodeJS.ErrnoException
  const [, words, suggestion] = CERTIFICATE.find(([codes]) => codes.test(code)) ?? UNREACHABLE
  return new StateError(
    `the server at ${server.shown} ${words}: ${message.slice(0, 200).replace(/\.$/, '')}`,
    suggestion,
  )
}

const CERTIFICATE: readonly Failure[] = [
  [...UNKNOWN_CA, 'start the gateway with the file of that CA in NODE_EXTRA_CA_CERTS'],
  [...OTHER_HOST, 'write the host of the certificate into the address'],
  [...EXPIRED, 'renew it'],
]
const UNREACHABLE: Failure = [
  /^/,
  'cannot be reached',
  'start it, or correct the address; rediss:// is for a server with TLS, redis:// for one without',
]
