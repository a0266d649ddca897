/** The part of gateway.yaml about people: where the dashboard is, what browsers call it, and who may make an account. */

import { unit } from '#contract'
import type { Address, Configuration } from './configuration.ts'
import type { GatewayShape } from './file-shapes.ts'
import { isLoopback, urlHost } from './listen-address.ts'
import { map, text } from './schema-parts.ts'
import type { Source } from './yaml/source.ts'

const REGISTRATION_MODES = ['open', 'invitation', 'closed']

/** The key of gateway.yaml. */
export const REGISTRATION_SCHEMA = map(
  'Who can create an account on the dashboard.',
  {
    mode: {
      enum: REGISTRATION_MODES,
      description:
        'open: everyone; invitation: people with an invitation link from an operator; closed: nobody, and links can only add people to existing accounts. Default: invitation.',
    },
    credit: { ...unit('money'), description: 'With mode: open, the credit of a new account. Default: 0.' },
    plan: text('With mode: open, the plan of a new account. Default: default.'),
  },
  { instead: { of: `^(${REGISTRATION_MODES.join('|')})$`, write: '{ mode: VALUE }' } },
)

type People = Pick<Configuration, 'dashboard' | 'dashboardUrl' | 'publicUrl' | 'registration'>

/** Keys that mean nothing without a dashboard. */
const NEED_DASHBOARD = ['dashboard_url', 'public_url', 'registration'] as const

/** Builds it from what is sound; null where something of it was reported, here or before. */
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

/** What browsers call it must be true of where it listens, and of what stands in between. */
function checkReach(
  source: Source,
  shape: GatewayShape,
  { dashboard, dashboardUrl }: { readonly dashboard: Address; readonly dashboardUrl: string | null },
): void {
  const isPlain = dashboardUrl === null || dashboardUrl.startsWith('http:')
  if (isPlain && !isLoopback(urlHost(dashboard.host))) {
    const but = dashboardUrl === null ? '' : `, and as ${dashboardUrl} only this machine itself`
    source.report('/dashboard', `dashboard: others than this machine can reach ${shape.dashboard}${but}`, {
      suggestion: 'say what browsers call it, dashboard_url: https://…, or listen on 127.0.0.1',
    })
  }
  if (!isPlain && source.sound('/trust_proxy') && shape.trust_proxy === 0) {
    const message =
      'dashboard_url: https means a proxy in front, and trust_proxy believes none: all people would share one address and its limits'
    source.report('/dashboard_url', message, { suggestion: 'write trust_proxy: 1, or how many proxies there are' })
  }
}

function registrationOf(source: Source, { registration = {} }: GatewayShape): Configuration['registration'] | null {
  if (!source.sound('/registration')) return null
  const { mode = 'invitation', credit = 0n, plan = 'default' } = registration
  for (const key of ['credit', 'plan'] as const) {
    if (registration[key] === undefined || mode === 'open') continue
    const suggestion = 'write mode: open, or say it in the invitation'
    source.report(
      `/registration/${key}`,
      `registration: ${key} is for accounts that anybody makes, and mode is ${mode}`,
      { rule: 'useless-key', suggestion },
    )
  }
  return { mode, credit, plan }
}

function urlOf(
  source: Source,
  at: string,
  text: string | undefined,
  read: (url: URL) => string | Wrong,
): string | null {
  if (text === undefined || !source.sound(at)) return null
  const url = URL.parse(text)
  const result: string | Wrong = url === null ? { wrong: 'is not a URL' } : (plainProblem(url) ?? read(url))
  if (typeof result === 'string') return result
  const hint = at === '/public_url' ? 'write https://HOST/v1' : 'write https://HOST, without a path'
  const suggestion = typeof result.instead === 'string' && !source.substituted(at) ? `write ${result.instead}` : hint
  source.report(at, `${at.slice(1)}: ${source.show(at, text)} ${result.wrong}`, { suggestion })
  return null
}

interface Wrong {
  readonly wrong: string
  /** What it should look like. */
  readonly instead?: string
}

function plainProblem(url: URL): Wrong | null {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return { wrong: 'is neither https nor http' }
  if (url.username !== '' || url.password !== '') return { wrong: 'has a user or a password' }
  if (url.search !== '' || url.hash !== '') return { wrong: 'has a query or a fragment' }
  return null
}

/** The page owns its origin: cookies with the `__Host-` prefix and the content policy are for all of it. */
function originOf(url: URL): string | Wrong {
  if (url.pathname !== '/') return { wrong: 'has a path' }
  if (url.protocol === 'http:' && !isLoopback(url.hostname)) {
    return { wrong: 'is plain http, and passwords would cross the network readable' }
  }
  return url.origin
}

/** What clients put before `/chat/completions`: the paths of chat routes are `/v1/chat/completions`, with or without a prefix. */
function baseOf(url: URL): string | Wrong {
  const base = url.href.replace(/\/+$/, '')
  return /\/v1\/*$/.test(url.pathname)
    ? base
    : { wrong: 'does not end in /v1, where clients are served', instead: `${base}/v1` }
}
