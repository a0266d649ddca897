/** All routes of the account API. */
import { KEY_ROUTES } from './key-routes.ts'
import { PEOPLE_ROUTES } from './people-routes.ts'
import type { ApiRoute } from './route.ts'

export const ROUTES: readonly ApiRoute[] = [...PEOPLE_ROUTES, ...KEY_ROUTES]
