/** Whom a slot is counted for. */
import { isIPv6 } from 'node:net'
import type { Exchange } from '#contract'

/** Who can have slots of their own. */
export const WHO = ['key', 'account', 'model', 'address', 'everybody'] as const
export type Per = (typeof WHO)[number]

/** The loader has made sure of the fact: it is in `needs`. */
export function whoIs(exchange: Exchange, per: Per): string {
  if (per === 'everybody') return ''
  return per === 'address' ? networkOf(exchange.address) : exchange[per]!.id
}

/**
 * An IPv6 host is given a whole /64 (RFC 7421), so its 2^64 addresses count as one; IPv4 in IPv6 clothes counts as IPv4.
 */
export function networkOf(address: string): string {
  const [bare = ''] = address.split('%', 1)
  if (!isIPv6(bare)) return bare
  // As URLs write it: lower case, hexadecimal throughout, zeros shortened.
  const written = new URL(`http://[${bare}]`).hostname.slice(1, -1)
  const mapped = /^::ffff:([0-9a-f]+):([0-9a-f]+)$/.exec(written)
  if (mapped) {
    const [high, low] = [Number.parseInt(mapped[1]!, 16), Number.parseInt(mapped[2]!, 16)]
    return [high >> 8, high & 255, low >> 8, low & 255].join('.')
  }
  const [head = '', tail] = written.split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail ? tail.split(':') : []
  const zeros = tail === undefined ? [] : Array<string>(8 - before.length - after.length).fill('0')
  return `${[...before, ...zeros, ...after].slice(0, 4).join(':')}::/64`
}
