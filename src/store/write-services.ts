/** Checks requests to write and turns them into operations of the writer. */
import type { Account, AccountBalance, Accounts, HoldResult, Ledger } from '#contract'
import type { FileWatch } from './files/files.ts'
import type { Backlog } from './money/backlog.ts'
import { type HoldRecord, holdRecord } from './money/ledger-fields.ts'
import { checkCheckpoint, checkCredit, checkHold, checkSettle, checkText } from './money/preconditions.ts'
import { ACCOUNT_PREFIX, checkAccount } from './people/accounts.ts'
import { checkBudget } from './people/budget-changes.ts'
import { checkExpiry, checkGrace, checkKey, checkKeyChange, KEY_PREFIX } from './people/keys.ts'
import type { PeopleParts } from './people/people-service.ts'
import { createToken, digest, last4 } from './people/token.ts'
import type { Promised } from './promised.ts'
import { type IssuedKey, type Store, type StoreReads, StoreUnavailable } from './store.ts'
import type { Writer } from './writer.ts'

/**
 * Creates the ledger with its checks. Every exchange has a hold and a settle, so these create as few promises as possible.
 * @param onHold called before each hold
 */
export function createLedger(writer: Writer, backlog: Backlog, onHold: () => void): Ledger {
  async function holdAfterBacklog(record: HoldRecord): Promise<HoldResult> {
    if (await backlog.attempt()) return writer.op('hold', record)
    throw new StoreUnavailable('not_written', new Error('earlier settles wait to be written'))
  }

  return {
    hold(request) {
      try {
        checkHold(request)
        onHold()
        const record = holdRecord(request)
        return backlog.isEmpty() ? writer.op('hold', record) : holdAfterBacklog(record)
      } catch (error) {
        return Promise.reject(error)
      }
    },
    settle(request) {
      try {
        checkSettle(request)
        return backlog.settle(request)
      } catch (error) {
        return Promise.reject(error)
      }
    },
    async checkpoint(checkpoints) {
      checkpoints.forEach(checkCheckpoint)
      if (checkpoints.length > 0) await writer.op('checkpoint', checkpoints)
    },
    spool(request) {
      checkSettle(request)
      return backlog.keep(request)
    },
    abandon(request) {
      checkSettle(request)
      backlog.abandon(request)
    },
  }
}

export interface WriteParts extends PeopleParts {
  /** Runs a write that changes what a key may do. */
  changing<Result>(write: () => Promise<Result>): Promise<Result>
}

/** Reads accounts without their balances, which belong to the ledger. */
export function createAccounts({ findAccount }: Pick<StoreReads | Promised<StoreReads>, 'findAccount'>): Accounts {
  function withoutMoney(found: AccountBalance | undefined): Account | undefined {
    if (found === undefined) return undefined
    const { posted: _, held: __, ...account } = found
    return account
  }

  return {
    find(idOrName) {
      const found = findAccount(idOrName)
      return found instanceof Promise ? found.then(withoutMoney) : withoutMoney(found)
    },
  }
}

type AccountService = Pick<Store, 'createAccount' | 'credit' | 'freeze' | 'setPlan' | 'setBudget'>

export function createAccountService({ reads, writer, ids, changing }: WriteParts): AccountService {
  return {
    createAccount: async account =>
      writer.op('createAccount', { id: ids.next(ACCOUNT_PREFIX), ...checkAccount(account) }),
    async credit(grant) {
      checkCredit(grant)
      const granted = await writer.op('credit', grant)
      return { granted, balance: (await reads.findAccount(grant.account))! }
    },
    freeze: (account, frozen) => changing(() => writer.op('freeze', { account, frozen })),
    setPlan: async (account, plan) => {
      checkText('account', 'plan', plan)
      return changing(() => writer.op('setPlan', { account, plan }))
    },
    async setBudget(change) {
      checkBudget(change)
      await changing(() => writer.op('setBudget', change))
    },
  }
}

type KeyService = Pick<Store, 'createKey' | 'changeKey' | 'rotateKey' | 'revokeKey'>

export function createKeyService({ reads, writer, hmacKey, ids, clock, changing }: WriteParts): KeyService {
  function issue(): { token: string; digest: Uint8Array; last4: string } {
    const token = createToken()
    return { token, digest: digest(hmacKey, token), last4: last4(token) }
  }

  return {
    async createKey(key): Promise<IssuedKey> {
      checkKey(key, clock.now())
      const { account, name, models = null, expiresAt = null, spendingCap = null, purpose = null } = key
      const { token, ...secret } = issue()
      const fields = { id: ids.next(KEY_PREFIX), account, name, models, expiresAt, spendingCap, purpose }
      return { key: await writer.op('createKey', { ...fields, ...secret }), token }
    },
    async changeKey(change) {
      checkKeyChange(change, clock.now())
      await changing(() => writer.op('changeKey', change))
      return (await reads.findKey(change.id))!
    },
    async rotateKey(id, graceMs, expiresAt): Promise<IssuedKey> {
      checkGrace(graceMs)
      checkExpiry(expiresAt, clock.now())
      const { token, ...secret } = issue()
      return { key: await changing(() => writer.op('rotateKey', { id, graceMs, expiresAt, ...secret })), token }
    },
    revokeKey: id => changing(() => writer.op('revokeKey', id)),
  }
}

/** Wraps a writer: it refuses operations once the folder no longer has the opened files, because the writes would be lost. */
export function watched(writer: Writer, files: FileWatch): Writer {
  return {
    op(name, request) {
      if (files.found === null) return writer.op(name, request)
      return Promise.reject(new StoreUnavailable('not_written', new Error(files.found)))
    },
    openHolds: () => writer.openHolds(),
    healthy: () => writer.healthy(),
    figures: () => writer.figures(),
    close: () => writer.close(),
  }
}
