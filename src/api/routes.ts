/** All routes of the account API. */
import { ALERT_ROUTES } from './alert-routes.ts'
import { BUDGET_ROUTES, OPERATOR_BUDGET_ROUTES } from './budget-routes.ts'
import { KEY_ROUTES } from './key-routes.ts'
import { OPERATOR_PEOPLE_ROUTES } from './operator-people-routes.ts'
import { OPERATOR_ROUTES } from './operator-routes.ts'
import { PEOPLE_ROUTES } from './people-routes.ts'
import { PLAYGROUND_ROUTES } from './playground.ts'
import { REPORT_ROUTES } from './report-routes.ts'
import type { ApiRoute } from './route.ts'

export const ROUTES: readonly ApiRoute[] = [
  ...PEOPLE_ROUTES,
  ...KEY_ROUTES,
  ...BUDGET_ROUTES,
  ...REPORT_ROUTES,
  ...PLAYGROUND_ROUTES,
  ...OPERATOR_ROUTES,
  ...OPERATOR_BUDGET_ROUTES,
  ...OPERATOR_PEOPLE_ROUTES,
  ...ALERT_ROUTES,
]
