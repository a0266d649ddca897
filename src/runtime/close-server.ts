/** Closes the servers of listeners. */
import type { Server } from 'node:http'

/** Closes a server whose answers have all been sent. */
export function closeNow(server: Server): Promise<void> {
  return new Promise(resolve => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}

/** How long the last answers may take, for instance those of a playground or the dashboard. */
const LAST_ANSWERS_MS = 1000

/** Closes a server whose last answers may still be in progress. */
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
