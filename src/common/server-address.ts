/** The addresses of servers, as people and platforms write them. */

/** Whether a store is a database of PostgreSQL. */
export const isPostgres = (store: string): boolean => /^postgres(?:ql)?:/.test(store)

/** The address of a server; `USER@/DATABASE?host=FOLDER`, which names a socket, is no URL by itself. Null: it is none. */
export const parseServer = (address: string): URL | null =>
  URL.parse(address) ?? (/[?&]host=/.test(address) ? URL.parse(address.replace('@/', '@localhost/')) : null)

/** A part of an address in which `%40` is `@`; a `%` that begins nothing like that is itself. */
export const decodedPart = (part: string): string => part.replace(/(?:%[0-9a-f]{2})+/gi, decodedRun)

function decodedRun(run: string): string {
  try {
    return decodeURIComponent(run)
  } catch {
    return run
  }
}
