/** The last of a listener. */
import type { Server } from 'node:http'

/** Closes a server whose answers are all out. */
export function closeNow(server: Server): Promise<void> {
  return new Promise(resolve => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}

/** What a playground has still to pass on, or a page to be told, has this long. */
const LAST_ANSWERS_MS = 1000

/** Closes a server whose last answers may still be on their way. */
export function closeSoon(server: Server): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(() => server.closeAllConnections(), LAST_ANSWERS_MS)
    server.close(() => {
      clearTimeout(timer)
      resolve()
    })
    server.closeIdleConnections()
  })
}
