/** Promises of plugins, which may come from another library. */

/** Whether a value has a `then`: other kinds of promises count too. */
export function isPromise<Value>(value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  return typeof (value as PromiseLike<Value> | null | undefined)?.then === 'function'
}

/** Converts to a native promise, because the `then` of another library may throw. */
export function promiseOf<Value>(value: Value | PromiseLike<Value>): Promise<Value> {
  return value instanceof Promise ? (value as Promise<Value>) : Promise.resolve(value)
}
