/**
 * Converts logged values to plain data: errors with their causes, four levels of objects, no bytes, limited to the length of a
 * line. It never throws, because a log line must not break an exchange.
 */
import { REDACTED } from './redact.ts'

/** Levels of objects in a field; deeper ones are only named. */
const DEEPEST = 4
/** Entries of one object or list; further ones are only counted. */
const MAX_ENTRIES = 100
/** Characters of one text. */
const MAX_TEXT_LENGTH = 8192
/** Approximate characters of a whole line. */
const MAX_LINE_LENGTH = 65_536
/** Characters that are read after a cut, so that the cut cannot hide the end of a secret from the redactor. */
const MAX_SECRET = 4096

/** Whether names of fields are secret; cached, because matching each field of each line is expensive. */
const KNOWN_NAMES = new Map<string, boolean>()
const MAX_KNOWN_NAMES = 1000

/** Fields whose value is never logged. Most are request headers, which are logged by mistake most often. */
const SECRET_NAME =
  /^(?:(?:proxy-)?authorization|(?:set-)?cookie|(?:x-)?(?:goog-)?api[-_]?key|password|passwd|secret|client_secret|access_token|refresh_token)$/i

export class PlainWriter {
  readonly #clean: (text: string) => string
  readonly #reserved: ReadonlySet<string>
  #left = 0

  /**
   * @param clean removes secrets from a text before it is cut
   * @param reserved field names of the log itself; a field with such a name gets an underscore
   */
  constructor(clean: (text: string) => string, reserved: readonly string[]) {
    this.#clean = clean
    this.#reserved = new Set(reserved)
  }

  fields(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
    this.#left = MAX_LINE_LENGTH
    const plain: Record<string, unknown> = {}
    for (const name of Object.keys(fields)) {
      plain[this.#reserved.has(name) ? `${name}_` : name] = this.#entry(fields, name, 0)
    }
    return plain
  }

  text(text: string): string {
    if (text.length <= MAX_TEXT_LENGTH) return text
    const start = this.#clean(text.slice(0, MAX_TEXT_LENGTH + MAX_SECRET)).slice(0, MAX_TEXT_LENGTH)
    return `${start}… (${text.length} characters)`
  }

  #entry(record: object, name: string, depth: number): unknown {
    this.#left -= name.length + 8
    if (this.#left < 0) return '[left out: the line is full]'
    try {
      const value = (record as Record<string, unknown>)[name]
      return value != null && isSecretName(name) ? REDACTED : this.#value(value, depth)
    } catch (error) {
      return `[cannot be read: ${error instanceof Error ? error.message : String(error)}]`
    }
  }

  #value(value: unknown, depth: number): unknown {
    if (typeof value === 'string') {
      const text = this.text(value)
      this.#left -= text.length
      return text
    }
    if (typeof value === 'object') return value === null ? null : this.#object(value, depth)
    if (typeof value === 'bigint' || typeof value === 'symbol') return value.toString()
    return typeof value === 'function' ? `[function ${value.name}]` : value
  }

  #object(value: object, depth: number): unknown {
    if (value instanceof Error) return this.#error(value, depth)
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? '[invalid date]' : value.toISOString()
    if (value instanceof URL) return this.#value(value.href, depth)
    if (value instanceof Map) return this.#object(Object.fromEntries(value), depth)
    if (value instanceof Set) return this.#object([...value], depth)
    if (depth >= DEEPEST) return Array.isArray(value) ? `[list of ${value.length}]` : '[object]'
    return Array.isArray(value) ? this.#list(value, depth + 1) : this.#record(value, depth + 1)
  }

  #record(record: object, depth: number): Record<string, unknown> {
    const names = Object.keys(record)
    const plain: Record<string, unknown> = {}
    for (const name of names.slice(0, MAX_ENTRIES)) plain[name] = this.#entry(record, name, depth)
    if (names.length > MAX_ENTRIES) plain['…'] = `${names.length - MAX_ENTRIES} more`
    return plain
  }

  #list(list: readonly unknown[], depth: number): unknown[] {
    const plain: unknown[] = list.slice(0, MAX_ENTRIES).map((_, index) => this.#entry(list, String(index), depth))
    if (list.length > MAX_ENTRIES) plain.push(`… ${list.length - MAX_ENTRIES} more`)
    return plain
  }

  /** Converts an error with its own fields (`code`, `status`, …), its causes, and the errors of an AggregateError. */
  #error(error: Error, depth: number): unknown {
    if (depth >= DEEPEST) return this.#value(`${error.name}: ${error.message}`, depth)
    const { name, message, stack, cause, ...others } = error as Error & Record<string, unknown>
    const { errors } = error as { errors?: unknown }
    return this.#record(
      {
        name,
        message,
        ...others,
        ...(stack === undefined ? {} : { stack }),
        ...(cause === undefined ? {} : { cause }),
        ...(errors === undefined ? {} : { errors }),
      },
      depth + 1,
    )
  }
}

function isSecretName(name: string): boolean {
  const known = KNOWN_NAMES.get(name)
  if (known !== undefined) return known
  const secret = SECRET_NAME.test(name)
  if (KNOWN_NAMES.size < MAX_KNOWN_NAMES) KNOWN_NAMES.set(name, secret)
  return secret
}
