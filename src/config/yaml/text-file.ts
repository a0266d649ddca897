/**
 * Reads the files of a configuration: gateway.yaml, policies, and what `${file:PATH}` names. Only regular files of bounded
 * size, because a pipe may never end or never begin, and the gateway must start, reload and say what is wrong all the same.
 */
import { constants } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'

export const MAX_FILE_BYTES = 1024 * 1024
/** A price list may be longer: those of LiteLLM and models.dev have 2 to 5 MiB. */
export const MAX_LIST_BYTES = 32 * MAX_FILE_BYTES

const NOT_REGULAR = 'it is not a regular file'

/**
 * The text of a regular file, also behind symlinks (as Kubernetes mounts secrets). Rejects with a sentence for a folder, a
 * pipe, a socket, a device, a file of more than `most` bytes and one that is not UTF-8, and otherwise as `fs.readFile` does.
 */
export async function readTextFile(path: string, most: number = MAX_FILE_BYTES): Promise<string> {
  // First without opening: to open a device may set something going.
  const found = await stat(path)
  if (found.isDirectory()) throw new Error('it is a folder')
  if (!found.isFile()) throw new Error(NOT_REGULAR)
  // It may be another one by now: without waiting for somebody at the other end of a pipe.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  try {
    if (!(await file.stat()).isFile()) throw new Error(NOT_REGULAR)
    return decodeUtf8(await readBounded(file, most))
  } finally {
    await file.close()
  }
}

/** Bounded by what is read: the size that a file says it has may be another one at the end, or none (`/proc`). */
async function readBounded(file: FileHandle, most: number): Promise<Buffer> {
  // Small at first: most files are, and only price lists are long.
  let bytes = Buffer.alloc(Math.min(most, MAX_FILE_BYTES) + 1)
  let length = 0
  for (;;) {
    const { bytesRead } = await file.read(bytes, length, bytes.length - length, null)
    length += bytesRead
    if (length > most) throw new Error(`it is larger than ${most / MAX_FILE_BYTES} MiB`)
    if (bytesRead === 0) return bytes.subarray(0, length)
    if (length === bytes.length) bytes = Buffer.concat([bytes, Buffer.alloc(Math.min(length, most + 1 - length))])
  }
}

/** The text of bytes; throws a sentence where they are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new Error('it is not UTF-8')
  }
}
