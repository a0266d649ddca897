/**
 * Isolates running policy tests: it blocks the network. Unhandled errors (a promise without a handler, a callback) are kept for the
 * current test, so that they do not end the run.
 */
import { Socket } from 'node:net'
import { type UnhandledKind, watchUnhandled } from '../../simulate/unhandled.ts'
import type { HttpStandIn } from './http.ts'

/** The isolation of this process, until `end()`. */
export interface Guard {
  /** Unhandled errors since the last call, as sentences. */
  takeErrors(): string[]
  /** Blocked connections since the last call, as sentences. */
  takeRefused(): string[]
  /** Sets the stand-in for `fetch`; null for none. */
  answerBy(standIn: HttpStandIn | null): void
  /** Restores the original state. */
  end(): void
}

type Connect = typeof Socket.prototype.connect

const WHAT: Readonly<Record<UnhandledKind, string>> = {
  exception: 'an uncaught error',
  rejection: 'an unhandled rejected promise',
}

/** Starts the isolation. Only one at a time. */
export function isolateTests(): Guard {
  let errors: string[] = []
  let refused: string[] = []
  // All connections use this: fetch, undici, node:http, TLS, and functions that were taken out of a module before.
  const connect = Socket.prototype.connect
  Socket.prototype.connect = function refuse(this: Socket, ...args: unknown[]) {
    const where = placeOf(args)
    refused.push(`a connection to ${where} was attempted, but policy tests have no network`)
    const error = Object.assign(new Error(`policy tests have no network: ${where} cannot be reached`), {
      code: 'ENETUNREACH',
      syscall: 'connect',
    })
    process.nextTick(() => this.destroy(error))
    return this
  } as Connect
  const { fetch } = globalThis
  let standIn: HttpStandIn | null = null
  const answered: typeof fetch = (input, init) => (standIn?.fetch ?? fetch)(input, init)
  globalThis.fetch = answered
  const endUnhandled = watchUnhandled((kind, words) => void errors.push(`${WHAT[kind]}: ${words}`))
  return {
    takeErrors() {
      const taken = errors
      errors = []
      return taken
    },
    takeRefused() {
      const taken = [...new Set(refused)]
      refused = []
      return taken
    },
    answerBy(next) {
      standIn = next
    },
    end() {
      globalThis.fetch = fetch
      Socket.prototype.connect = connect
      endUnhandled()
    },
  }
}

/** The target in the arguments of `connect`: options, a port and a host, or a path. Node's own callers wrap them in a list. */
function placeOf(args: readonly unknown[]): string {
  const [first, second] = Array.isArray(args[0]) ? args[0] : args
  if (typeof first === 'object' && first !== null) {
    const { host = 'localhost', port, path } = first as { host?: string; port?: unknown; path?: string }
    return path ?? `${host}:${port}`
  }
  if (typeof first === 'string' && Number.isNaN(Number(first))) return first
  return `${typeof second === 'string' ? second : 'localhost'}:${first}`
}
