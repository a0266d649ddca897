/** Promises of plugins, which may be those of another library. */

/** Whether it is one: a plugin's own kind counts too. */
export function isPromise<Value>(value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  return typeof (value as PromiseLike<Value> | null | undefined)?.then === 'function'
}

/** The same as a promise of the language: the `then` of another library may throw. */
export function promiseOf<Value>(value: Value | PromiseLike<Value>): Promise<Value> {
  return value instanceof Promise ? (value as Promise<Value>) : Promise.resolve(value)
}
