/** The keys of gateway.yaml for people: the dashboard's address, its URL in browsers, and registration. */

import { unit } from '#contract'
import type { Address, Configuration } from './configuration.ts'
import type { GatewayShape } from './file-shapes.ts'
import { isLoopback, urlHost } from './listen-address.ts'
import { map, text } from './schema-parts.ts'
import type { Source } from './yaml/source.ts'

const REGISTRATION_MODES = ['open', 'invitation', 'closed']

export const REGISTRATION_SCHEMA = map(
  'Who can create an account on the dashboard.',
  {
    mode: {
      enum: REGISTRATION_MODES,
      description:
        'open: everyone; invitation: people with an invitation link from an operator; closed: no one, and links can only add people to existing accounts. Default: invitation.',
    },
    credit: { ...unit('money'), description: 'With mode: open, the credit of a new account. Default: 0.' },
    plan: text('With mode: open, the plan of a new account. Default: default.'),
  },
  { instead: { of: `^(${REGISTRATION_MODES.join('|')})$`, write: '{ mode: VALUE }' } },
)

type People = Pick<Configuration, 'dashboard' | 'dashboardUrl' | 'publicUrl' | 'registration'>

/** Keys that need a dashboard. */
const NEED_DASHBOARD = ['dashboard_url', 'public_url', 'registration'] as const

/** Null if a problem of these keys was reported, here or before. */
export function buildPeople(source: Source, shape: GatewayShape, dashboard: Address | null): People | null {
  const before = source.problems.length
  if (!source.mayHave('/dashboard')) {
    for (const key of NEED_DASHBOARD) {
      if (shape[key] === undefined) continue
      const suggestion = 'write dashboard: 127.0.0.1:8081, or remove this line'
      source.report(`/${key}`, `${key} needs a dashboard`, { rule: 'useless-key', suggestion })
    }
  }
  const dashboardUrl = urlOf(source, '/dashboard_url', shape.dashboard_url, originOf)
  const publicUrl = urlOf(source, '/public_url', shape.public_url, baseOf)
  if (dashboard && source.sound('/dashboard_url')) checkReach(source, shape, { dashboard, dashboardUrl })
  const registration = registrationOf(source, shape)
  if (source.problems.length > before || registration === null) return null
  return { dashboard, dashboardUrl, publicUrl, registration }
}

/** Checks the dashboard's URL against its address and the number of trusted proxies. */
function checkReach(
  source: Source,
  shape: GatewayShape,
  { dashboard, dashboardUrl }: { readonly dashboard: Address; readonly dashboardUrl: string | null },
): void {
  const isPlain = dashboardUrl === null || dashboardUrl.startsWith('http:')
  if (isPlain && !isLoopback(urlHost(dashboard.host))) {
    const but = dashboardUrl === null ? '' : `, but ${dashboardUrl} works only on this machine`
    source.report('/dashboard', `dashboard: other machines can reach ${shape.dashboard}${but}`, {
      suggestion: 'write its URL for browsers, dashboard_url: https://…, or listen on 127.0.0.1',
    })
  }
  if (!isPlain && source.sound('/trust_proxy') && shape.trust_proxy === 0) {
    const message =
      'dashboard_url: https means a proxy in front, but trust_proxy is 0: all people would share one address and its limits'
    source.report('/dashboard_url', message, { suggestion: 'write trust_proxy: 1, or the number of proxies' })
  }
}

function registrationOf(source: Source, { registration = {} }: GatewayShape): Configuration['registration'] | null {
  if (!source.sound('/registration')) return null
  const { mode = 'invitation', credit = 0n, plan = 'default' } = registration
  for (const key of ['credit', 'plan'] as const) {
    if (registration[key] === undefined || mode === 'open') continue
    const suggestion = 'write mode: open, or set it in the invitation'
    source.report(`/registration/${key}`, `registration: ${key} is only for mode: open, and mode is ${mode}`, {
      rule: 'useless-key',
      suggestion,
    })
  }
  return { mode, credit, plan }
}

function urlOf(
  source: Source,
  at: string,
  text: string | undefined,
  read: (url: URL) => string | UrlProblem,
): string | null {
  if (text === undefined || !source.sound(at)) return null
  const url = URL.parse(text)
  const result: string | UrlProblem = url === null ? { wrong: 'is not a URL' } : (plainProblem(url) ?? read(url))
  if (typeof result === 'string') return result
  const hint = at === '/public_url' ? 'write https://HOST/v1' : 'write https://HOST, without a path'
  const suggestion = typeof result.instead === 'string' && !source.substituted(at) ? `write ${result.instead}` : hint
  source.report(at, `${at.slice(1)}: ${source.show(at, text)} ${result.wrong}`, { suggestion })
  return null
}

interface UrlProblem {
  readonly wrong: string
  /** The expected URL. */
  readonly instead?: string
}

function plainProblem(url: URL): UrlProblem | null {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return { wrong: 'is not an http or https URL' }
  if (url.username !== '' || url.password !== '') return { wrong: 'has a user or a password' }
  if (url.search !== '' || url.hash !== '') return { wrong: 'has a query or a fragment' }
  return null
}

/** The dashboard needs an origin of its own: its `__Host-` cookies and its content policy apply to the whole origin. */
function originOf(url: URL): string | UrlProblem {
  if (url.pathname !== '/') return { wrong: 'has a path' }
  if (url.protocol === 'http:' && !isLoopback(url.hostname)) {
    return { wrong: 'is plain http, which would send passwords unencrypted' }
  }
  return url.origin
}

/** The base URL of clients. Paths of chat routes are `/v1/chat/completions`, with or without a prefix. */
function baseOf(url: URL): string | UrlProblem {
  const base = url.href.replace(/\/+$/, '')
  return /\/v1\/*$/.test(url.pathname) ? base : { wrong: 'does not end in /v1', instead: `${base}/v1` }
}
