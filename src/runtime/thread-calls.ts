/** Calls between two threads, in both directions of a port. */
import type { MessagePort } from 'node:worker_threads'

/** Functions that the other side may call: by name, with one value that survives a structured clone. */
export type Handlers = Readonly<Record<string, (value: never) => unknown>>

type Message =
  | { readonly name: string; readonly value: unknown; readonly id: number | null }
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: unknown }

/** The other thread has ended without an answer. */
export class ThreadEnded extends Error {
  override readonly name = 'ThreadEnded'
  override readonly message = 'the other thread has ended'
}

/** Calls the handlers of the other side, typed by them. */
export class Calls<Other extends Handlers> {
  readonly #port: MessagePort
  readonly #waiting = new Map<number, { resolve(result: unknown): void; reject(error: unknown): void }>()
  /** Resolves when the other thread has ended, and all its messages were handled. */
  readonly closed: Promise<void>
  #last = 0
  #isClosed = false

  constructor(port: MessagePort, handlers: Handlers) {
    this.#port = port
    port.on('message', (message: Message) => {
      if ('name' in message) void this.#handle(message, handlers)
      else this.#settle(message)
    })
    const { promise, resolve } = Promise.withResolvers<void>()
    this.closed = promise
    port.on('close', () => {
      this.#isClosed = true
      for (const { reject } of this.#waiting.values()) reject(new ThreadEnded())
      this.#waiting.clear()
      resolve()
    })
  }

  /** Calls a handler. Rejects with its error, or with `ThreadEnded` if the other thread ends. */
  call<Name extends keyof Other & string>(
    name: Name,
    ...values: Parameters<Other[Name]>
  ): Promise<Awaited<ReturnType<Other[Name]>>> {
    if (this.#isClosed) return Promise.reject(new ThreadEnded())
    return new Promise((resolve, reject) => {
      const id = ++this.#last
      this.#port.postMessage({ name, value: values[0], id })
      this.#waiting.set(id, { resolve: resolve as (result: unknown) => void, reject })
    })
  }

  /** Calls a handler without waiting for an answer. */
  notify<Name extends keyof Other & string>(name: Name, ...values: Parameters<Other[Name]>): void {
    this.#port.postMessage({ name, value: values[0], id: null })
  }

  async #handle({ name, value, id }: Extract<Message, { name: string }>, handlers: Handlers): Promise<void> {
    try {
      const result = await handlers[name]!(value as never)
      if (id !== null) this.#port.postMessage({ id, result })
    } catch (error) {
      if (id === null) throw error
      this.#reject(id, error)
    }
  }

  /** Sends the error, or a copy of its message if it cannot be cloned: a caller without an answer would hang. */
  #reject(id: number, error: unknown): void {
    try {
      this.#port.postMessage({ id, error })
    } catch {
      this.#port.postMessage({ id, error: new Error(String((error as Error | null)?.message ?? error)) })
    }
  }

  #settle(message: Exclude<Message, { name: string }>): void {
    const waiting = this.#waiting.get(message.id)
    this.#waiting.delete(message.id)
    if ('error' in message) waiting?.reject(message.error)
    else waiting?.resolve(message.result)
  }
}

/** The results of fulfilled promises; rejected ones are skipped. */
export async function fulfilled<Value>(answers: readonly Promise<Value>[]): Promise<Value[]> {
  const settled = await Promise.allSettled(answers)
  return settled.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []))
}
