/** The real `sqlite3` program, as an operator runs it beside a gateway, and the kernel's view of a store's files. */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { promisify } from 'node:util'
import { without } from './programs.ts'

export const WITHOUT_SQLITE = without('sqlite3')
/** Linux lists the locks and descriptors of a process. */
export const WITHOUT_LOCKS = existsSync('/proc/locks') ? null : 'there is no /proc/locks here'

/** Runs `sqlite3 DATABASE COMMAND` to its end and returns what it printed. */
export async function sqlite3(database: string, command: string): Promise<string> {
  const { stdout } = await promisify(execFile)('sqlite3', [database, '.timeout 10000', command])
  return stdout.trim()
}

/** The first byte of the range that each open connection to a database locks. */
const SHARED_FIRST = 0x40000002

/** Whether the process holds SQLite's lock on the database: without it another process removes the log. */
export function holdsLock(pid: number, database: string): boolean {
  const { ino } = statSync(database)
  const lock = new RegExp(`^\\d+: POSIX +ADVISORY +READ +${pid} \\S+:${ino} ${SHARED_FIRST} `, 'm')
  return lock.test(readFileSync('/proc/locks', 'utf8'))
}

/** The files of a database that the process has open, by their names in the folder; "(deleted)" stays. */
export function openFiles(pid: number, database: string): string[] {
  const files = readdirSync(`/proc/${pid}/fd`).flatMap(descriptor => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${descriptor}`)]
    } catch {
      // It was closed in the meantime.
      return []
    }
  })
  const beside = files.filter(file => file.startsWith(database)).map(file => file.slice(database.length))
  return [...new Set(beside)].filter(end => /^(-wal|-shm|)( \(deleted\))?$/.test(end)).sort()
}
