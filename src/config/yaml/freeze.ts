/** Makes a configuration read-only: each exchange keeps the one in which it began, so none may change under it. */

/** Freezes plain objects and lists, all the way down. What has a class (maps, plugins' own things) is left alone. */
export function freeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  if (value instanceof Map) for (const entry of value.values()) freeze(entry)
  else if (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) {
    Object.freeze(value)
    for (const entry of Object.values(value)) freeze(entry)
  }
  return value
}
