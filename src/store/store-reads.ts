/** All reads of a store, prepared on one connection. */
import type { KeyObject } from 'node:crypto'
import type { Clock } from '#contract'
import { createAlertReads } from './alerts/alert-reads.ts'
import type { Database } from './engine/database.ts'
import { createBudgetUseFinder, createBudgetUseReader } from './money/budget-uses.ts'
import { createReceiptReader } from './money/receipts.ts'
import { createReports } from './money/reports-service.ts'
import { verify } from './money/verify.ts'
import { createAccountReader } from './people/accounts.ts'
import { createKeyLister } from './people/key-list.ts'
import { createPeopleReads } from './people/people-service.ts'
import type { StoreReads } from './store.ts'

export interface ReadParts {
  readonly database: Database
  readonly hmacKey: KeyObject
  readonly clock: Clock
  /** The path of the database file; null for one in memory. */
  readonly path: string | null
}

export function createReads({ database, hmacKey, clock, path }: ReadParts): StoreReads {
  const accounts = createAccountReader(database)
  const keys = createKeyLister(database, clock)
  const idOf = (account: string | undefined) => (account === undefined ? undefined : accounts.get(account).id)
  return {
    people: createPeopleReads(database, hmacKey, clock),
    reports: createReports(database),
    alerts: createAlertReads(database),
    findAccount: accounts.find,
    listAccounts: accounts.list,
    listKeys: account => keys.list(idOf(account)),
    keyNames: keys.names,
    findKey: keys.summary,
    findReceipt: createReceiptReader(database),
    findBudgetUses: createBudgetUseFinder(database),
    listBudgetUses: createBudgetUseReader(database),
    verify: onProgress => verify(database, onProgress, path),
  }
}
