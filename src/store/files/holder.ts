/** Finds the process that has a SQLite database open under any name. Works on Linux, where the kernel lists all locks. */
import { readFileSync } from 'node:fs'

export interface Holder {
  readonly pid: number
  /** Since the process was started, in milliseconds. */
  readonly ageMs: number
}

/** The first byte of the range that every open connection of a WAL database locks (sqlite.org/fileformat2.html, 1.3.1). */
const SHARED_FIRST = 0x40000002
/** The kernel counts a process's start in hundredths of a second (proc_pid_stat(5), field 22). */
const TICK_MS = 10

/**
 * @param file inode of the database
 * @param beside inode of a file on the same device that this process has locked. It shows the kernel's name of the device, which differs
 * from that of `stat` on file systems such as btrfs.
 * @param proc where the kernel's lists are mounted
 * @returns null if no other process has it open, or if that is unknown
 */
export function holderOf(file: number, beside: number, proc = '/proc'): Holder | null {
  try {
    const list = readFileSync(`${proc}/locks`, 'utf8').matchAll(
      /^\d+: POSIX +\S+ +\S+ +(\d+) ([0-9a-f]+:[0-9a-f]+):(\d+) (\d+) /gm,
    )
    const locks = Array.from(list, ([, pid, device, inode, start]) => ({
      pid: Number(pid),
      device,
      inode: Number(inode),
      start: Number(start),
    }))
    const own = locks.find(({ pid, inode }) => pid === process.pid && inode === beside)
    for (const { pid, device, inode, start } of locks) {
      if (inode !== file || device !== own?.device || start !== SHARED_FIRST || pid === process.pid) continue
      return { pid, ageMs: ageOf(pid, proc) }
    }
  } catch {
    // The file system is missing, or the process has ended meanwhile.
  }
  return null
}

/** How long ago a process was started, in milliseconds; throws if that is unknown. */
export function ageOf(pid: number, proc = '/proc'): number {
  const upMs = Number(readFileSync(`${proc}/uptime`, 'utf8').split(' ')[0]) * 1000
  // The name in parentheses may contain anything, also spaces and parentheses.
  const afterName = readFileSync(`${proc}/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  return upMs - Number(afterName[19]) * TICK_MS
}
