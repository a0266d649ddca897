/**
 * The `Via` header (RFC 9110, 7.6.3): a gateway recognizes its own requests if a provider's `base_url` leads back to it, directly or
 * through others. Only names of Tollgate gateways are sent on; other proxies in front stay hidden from providers.
 */
import { randomBytes } from 'node:crypto'

/** A path through more gateways than this counts as a loop. */
const MAX_GATEWAYS = 8

/** One entry: the protocol, then the name of a gateway. */
const GATEWAYS = /(?:^|,)[ \t]*(?:[a-z]+\/)?[\d.]{1,8}[ \t]+(tollgate-[0-9a-f]{16})(?![^ \t,(])/gi
const MARK = 'tollgate-'

export interface Via {
  /**
   * The header for the provider; null when the request came from this gateway, or through too many.
   * @param received the client's, repeated ones joined
   */
  onward(received: string | undefined): string | null
}

/** A gateway's name is random and unique: it reveals neither host nor version. */
export function createVia(): Via {
  const name = MARK + randomBytes(8).toString('hex')
  const own = `1.1 ${name}`
  return {
    onward(received) {
      if (received === undefined || !received.toLowerCase().includes(MARK)) return own
      const before = Array.from(received.matchAll(GATEWAYS), ([, gateway]) => gateway!.toLowerCase())
      if (before.includes(name) || before.length >= MAX_GATEWAYS) return null
      return [...before.map(gateway => `1.1 ${gateway}`), own].join(', ')
    },
  }
}
