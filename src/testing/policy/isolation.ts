/**
 * While policy tests run: nobody reaches the network, and what goes wrong where nobody waits for it (a promise that is
 * dropped, a callback) is kept for the test under way and does not end the run.
 */
import { Socket } from 'node:net'
import { type UnhandledKind, watchUnhandled } from '../../simulate/unhandled.ts'
import type { HttpStandIn } from './http.ts'

/** Watches over this process until it ends. */
export interface Guard {
  /** What went wrong since it was last asked, as sentences. */
  takeErrors(): string[]
  /** Who wanted to connect to where since it was last asked, as sentences. */
  takeRefused(): string[]
  /** Answers what is asked by `fetch` from now on; null: nobody does. */
  answerBy(standIn: HttpStandIn | null): void
  /** Puts everything back as it was. */
  end(): void
}

type Connect = typeof Socket.prototype.connect

const WHAT: Readonly<Record<UnhandledKind, string>> = {
  exception: 'an error that nobody catches',
  rejection: 'a promise that nobody waits for rejected',
}

/** Begins to watch. One at a time. */
export function standGuard(): Guard {
  let errors: string[] = []
  let refused: string[] = []
  // Everything that goes out goes through here: fetch, undici, node:http, TLS, and what was taken out of a module before.
  const connect = Socket.prototype.connect
  Socket.prototype.connect = function refuse(this: Socket, ...args: unknown[]) {
    const where = placeOf(args)
    refused.push(`somebody wanted to connect to ${where}, and policy tests have no network`)
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

/** From the arguments of `connect`: options, a port and a host, or a path; Node's own callers wrap them in a list. */
function placeOf(args: readonly unknown[]): string {
  const [first, second] = Array.isArray(args[0]) ? args[0] : args
  if (typeof first === 'object' && first !== null) {
    const { host = 'localhost', port, path } = first as { host?: string; port?: unknown; path?: string }
    return path ?? `${host}:${port}`
  }
  if (typeof first === 'string' && Number.isNaN(Number(first))) return first
  return `${typeof second === 'string' ? second : 'localhost'}:${first}`
}
