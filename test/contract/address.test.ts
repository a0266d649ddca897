import { isIPv6 } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { addressGroup } from '#contract'
import { countsOf } from '../helpers/counts.ts'

const counts = countsOf('corpus')

test.each([
  ['', 'unknown'],
  ['not an address', 'unknown'],
  ['1.2.3', 'unknown'],
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['::FFFF:c000:201', '192.0.2.1'],
  ['0:0:0:0:0:ffff:c000:0201', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:0DB8:0001:0002::1', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:db8:1:2:ffff::192.0.2.1', '2001:db8:1:2::/64'],
  ['::', '0:0:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['1::', '1:0:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
])('%s counts as %s', (address, group) => {
  expect(addressGroup(address)).toBe(group)
})

test('all spellings of a /64 are one group, and two /64s are never one', () => {
  fc.assert(
    fc.property(fc.ipV6(), fc.ipV6(), (one, two) => {
      // The reference is the platform's parser of URLs.
      const network = (address: string) => {
        const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
        const [before, after] = [head, tail ?? ''].map(part => part.split(':').filter(group => group !== ''))
        const zeros = Array<string>(tail === undefined ? 0 : 8 - before!.length - after!.length).fill('0')
        return [...before!, ...zeros, ...after!]
      }
      const [first, second] = [network(one), network(two)]
      const mapped = (groups: string[]) => groups.slice(0, 6).join() === '0,0,0,0,0,ffff'
      fc.pre(isIPv6(one) && isIPv6(two) && !mapped(first) && !mapped(second))
      expect(addressGroup(one)).toBe(`${first.slice(0, 4).join(':')}::/64`)
      expect(addressGroup(one) === addressGroup(two)).toBe(first.slice(0, 4).join() === second.slice(0, 4).join())
    }),
    { numRuns: counts(125, 20_000) },
  )
})
