/** Parses addresses of servers in the forms that people and platforms use. */

/** Whether a store is a database of PostgreSQL. */
export const isPostgres = (store: string): boolean => /^postgres(?:ql)?:/.test(store)

/**
 * Parses the address of a server. `USER@/DATABASE?host=FOLDER`, which names a socket, is not a valid URL by itself. Null: not an address.
 */
export const parseServer = (address: string): URL | null =>
  URL.parse(address) ?? (/[?&]host=/.test(address) ? URL.parse(address.replace('@/', '@localhost/')) : null)

/** Decodes a part of an address, where `%40` is `@`. A `%` without a code stays. */
export const decodedPart = (part: string): string => part.replace(/(?:%[0-9a-f]{2})+/gi, decodedRun)

function decodedRun(run: string): string {
  try {
    return decodeURIComponent(run)
  } catch {
    return run
  }
}
