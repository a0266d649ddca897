/** Mistakes about the dashboard in gateway.yaml. The mark ▸ shows where the problem must be reported. */
import { afterAll, test } from 'vitest'
import { expectProblems, type Gateway, openWorkshop } from './workshop.ts'

const workshop = openWorkshop()
afterAll(() => workshop.close())

const TABLE: readonly (readonly [name: string, gateway: Gateway, says: string])[] = [
  [
    'a dashboard_url without a dashboard',
    { more: 'dashboard_url: ▸https://a.example' },
    'dashboard_url needs a dashboard; write dashboard: 127.0.0.1:8081, or remove this line',
  ],
  ['a registration without a dashboard', { more: 'registration: ▸{ mode: open }' }, 'registration needs a dashboard'],
  [
    'a mistyped dashboard is one problem, whatever else needs it',
    { more: '▸dashbord: 127.0.0.1:8081\ndashboard_url: http://localhost:8081\nregistration: { mode: open }' },
    'unknown key "dashbord"; did you mean "dashboard"?',
  ],
  [
    'a dashboard as a port',
    { more: 'dashboard: ▸18081' },
    'dashboard must be an address with a port, not 18081; write 127.0.0.1:18081',
  ],
  [
    'a registration as its mode',
    { more: 'dashboard: 127.0.0.1:8081\nregistration: ▸open' },
    'registration must be a map, not "open"; write { mode: open }',
  ],
  [
    'a registration as another word',
    { more: 'dashboard: 127.0.0.1:8081\nregistration: ▸free' },
    'registration must be a map, not "free"',
  ],
  [
    'a dashboard on all addresses without a name',
    { more: 'dashboard: ▸:8081' },
    'dashboard: other machines can reach :8081',
  ],
  [
    'a dashboard on all addresses with the name of this machine',
    { more: 'dashboard: ▸0.0.0.0:8081\ndashboard_url: http://localhost:8081' },
    'dashboard: other machines can reach 0.0.0.0:8081, but http://localhost:8081 works only on this machine',
  ],
  [
    'the same in IPv6',
    { more: 'dashboard: ▸"[::]:8081"\ndashboard_url: http://127.0.0.1:8081\ntrust_proxy: 1' },
    'other machines can reach [::]:8081',
  ],
  [
    'https without trust_proxy',
    { more: 'dashboard: 127.0.0.1:8081\ndashboard_url: ▸https://a.example' },
    'dashboard_url: https means a proxy in front, but trust_proxy is 0: all people would share one address and its limits; write trust_proxy: 1',
  ],
  [
    'https with trust_proxy 0',
    { more: 'dashboard: :8081\ndashboard_url: ▸https://a.example\ntrust_proxy: 0' },
    'write trust_proxy: 1, or the number of proxies',
  ],
  [
    'an invalid trust_proxy is one problem',
    { more: 'dashboard: :8081\ndashboard_url: https://a.example\ntrust_proxy: ▸-1' },
    'trust_proxy must be',
  ],
  [
    'a dashboard on the port of `listen`',
    { more: 'listen: :9000\ndashboard: ▸127.0.0.1:9000' },
    'dashboard and listen use the same address; give dashboard another port',
  ],
  [
    'a dashboard with a path',
    { more: 'dashboard: :8081\ndashboard_url: ▸https://a.example/gate' },
    'dashboard_url: "https://a.example/gate" has a path; write https://HOST, without a path',
  ],
  [
    'a dashboard on plain http',
    { more: 'dashboard: :8081\ndashboard_url: ▸http://a.example' },
    'dashboard_url: "http://a.example" is plain http, which would send passwords unencrypted',
  ],
  [
    'a dashboard of another scheme',
    { more: 'dashboard: :8081\ndashboard_url: ▸ftp://a.example' },
    'dashboard_url: "ftp://a.example" is not an http or https URL',
  ],
  [
    'a dashboard with a password',
    { more: 'dashboard: :8081\ndashboard_url: ▸https://u:p@a.example' },
    'has a user or a password',
  ],
  [
    'a public address with a query',
    { more: 'dashboard: 127.0.0.1:8081\npublic_url: ▸https://a.example/v1?x=1' },
    'has a query or a fragment; write https://HOST/v1',
  ],
  [
    'a public address without /v1',
    { more: 'dashboard: 127.0.0.1:8081\npublic_url: ▸https://a.example/' },
    'public_url: "https://a.example/" does not end in /v1; write https://a.example/v1',
  ],
  [
    'a public address with another path',
    { more: 'dashboard: 127.0.0.1:8081\npublic_url: ▸https://v1.example/models' },
    'does not end in /v1; write https://v1.example/models/v1',
  ],
  [
    'a public address with a variable, which the message does not show',
    { more: 'dashboard: 127.0.0.1:8081\npublic_url: ▸https://${FAR_KEY}/' },
    'does not end in /v1; write https://HOST/v1',
  ],
  ['an invalid public address', { more: 'dashboard: 127.0.0.1:8081\npublic_url: ▸a.example' }, 'is not a URL'],
  [
    'a credit in the mode invitation',
    { more: 'dashboard: 127.0.0.1:8081\nregistration: { credit: ▸$5 }' },
    'registration: credit is only for mode: open, and mode is invitation; write mode: open',
  ],
  [
    'an unknown mode of registration',
    { more: 'dashboard: 127.0.0.1:8081\nregistration: { mode: ▸free }' },
    'mode: "free" is not one of open, invitation or closed',
  ],
]

test.each([
  ['this machine, plain', 'dashboard: 127.0.0.1:8081'],
  ['this machine under a name', 'dashboard: 127.0.0.1:8081\ndashboard_url: http://localhost:9999'],
  ['this machine in IPv6', 'dashboard: "[::1]:8081"\ndashboard_url: http://localhost:8081\ntrust_proxy: 0'],
  ['a public address behind a prefix', 'dashboard: 127.0.0.1:8081\npublic_url: https://a.example/gate/v1/'],
  ['behind a proxy', 'dashboard: :8081\ndashboard_url: https://a.example\ntrust_proxy: 1'],
  ["operators' machines on a private network", 'admin: 10.0.0.5:8082\nmetrics: token'],
  ['metrics for a whole network', 'admin: :8082\nmetrics: open'],
  ['metrics for this machine', 'admin: "[::1]:8082"'],
  ['metrics for this machine with a token', 'admin: localhost:8082\nmetrics: token'],
])('%s: no problem', async (_, more) => {
  await workshop.good({ gateway: { more } })
})

test.each(TABLE)('%s', async (_, gateway, says) => {
  await expectProblems(workshop, { gateway }, says)
})
