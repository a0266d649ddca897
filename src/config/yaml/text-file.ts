/**
 * Reads the files of a configuration: gateway.yaml, policies, and files of `${file:PATH}`. Only regular files of bounded size
 * are allowed: reading a pipe may never return, which would block a start or a reload.
 */
import { constants } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'

export const MAX_FILE_BYTES = 1024 * 1024
/** Price lists are longer: those of LiteLLM and models.dev have 2 to 5 MiB. */
export const MAX_LIST_BYTES = 32 * MAX_FILE_BYTES

const NOT_REGULAR = 'it is not a regular file'

/**
 * Reads a regular file and follows symlinks, which Kubernetes uses for secrets. Rejects with a sentence for a folder, pipe,
 * socket or device, for more than `most` bytes, and for text that is not UTF-8. Otherwise it rejects like `fs.readFile`.
 */
export async function readTextFile(path: string, most: number = MAX_FILE_BYTES): Promise<string> {
  // `stat` first: opening a device may have effects.
  const found = await stat(path)
  if (found.isDirectory()) throw new Error('it is a folder')
  if (!found.isFile()) throw new Error(NOT_REGULAR)
  // The path may be a pipe by now: O_NONBLOCK prevents waiting for its writer.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  try {
    if (!(await file.stat()).isFile()) throw new Error(NOT_REGULAR)
    return decodeUtf8(await readBounded(file, most))
  } finally {
    await file.close()
  }
}

/** Counts the bytes read: a file's stated size may change, or be 0 (`/proc`). */
async function readBounded(file: FileHandle, most: number): Promise<Buffer> {
  // Start small: only price lists are long.
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

/** Decodes bytes; throws an Error with a sentence if they are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new Error('it is not UTF-8')
  }
}
