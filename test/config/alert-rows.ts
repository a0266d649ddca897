/** Broken `alerts` of gateway.yaml, in the form of gateway-rows.ts. */
import type { Row } from './gateway-rows.ts'
import type { Gateway } from './workshop.ts'

const alerts = (text: string): Gateway => ({ more: `alerts:\n${text}` })
const webhook = (text: string) => alerts(`  webhooks:\n    - name: ops\n${text}`)
const URL = '      url: https://ops.example.com/hook\n'

export const ALERTS: Row[] = [
  ['alerts as a word', { more: 'alerts: ▸on' }, 'alerts must be a map, not "on"; its keys are '],
  ['a low balance without a unit', alerts('  low_balance: ▸five'), '"five" is not an amount'],
  ['alerts that are kept for a day', alerts('  keep: ▸1d'), 'keep must be between 7d and 730d'],
  ['a webhook without a name', alerts('  webhooks:\n    - ▸url: https://a.example/'), 'has no "name"'],
  ['a webhook without a URL', alerts('  webhooks:\n    - ▸name: ops'), 'has no "url"'],
  [
    'a webhook without a scheme',
    webhook('      url: ▸ops.example.com/hook'),
    'url must begin with http:// or https://',
  ],
  [
    'a webhook of another scheme',
    webhook('      url: ▸ftp://ops.example.com/'),
    'url must begin with http:// or https://',
  ],
  ['a webhook with a password', webhook('      url: ▸https://u:p@ops.example.com/'), 'url contains credentials'],
  ['a webhook with a fragment', webhook('      url: ▸https://ops.example.com/#a'), 'url has a fragment'],
  [
    'a webhook without encryption',
    webhook('      url: ▸http://ops.example.com/'),
    'url would send alerts unencrypted; use https, or write allow_insecure: true if you trust that network',
  ],
  ['a secret URL without encryption', webhook('      url: ▸${HOOK_URL}'), 'url would send alerts unencrypted'],
  [
    'a Slack URL written out',
    webhook('      url: ▸https://hooks.slack.com/services/T0/B0/x0123456789'),
    'a Slack URL is a secret, and is written in clear here',
  ],
  ['a secret written out', webhook(`${URL}      secret: ▸whsec_0123456789`), 'the secret is written in clear here'],
  [
    'a secret that is too short',
    webhook(`${URL}      secret: ▸\${FAR_KEY}`),
    'the secret must be 24 to 64 bytes in base64; make one with: openssl rand -base64 32',
  ],
  [
    'a secret for Slack',
    webhook(`${URL}      format: slack\n      ▸secret: \${FAR_KEY}`),
    'Slack does not check signatures',
  ],
  ['an unknown format', webhook(`${URL}      format: ▸teams`), 'format: "teams" is not one of json or slack'],
  ['an unknown event', webhook(`${URL}      events: [ ▸budgets ]`), '"budgets" is not one of '],
  ['no event', webhook(`${URL}      events: ▸[]`), 'events'],
  ['a webhook twice', webhook(`${URL}    - name: ▸ops\n${URL}`), 'the webhook "ops" is listed twice'],
]
