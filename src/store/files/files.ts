/** File-system helpers of the store. They never open a file that SQLite may have open. */
import {
  closeSync,
  constants,
  existsSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'

/** Makes a folder's entries durable: without this, a synced file can still lose its name. */
export function syncFolder(path: string): void {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

/** Makes a folder and its parents. Node's `recursive` loops for ever if the system returns ENOENT for a name, as below /proc. */
export function makeFolder(path: string, make: (path: string) => void = path => void mkdirSync(path)): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
  if (dirname(path) !== path) makeFolder(dirname(path), make)
  try {
    make(path)
  } catch (error) {
    // Another process has made it meanwhile, or it is a file; then the write below it reports the error.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** The same with mode 0700. Root makes it for the owner of the parent folder. */
export function makePrivateFolder(path: string): void {
  makeFolder(path, folder =>
    makeOwned(folder, at => {
      mkdirSync(at, { mode: 0o700 })
      return openSync(at, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    }),
  )
}

/**
 * Creates an empty file (mode 0600) and its folder (0700). Root makes them for the owner of the folder. An existing file is not opened:
 * closing any descriptor of a file drops all locks of the process on it (fcntl(2)), also those of SQLite.
 */
export function createFile(path: string): void {
  try {
    createFilled(path, () => {})
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    syncFolder(dirname(path))
  }
}

/** The same with content that `fill` writes. Throws if the file exists. */
export function createFilled(path: string, fill: (file: number) => void): void {
  makePrivateFolder(dirname(path))
  makeOwned(path, at => openSync(at, 'wx', 0o600), fill)
  syncFolder(dirname(path))
}

/** Paths of open folders. Not every system has it. */
const OPEN_FILES = '/proc/self/fd'

/**
 * Makes a file or a folder. If root makes it, the owner of its folder gets it. A command may run as root, and a gateway as another
 * user who could not open it. The folder is held open, so that its owner cannot replace it meanwhile.
 *
 * @param make makes and opens it at a path that must not exist
 */
function makeOwned(path: string, make: (path: string) => number, use: (file: number) => void = () => {}): void {
  if (process.getuid?.() !== 0 || !existsSync(OPEN_FILES)) {
    using(make(path), use)
    return
  }
  using(openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY), folder =>
    using(make(join(OPEN_FILES, String(folder), basename(path))), file => {
      give(file, fstatSync(folder))
      use(file)
    }),
  )
}

function using(file: number, use: (file: number) => void): void {
  try {
    use(file)
  } finally {
    closeSync(file)
  }
}

function give(file: number, { uid, gid }: { readonly uid: number; readonly gid: number }): void {
  const made = fstatSync(file)
  // A folder that is not empty was moved there by another process.
  const isFilled = made.isDirectory() && readdirSync(join(OPEN_FILES, String(file))).length > 0
  if (uid === 0 || made.uid !== 0 || isFilled) return
  try {
    fchownSync(file, uid, gid)
  } catch (error) {
    // In a container root may lack the right; then root keeps it.
    if (!['EPERM', 'EINVAL'].includes((error as NodeJS.ErrnoException).code!)) throw error
  }
}

/**
 * Creates an empty file (mode 0600) and its folder (0700) for private content. Throws if it exists, and for a symbolic link that leads
 * nowhere: in a shared folder another user may have made either.
 */
export function createNewFile(path: string): void {
  makePrivateFolder(dirname(path))
  closeSync(openSync(path, 'wx', 0o600))
  syncFolder(dirname(path))
}

/**
 * If this process is root, changes the file's owner to the given one, because a gateway under another user could not open root's file.
 * @param owner a result of `statSync`
 */
export function giveTo(path: string, { uid, gid }: { readonly uid: number; readonly gid: number }): void {
  if (process.getuid?.() === 0) lchownSync(path, uid, gid)
}

/** Whether the file exists and is not empty. */
export const hasBytes = (file: string): boolean => (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0

/** Removes a closed database, with files that SQLite may have left beside it. */
export function removeDatabase(path: string): void {
  for (const end of ['', '-wal', '-shm', '-journal']) rmSync(`${path}${end}`, { force: true })
}

/**
 * The path without symbolic links, also of a file that does not exist yet. All files of a store are named after this path, so that every
 * name of a store has the same lock. A path that cannot be resolved (ENOTDIR, ELOOP) is returned unchanged: opening it throws the error.
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

/** Checks that the folder of an open database still has the same files. */
export interface FileWatch {
  /** Checks all files. Returns the problem, without paths, or null. A problem is permanent. Never throws. */
  look(): string | null
  /** Like `look`, but checks one file only, for every commit. */
  glance(): string | null
  /** The last result of `look` or `glance`. */
  readonly found: string | null
}

interface Identity {
  readonly dev: bigint
  readonly ino: bigint
}

/**
 * Remembers device and inode of a database's files while its connection is open. SQLite itself keeps the files in place until the last
 * connection closes.
 *
 * @param path of an open database in WAL mode from which at least one read was made
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
      // EIO, ESTALE, EACCES, ELOOP: it is unknown whether the file is the same.
      const { code } = error as NodeJS.ErrnoException
      found = `the store's ${name} cannot be checked: ${code}; restart the gateway`
    }
    return false
  }
  return {
    look() {
      if (found === null) files.every(check)
      return found
    },
    // Checks the WAL index, because a `stat` of the log makes its next sync write the inode too (Linux 6.13: 40 us a commit). A
    // process that thinks its connection is the last one removes the log and the index, so one check is enough.
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
