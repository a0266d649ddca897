/** The route table: the address, audience and sidebar entry of each page. Each page is a file that is loaded when needed. */

import type { ComponentType } from 'preact'
import type { PageProps, Route } from './lib/paths.ts'
import type { IconName } from './ui/icons.tsx'

type Load = () => Promise<{ readonly default: ComponentType<PageProps> }>

/** A page, its audience, and its entry in the sidebar. */
export interface PageRoute extends Route<Load> {
  readonly audience: 'anyone' | 'person' | 'operator'
  readonly nav?: { readonly title: string; readonly icon: IconName }
}

export const ROUTES: readonly PageRoute[] = [
  { path: '/sign-in', audience: 'anyone', page: () => import('./pages/sign-in.tsx') },
  { path: '/register', audience: 'anyone', page: () => import('./pages/register.tsx') },
  { path: '/join', audience: 'anyone', page: () => import('./pages/join.tsx') },
  { path: '/reset', audience: 'anyone', page: () => import('./pages/reset.tsx') },

  person('/', 'Overview', 'overview', () => import('./pages/overview.tsx')),
  person('/keys', 'API keys', 'key', () => import('./pages/keys.tsx')),
  person('/usage', 'Usage', 'usage', () => import('./pages/usage.tsx')),
  person('/receipts', 'Receipts', 'receipt', () => import('./pages/receipts.tsx')),
  { path: '/receipts/:id', audience: 'person', page: () => import('./pages/receipt.tsx') },
  person('/ledger', 'Ledger', 'ledger', () => import('./pages/ledger.tsx')),
  person('/playground', 'Playground', 'playground', () => import('./pages/playground.tsx')),
  person('/models', 'Models', 'models', () => import('./pages/models.tsx')),
  person('/settings', 'Settings', 'settings', () => import('./pages/settings.tsx')),

  operator('/operator/accounts', 'Accounts', 'accounts', () => import('./pages/operator/accounts.tsx')),
  { path: '/operator/accounts/:id', audience: 'operator', page: () => import('./pages/operator/account.tsx') },
  operator('/operator/people', 'People', 'people', () => import('./pages/operator/people.tsx')),
  operator('/operator/exchanges', 'Exchanges', 'exchanges', () => import('./pages/operator/exchanges.tsx')),
  operator('/operator/providers', 'Providers', 'providers', () => import('./pages/operator/providers.tsx')),
  operator('/operator/alerts', 'Alerts', 'warning', () => import('./pages/operator/alerts.tsx')),
  operator(
    '/operator/configuration',
    'Configuration',
    'configuration',
    () => import('./pages/operator/configuration.tsx'),
  ),
  operator('/operator/tokens', 'API tokens', 'token', () => import('./pages/operator/tokens.tsx')),
]

function person(path: string, title: string, icon: IconName, page: Load): PageRoute {
  return { path, audience: 'person', nav: { title, icon }, page }
}

function operator(path: string, title: string, icon: IconName, page: Load): PageRoute {
  return { path, audience: 'operator', nav: { title, icon }, page }
}
