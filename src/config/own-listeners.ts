/** Detects a provider whose `base_url` is a listener of this gateway: each request would loop. */
import { hostname, networkInterfaces } from 'node:os'
import type { Address } from './configuration.ts'
import { isLoopback, urlHost } from './listen-address.ts'

/** The listeners by their keys in gateway.yaml; null: not configured. */
export type Listeners = Readonly<Record<string, Address | null>>

const EVERYWHERE: readonly string[] = ['0.0.0.0', '[::]']

/**
 * The key of the listener that a URL reaches; null without one. Only `localhost` and the machine's own name are resolved:
 * other names may mean another machine.
 */
export function ownListener(url: URL, listeners: Listeners, machine = addressesOfMachine()): string | null {
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  const found = Object.entries(listeners).find(
    ([, listener]) => listener?.port === port && leadsTo(url.hostname.toLowerCase(), urlHost(listener.host), machine),
  )
  return found?.[0] ?? null
}

function leadsTo(host: string, listener: string, machine: readonly string[]): boolean {
  if (EVERYWHERE.includes(listener)) return EVERYWHERE.includes(host) || isLoopback(host) || machine.includes(host)
  // A connection to 0.0.0.0 or [::] reaches loopback, and so does one to `localhost`.
  if (EVERYWHERE.includes(host) || host === 'localhost') return isLoopback(listener)
  if (listener.toLowerCase() === 'localhost') return host === '127.0.0.1' || host === '[::1]'
  return (
    host === URL.parse(`http://${listener}/`)?.hostname ||
    (host === hostname().toLowerCase() && machine.includes(listener))
  )
}

function addressesOfMachine(): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap(each =>
    (each ?? []).map(({ address }) => urlHost(address)),
  )
  return [...addresses, hostname().toLowerCase()]
}
