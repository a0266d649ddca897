/** Calls from one thread to another, in both directions of a port. */
import type { MessagePort } from 'node:worker_threads'

/** What the other side may call: by name, with one value that survives a structured clone. */
export type Handlers = Readonly<Record<string, (value: never) => unknown>>

type Message =
  | { readonly name: string; readonly value: unknown; readonly id: number | null }
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: unknown }

/** There is no answer: the other thread has ended. */
export class ThreadEnded extends Error {
  override readonly name = 'ThreadEnded'
  override readonly message = 'the other thread has ended'
}

/** Calls the handlers of the other side, typed by them. */
export class Calls<Other extends Handlers> {
  readonly #port: MessagePort
  readonly #waiting = new Map<number, { resolve(result: unknown): void; reject(error: unknown): void }>()
  /** Resolves when the other thread has ended, and all that it has said is heard. */
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

  /** Rejects with what the handler throws, and with `ThreadEnded` when the other thread ends. */
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

  /** The same where nobody waits for an answer. */
  tell<Name extends keyof Other & string>(name: Name, ...values: Parameters<Other[Name]>): void {
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

  /** Also with what cannot be sent as it is: nobody must wait for ever. */
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

/** What is answered; nothing of who has ended. */
export async function heard<Value>(answers: readonly Promise<Value>[]): Promise<Value[]> {
  const settled = await Promise.allSettled(answers)
  return settled.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []))
}
