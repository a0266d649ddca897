/** What the store asks of the file system beside SQLite, without ever opening a file that SQLite may have open. */
import {
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  fsyncSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'

/** Makes a folder's entries durable: a file that was synced can still lose its name. */
export function syncFolder(path: string): void {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

/**
 * Makes a folder, and those above it, each for the owner of the one above. Not by Node's `recursive`: that tries for ever where the system answers a name with ENOENT,
 * as below /proc.
 */
export function makeFolder(path: string, mode = 0o777): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
  if (dirname(path) !== path) makeFolder(dirname(path), mode)
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    // Somebody else has made it meanwhile, or it is a file, which whoever writes below it is told.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return
  }
  if (!isRoot()) return
  // What is there by that name now, and no link to something else.
  const folder = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  try {
    giveAsAbove(folder, path)
  } finally {
    closeSync(folder)
  }
}

const isRoot = () => process.getuid?.() === 0

function giveAsAbove(file: number, path: string): void {
  const { uid, gid } = statSync(dirname(path))
  if (uid !== 0) fchownSync(file, uid, gid)
}

/**
 * Root gives a file that it has made, and not written yet, to the owner of its folder: a command may run as root, and a gateway as
 * another user, who could not open the file. @param file open at `path`
 */
export function giveNewFile(file: number, path: string): void {
  if (!isRoot()) return
  const { uid, size, nlink } = fstatSync(file)
  // With bytes or a second name it is not the one that was made.
  if (uid === 0 && size === 0 && nlink === 1) giveAsAbove(file, path)
}

/**
 * Creates an empty file (mode 0600) and its folder (0700). A file that exists is not opened: closing any descriptor of a
 * file drops all locks that the process has on it (fcntl(2)), also those of SQLite.
 */
export function createFile(path: string): void {
  makeFolder(dirname(path), 0o700)
  try {
    const file = openSync(path, 'wx', 0o600)
    try {
      giveNewFile(file, path)
    } finally {
      closeSync(file)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  syncFolder(dirname(path))
}

/**
 * Creates an empty file (mode 0600) and its folder (0700), for what nobody else may read. Throws when there is one, and for a
 * symbolic link that leads nowhere: in a folder of others either may be theirs.
 */
export function createNewFile(path: string): void {
  makeFolder(dirname(path), 0o700)
  closeSync(openSync(path, 'wx', 0o600))
  syncFolder(dirname(path))
}

/** Root gives a file to somebody: a gateway is another user, who could not open it. @param owner as `statSync` says it */
export function giveTo(path: string, { uid, gid }: { readonly uid: number; readonly gid: number }): void {
  if (isRoot()) lchownSync(path, uid, gid)
}

/** Whether there is a file, and anything in it. */
export const hasBytes = (file: string): boolean => (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0

/** Removes a database that nobody has open, with what SQLite may have left beside it. */
export function removeDatabase(path: string): void {
  for (const end of ['', '-wal', '-shm', '-journal']) rmSync(`${path}${end}`, { force: true })
}

/**
 * The path without symbolic links, also of a file that does not exist yet. All files of a store are named after this
 * path, so that every name of a store has the same lock. A path that cannot be resolved (ENOTDIR, ELOOP) is returned as
 * it is: opening it throws the error.
 */
export function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return path
  }
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) {
    return realPath(resolve(dirname(path), readlinkSync(path)))
  }
  const folder = dirname(path)
  return folder === path ? path : join(realPath(folder), basename(path))
}

/** Tells whether the files of an open database are still the ones in its folder. */
export interface FileWatch {
  /** Looks at all files. Returns what is wrong, without paths; null when nothing is. Once wrong, it stays so. Never throws. */
  look(): string | null
  /** Like `look`, but looks at one file only, for every commit. */
  glance(): string | null
  /** What `look` or `glance` found last. */
  readonly found: string | null
}

interface Identity {
  readonly dev: bigint
  readonly ino: bigint
}

/**
 * Remembers device and inode of a database's files, for as long as its connection is open. SQLite itself keeps these
 * files in place until the last connection closes.
 *
 * @param path of an open database in WAL mode that was read from at least once
 */
export function watchFiles(path: string): FileWatch {
  const files = [
    { name: 'database file', path, known: identityOf(path) },
    { name: 'write-ahead log', path: `${path}-wal`, known: identityOf(`${path}-wal`) },
    { name: 'WAL index', path: `${path}-shm`, known: identityOf(`${path}-shm`) },
  ] as const
  let found: string | null = null

  function check({ name, path, known }: (typeof files)[number]): boolean {
    try {
      const now = identityOf(path)
      if (now?.ino === known?.ino && now?.dev === known?.dev) return true
      found = `the store's ${name} was removed or replaced while the gateway ran; restart the gateway`
    } catch (error) {
      // EIO, ESTALE, EACCES, ELOOP: whether the file is still the same is unknown.
      const { code } = error as NodeJS.ErrnoException
      found = `the store's ${name} cannot be looked at: ${code}; restart the gateway`
    }
    return false
  }
  return {
    look() {
      if (found === null) files.every(check)
      return found
    },
    // Not the log itself: asking for its times makes the next sync of it write its inode too (Linux 6.13: 40 us a
    // commit). Whoever believes to be the last connection removes both.
    glance() {
      if (found === null) check(files[2])
      return found
    },
    get found() {
      return found
    },
  }
}

function identityOf(path: string): Identity | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false })
}
