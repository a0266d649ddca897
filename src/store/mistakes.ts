/** Mistakes of callers, as errors with a code. Their messages are for people: place, value, rule. */
import { StoreError } from './error.ts'

/** A value that breaks a rule. */
export function invalid(message: string): StoreError {
  return new StoreError(message, { code: 'invalid' })
}

/** Something else is there already, or stands in the way. */
export function conflict(message: string): StoreError {
  return new StoreError(message, { code: 'conflict' })
}

/** What is named is not there. */
export function notFound(message: string): StoreError {
  return new StoreError(message, { code: 'not_found' })
}

/** Whoever asks for it may not, or may not any more. */
export function forbidden(message: string): StoreError {
  return new StoreError(message, { code: 'forbidden' })
}

/** There is no such account. */
export function noAccount(name: string): StoreError {
  return notFound(`There is no account ${name}.`)
}

/** More is asked for than is read at once; the event loop waits for what is. Callers know what to say to whom. */
export class TooMuch extends StoreError {
  constructor(message: string) {
    super(message, { code: 'invalid' })
  }
}
