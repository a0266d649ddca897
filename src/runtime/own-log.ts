/** The log of a serving gateway. */
import type { Configuration } from '../config/configuration.ts'
import { createLog, type Logger } from '../observe/log.ts'
import { StoreError } from '../store/error.ts'

export interface LogOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Receives the log, line by line; default: the process's own stdout. */
  readonly stdout?: (text: string) => void
}

export const logLevel = ({ env }: Pick<LogOptions, 'env'>): string => env['LOG_LEVEL'] ?? 'info'

/** Throws a `StoreError` for an unknown level. */
export function openLog({ secrets }: Configuration, { env, stdout }: LogOptions): Logger {
  try {
    return createLog({ level: logLevel({ env }), secrets, ...(stdout ? { destination: { write: stdout } } : {}) })
  } catch (error) {
    throw new StoreError(`LOG_LEVEL: ${(error as Error).message}`)
  }
}
