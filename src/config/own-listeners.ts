/** Whether a provider's `base_url` is one of this gateway's own listeners: each request would come back to it. */
import { hostname, networkInterfaces } from 'node:os'
import type { Address } from './configuration.ts'
import { isLoopback, urlHost } from './listen-address.ts'

/** The listeners by the keys that say them; null for one that there is not. */
export type Listeners = Readonly<Record<string, Address | null>>

const EVERYWHERE: readonly string[] = ['0.0.0.0', '[::]']

/**
 * The key of the listener to which a URL leads; null when it is none. Names other than `localhost` and the machine's own are
 * not looked up: what they stand for is another machine's affair.
 */
export function ownListener(url: URL, listeners: Listeners, machine = addressesOfMachine()): string | null {
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  const found = Object.entries(listeners).find(
    ([, listener]) => listener?.port === port && leadsTo(url.hostname.toLowerCase(), urlHost(listener.host), machine),
  )
  return found?.[0] ?? null
}

function leadsTo(asked: string, listener: string, machine: readonly string[]): boolean {
  if (EVERYWHERE.includes(listener)) return EVERYWHERE.includes(asked) || isLoopback(asked) || machine.includes(asked)
  // A connection to "every address" goes to loopback, and so does one to the name.
  if (EVERYWHERE.includes(asked) || asked === 'localhost') return isLoopback(listener)
  if (listener.toLowerCase() === 'localhost') return asked === '127.0.0.1' || asked === '[::1]'
  return (
    asked === URL.parse(`http://${listener}/`)?.hostname ||
    (asked === hostname().toLowerCase() && machine.includes(listener))
  )
}

function addressesOfMachine(): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap(each =>
    (each ?? []).map(({ address }) => urlHost(address)),
  )
  return [...addresses, hostname().toLowerCase()]
}
