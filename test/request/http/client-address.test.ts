import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { clientAddress } from '../../../src/request/http/client-address.ts'

const request = (socket: string | undefined, forwarded?: string | string[]) =>
  ({
    socket: { remoteAddress: socket },
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  }) as unknown as IncomingMessage

test.each<
  [name: string, socket: string | undefined, forwarded: string | string[] | undefined, hops: number, address: string]
>([
  ['without trusted proxies, the address of the socket', '10.0.0.1', '1.1.1.1', 0, '10.0.0.1'],
  ['without a header, the address of the socket', '10.0.0.1', undefined, 1, '10.0.0.1'],
  ['one proxy: the last entry', '10.0.0.1', '6.6.6.6, 2.2.2.2', 1, '2.2.2.2'],
  ['two proxies: the last but one', '10.0.0.1', '6.6.6.6, 2.2.2.2, 10.0.0.2', 2, '2.2.2.2'],
  ['entries of the client are ignored', '10.0.0.1', '127.0.0.1, 6.6.6.6, 2.2.2.2', 1, '2.2.2.2'],
  ['fewer entries than proxies: the request bypassed them', '10.0.0.1', '6.6.6.6', 2, '10.0.0.1'],
  ['several headers are one list', '10.0.0.1', ['6.6.6.6', '2.2.2.2'], 1, '2.2.2.2'],
  ['blanks are ignored', '10.0.0.1', '  6.6.6.6 ,\t2.2.2.2  ', 1, '2.2.2.2'],
  ['an entry that is not an address', '10.0.0.1', '6.6.6.6, unknown', 1, '10.0.0.1'],
  ['an empty entry', '10.0.0.1', '6.6.6.6,', 1, '10.0.0.1'],
  ['an empty header', '10.0.0.1', '', 1, '10.0.0.1'],
  ['a name', '10.0.0.1', 'localhost', 1, '10.0.0.1'],
  ['an address with line breaks in it', '10.0.0.1', '2.2.2.2\r\nx: y', 1, '10.0.0.1'],
  ['IPv6', '10.0.0.1', '2001:db8::1', 1, '2001:db8::1'],
  ['an IPv4-mapped IPv6 address', '10.0.0.1', '::ffff:2.2.2.2', 1, '2.2.2.2'],
  ['the same at the socket', '::ffff:2.2.2.2', undefined, 0, '2.2.2.2'],
  ['an IPv6 address with a similar beginning', '::ffff:1', undefined, 0, '::ffff:1'],
  ['a closed socket', undefined, undefined, 0, ''],
])('%s', (_name, socket, forwarded, hops, address) => {
  expect(clientAddress(request(socket, forwarded), hops)).toBe(address)
})
