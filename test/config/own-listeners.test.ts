/** Base URLs that lead to the gateway's own listeners. */
import { hostname } from 'node:os'
import { afterAll, expect, test } from 'vitest'
import { parseAddress } from '../../src/config/listen-address.ts'
import { ownListener } from '../../src/config/own-listeners.ts'
import { expectProblems, openWorkshop } from './workshop.ts'

const MACHINE = ['127.0.0.1', '10.1.2.3', '[fe80::1]', 'build-7']

test.each<[url: string, listen: string, isOwn: boolean]>([
  ['http://127.0.0.1:8080/v1', '127.0.0.1:8080', true],
  ['http://localhost:8080/v1', '127.0.0.1:8080', true],
  ['http://LOCALHOST:8080/v1', 'localhost:8080', true],
  ['http://0.0.0.0:8080/v1', '127.0.0.1:8080', true],
  ['https://127.0.0.1:8080/v1', '127.0.0.1:8080', true],
  ['http://127.1:8080/v1', '127.0.0.1:8080', true],
  ['http://127.0.0.2:8080/v1', '127.0.0.1:8080', false],
  ['http://127.0.0.1:8081/v1', '127.0.0.1:8080', false],
  ['http://127.0.0.1/v1', '127.0.0.1:80', true],
  ['http://[::1]:8080/v1', '[::1]:8080', true],
  ['http://[0:0::1]:8080/v1', '[::1]:8080', true],
  ['http://[::1]:8080/v1', '[0:0:0::1]:8080', true],
  ['http://[::1]:8080/v1', '127.0.0.1:8080', false],
  ['http://127.0.0.1:8080/v1', ':8080', true],
  ['http://127.0.0.2:8080/v1', ':8080', true],
  ['http://10.1.2.3:8080/v1', ':8080', true],
  ['http://[fe80::1]:8080/v1', '[::]:8080', true],
  ['http://build-7:8080/v1', ':8080', true],
  ['http://10.1.2.4:8080/v1', ':8080', false],
  ['http://10.1.2.3:8080/v1', '127.0.0.1:8080', false],
  ['http://10.1.2.3:8080/v1', '10.1.2.3:8080', true],
  ['http://127.0.0.1:8080/v1', '10.1.2.3:8080', false],
  ['http://localhost:8080/v1', '10.1.2.3:8080', false],
  ['https://api.example.com/v1', '0.0.0.0:443', false],
  [`http://${hostname()}:8080/v1`, '10.1.2.3:8080', true],
])('%s at %s: %s', (url, listen, isOwn) => {
  const listeners = { dashboard: null, listen: parseAddress(listen) }
  expect(ownListener(new URL(url), listeners, MACHINE)).toBe(isOwn ? 'listen' : null)
})

const workshop = openWorkshop()
afterAll(() => workshop.close())
const near = (baseUrl: string) =>
  `providers:\n  demo: { dialect: demo }\n  near: { dialect: openai, base_url: ▸"${baseUrl}" }`

test.each<[name: string, baseUrl: string, more: string, says: string]>([
  [
    'clients’',
    'http://localhost:9091/v1',
    'listen: 127.0.0.1:9091',
    `"http://localhost:9091/v1" is this gateway's own "listen" (line `,
  ],
  ['operators’', 'http://127.0.0.1:9092/v1', 'listen: 127.0.0.1:9091\nadmin: 127.0.0.1:9092', `own "admin" (line `],
  [
    'default',
    'http://127.0.0.1:8080/v1',
    '',
    `own "listen": each request would return to it; write the address of the provider`,
  ],
])('a provider at the %s listener is refused', async (_name, baseUrl, more, says) => {
  await expectProblems(workshop, { gateway: { providers: near(baseUrl), more } }, says)
})
