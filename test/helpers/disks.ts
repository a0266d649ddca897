/**
 * Real full or read-only disks: a small file system if this process may mount one, otherwise
 * a limit on the length of the gateway's files. If neither is possible, a test must report that it is skipped.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

export interface Disk {
  readonly name: string
  /** A directory on it. */
  readonly dir: string
  /** From now on the database of this process has no room; reserved space stays writable. */
  fill(pid: number): void
  makeRoom(pid: number): void
  /** From now on even reserved space cannot be written. */
  refuse(pid: number): void
  remove(): void
}

/** Bytes: room for the store, its log and the spool of the default configuration. */
const TMPFS_BYTES = 24 * 1024 * 1024
const IMAGE_BYTES = 32 * 1024 * 1024

function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), 'tollgate-disk-'))
}

/** The database of a gateway in this directory. */
export function databaseIn(dir: string): string {
  return join(dir, 'data/tollgate.db')
}

/** Fills a file system with a file, and removes the file again. */
function fillable(dir: string): Pick<Disk, 'fill' | 'makeRoom' | 'refuse'> {
  const filler = join(dir, 'filler')
  const fill = () => {
    const file = openSync(filler, 'a')
    try {
      // The largest pieces first. fsync makes the file system allocate the blocks now.
      for (const size of [1 << 20, 4096]) fillWith(file, Buffer.alloc(size, 1))
    } finally {
      closeSync(file)
    }
  }
  return {
    fill,
    makeRoom: () => rmSync(filler),
    refuse() {
      // The reserve is used up.
      rmSync(`${databaseIn(dir)}.spool`)
      fill()
    },
  }
}

function fillWith(file: number, piece: Uint8Array): void {
  try {
    for (;;) {
      writeSync(file, piece)
      fsyncSync(file)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
}

/** A file system in memory; null where this process may not mount. */
export function tmpfsDisk(): Disk | null {
  const dir = temporaryFolder()
  try {
    run('mount', '-t', 'tmpfs', '-o', `size=${TMPFS_BYTES}`, 'tmpfs', dir)
  } catch {
    rmSync(dir, { recursive: true })
    return null
  }
  return {
    name: 'a small tmpfs',
    dir,
    ...fillable(dir),
    remove() {
      run('umount', '-l', dir)
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** Limits the length of the gateway's files; null without `prlimit`, which is Linux's. */
export function limitedDisk(): Disk | null {
  const limit = (pid: number, bytes: number | 'unlimited') => run('prlimit', `--pid=${pid}`, `--fsize=${bytes}:`)
  try {
    limit(process.pid, 'unlimited')
  } catch {
    return null
  }
  const dir = temporaryFolder()
  return {
    name: "the process's file size limit",
    dir,
    fill: pid => void limit(pid, statSync(`${databaseIn(dir)}-wal`).size),
    makeRoom: pid => void limit(pid, 'unlimited'),
    refuse: pid => void limit(pid, 1),
    remove: () => rmSync(dir, { recursive: true, force: true }),
  }
}

/** A disk that can become read-only while files are open on it, as after a hardware error. */
export interface FailingDisk extends Disk {
  fail(): void
  /** Unmounts it, repairs it and mounts it again, once no process has files open in it. */
  repair(): void
}

/** An ext4 file system; null where this process may not mount, or has no loop devices. */
export function ext4Disk(): FailingDisk | null {
  const folder = temporaryFolder()
  const [image, dir] = [join(folder, 'image'), join(folder, 'disk')]
  const mount = () => run('mount', '-o', 'loop,errors=remount-ro', image, dir)
  const trigger = () => `/sys/fs/ext4/${basename(run('findmnt', '-n', '-o', 'SOURCE', dir).trim())}/trigger_fs_error`
  try {
    mkdirSync(dir)
    writeFileSync(image, '')
    truncateSync(image, IMAGE_BYTES)
    run('mkfs.ext4', '-q', '-F', image)
    mount()
    statSync(trigger())
  } catch {
    rmSync(folder, { recursive: true, force: true })
    return null
  }
  return {
    name: 'a small ext4',
    dir,
    ...fillable(dir),
    fail: () => writeFileSync(trigger(), 'on purpose'),
    repair() {
      run('umount', dir)
      // 1: it corrected errors, which the test has caused.
      const { status } = spawnSync('e2fsck', ['-p', image])
      if (status !== 0 && status !== 1) throw new Error(`e2fsck ends with ${status}`)
      mount()
    },
    remove() {
      // It is not mounted if its repair has failed.
      spawnSync('umount', ['-l', dir])
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
