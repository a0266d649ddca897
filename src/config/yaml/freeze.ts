/** Makes a configuration read-only, because exchanges in progress share it. */

/** Freezes plain objects and lists recursively. Instances of classes are not frozen, but a `Map`'s values are. */
export function freeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  if (value instanceof Map) for (const entry of value.values()) freeze(entry)
  else if (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) {
    Object.freeze(value)
    for (const entry of Object.values(value)) freeze(entry)
  }
  return value
}
