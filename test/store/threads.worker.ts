/** A serving thread for tests: runs tasks with its own store, and sends the results. */
import { parentPort, workerData } from 'node:worker_threads'
import { attachStore } from '../../src/store/engine/sqlite.ts'
import { createIds } from '../../src/store/ids.ts'
import type { StoreHandle } from '../../src/store/served-store.ts'
import { aHold, aSettle, SECRET } from './requests.ts'

export interface ServingOptions {
  readonly handle: StoreHandle
  readonly accountId: string
}

export type Change = 'revoke' | 'rotate' | 'limit' | 'freeze' | 'plan'

/** The result of a thread's lookup of a key. */
export interface FoundKey {
  readonly found: string
  readonly models?: readonly string[] | null
  readonly frozen?: boolean
  readonly plan?: string
}

/** A task for the thread. */
export type Task =
  /** Makes `times` holds at once, each of `amount`. */
  | { readonly do: 'hold'; readonly times: number; readonly amount: bigint }
  /** Settles all its holds. */
  | { readonly do: 'settle'; readonly amount: bigint }
  /** Holds, checkpoints and settles without end, and sends the id of each settled exchange. */
  | { readonly do: 'repeat' }
  | { readonly do: 'spool'; readonly amount: bigint }
  | { readonly do: 'find'; readonly token: string }
  /** Changes what a key may do. */
  | { readonly do: 'change'; readonly how: Change; readonly key: string }
  | { readonly do: 'close' }

const { handle, accountId } = workerData as ServingOptions
const clock = { now: () => Date.now() }
const store = await attachStore(handle, { secret: SECRET, clock })
const ids = createIds(clock, { lane: handle.lane })
const held: string[] = []
const port = parentPort!

async function hold(amount: bigint): Promise<boolean> {
  const exchange = ids.next('req_')
  const result = await store.ledger.hold(aHold({ accountId, exchange, amount }))
  if (result.held) held.push(exchange)
  return result.held
}

async function repeat(): Promise<never> {
  for (;;) {
    const exchange = ids.next('req_')
    const result = await store.ledger.hold(aHold({ accountId, exchange, amount: 100n }))
    if (!result.held) throw new Error('this test needs more credit')
    await store.ledger.checkpoint([{ exchange, amount: 7n, usage: { input: 1, output: 1 } }])
    await store.ledger.settle(aSettle({ exchange, amount: 9n }))
    port.postMessage(exchange)
  }
}

async function find(token: string): Promise<FoundKey> {
  const found = await store.keys.find(token, clock.now())
  if (found.found !== 'live') return { found: found.found }
  const { key, account } = found
  return { found: 'live', models: key.models, frozen: account.frozen, plan: account.plan }
}

function change(how: Change, key: string): Promise<unknown> {
  switch (how) {
    case 'revoke':
      return store.revokeKey(key)
    case 'rotate':
      return store.rotateKey(key, 0)
    case 'limit':
      return store.changeKey({ id: key, models: ['one'] })
    case 'freeze':
      return store.freeze(accountId, true)
    case 'plan':
      return store.setPlan(accountId, 'team')
  }
}

async function act(task: Task): Promise<unknown> {
  switch (task.do) {
    case 'hold':
      return (await Promise.all(Array.from({ length: task.times }, () => hold(task.amount)))).filter(Boolean).length
    case 'settle':
      return Promise.all(
        held.splice(0).map(exchange => store.ledger.settle(aSettle({ exchange, amount: task.amount }))),
      )
    case 'repeat':
      return repeat()
    case 'spool':
      return held.map(exchange => store.ledger.spool(aSettle({ exchange, amount: task.amount })))
    case 'find':
      return find(task.token)
    case 'change':
      return change(task.how, task.key)
    case 'close':
      await store.close()
      return 'closed'
  }
}

port.on('message', (task: Task) => {
  void act(task).then(
    result => port.postMessage(result),
    (error: Error) => port.postMessage(error.message),
  )
})
port.postMessage('ready')
