/** Makes `StoreError`s with a code. Their messages are for people: place, value, rule. */
import { StoreError } from './error.ts'

export function invalid(message: string): StoreError {
  return new StoreError(message, { code: 'invalid' })
}

/** It exists already, or something prevents it. */
export function conflict(message: string): StoreError {
  return new StoreError(message, { code: 'conflict' })
}

/** Nothing has this name. */
export function notFound(message: string): StoreError {
  return new StoreError(message, { code: 'not_found' })
}

/** The caller is not allowed to do this, or not any more. */
export function forbidden(message: string): StoreError {
  return new StoreError(message, { code: 'forbidden' })
}

export function noAccount(name: string): StoreError {
  return notFound(`The account ${name} does not exist.`)
}

/**
 * The read would exceed the limit for a single read. The limit exists because reads block the event loop. Callers word the message for
 * their own clients.
 */
export class ReadLimitError extends StoreError {
  constructor(message: string) {
    super(message, { code: 'invalid' })
  }
}
