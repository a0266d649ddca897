/** Finds the process that has a SQLite database open under any name: on Linux, where the kernel lists all locks. */
import { readFileSync } from 'node:fs'

export interface Holder {
  readonly pid: number
  /** Since the process was started. */
  readonly ageMs: number
}

/** The first byte of the range that every open connection of a WAL database locks (sqlite.org/fileformat2.html, 1.3.1). */
const SHARED_FIRST = 0x40000002
/** The kernel counts a process's start in hundredths of a second (proc_pid_stat(5), field 22). */
const TICK_MS = 10

/** @param inode of the database file. Null when nobody else has it open, or nobody can say. */
export function holderOf(inode: number): Holder | null {
  try {
    const locks = readFileSync('/proc/locks', 'utf8').matchAll(
      /^\d+: POSIX +\S+ +\S+ +(\d+) [0-9a-f]+:[0-9a-f]+:(\d+) (\d+) /gm,
    )
    for (const [, pid, file, start] of locks) {
      if (Number(file) !== inode || Number(start) !== SHARED_FIRST || Number(pid) === process.pid) continue
      return { pid: Number(pid), ageMs: ageOf(Number(pid)) }
    }
  } catch {
    // No such file system, or a process that has ended meanwhile.
  }
  return null
}

function ageOf(pid: number): number {
  const upMs = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1000
  // The name in parentheses may contain anything, also spaces and parentheses.
  const afterName = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  return upMs - Number(afterName[19]) * TICK_MS
}
