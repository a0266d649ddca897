/** What it takes for a file to survive a power cut. */
import { closeSync, fsyncSync, openSync } from 'node:fs'

/** Makes a folder's entries durable: a file that was synced can still lose its name. */
export function syncFolder(path: string): void {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
