/** Runs cells of the matrix: a gateway and its providers for some of them at a time, and a client. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Receipt } from '#contract'
import {
  type FakeProvider,
  type FaultMode,
  speak,
  startFakeProvider,
  type Unreachable,
} from '../helpers/fake-provider.ts'
import { temporaryDirectory } from '../helpers/gateway.ts'
import { FIVE_STEPS, type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'
import { until } from '../helpers/until.ts'
import type { Voice } from '../helpers/voices/index.ts'
import { CAP } from './fault-table.ts'
import type { MatrixFault } from './matrix-faults.ts'
import type { MatrixResult } from './matrix-table.ts'
import type { ChatClient, ClientResult, Wire } from './plain-client.ts'

export interface Cell {
  readonly title: string
  readonly fault: MatrixFault
  readonly mode: FaultMode
  readonly voice: Voice
  /** The dialect of the second target; null if there is only one target. */
  readonly spare: Voice | null
  readonly expected: MatrixResult | null
}

/** The key of the providers. */
export const CANARY = 'sk-provider-canary-0123456789abcdef'

export interface CellResult extends Wire {
  readonly ms: number
  /** The most tokens that the gateway may count for the prompt. */
  readonly promptMost: number
  /** The answer as the client understood it. */
  readonly client: ClientResult
  readonly receipt: Receipt | undefined
  /** How the request ended at the provider, and the number of requests there. */
  readonly how: string | null
  readonly asked: number
  /** Content of the next answer of the same provider; null if it cannot be called again. */
  readonly next: string | null
  /** Whether the next request arrived on the same connection. */
  readonly isSameConnection: boolean
  /** Whether the provider got the request of its dialect, with the key. */
  readonly keyShown: boolean
  readonly spareAsked: number
}

/** The facts about a batch after all of its cells. */
export interface BatchResult {
  readonly cells: ReadonlyMap<Cell, CellResult>
  readonly requests: number
  readonly credit: bigint
  readonly balance: { readonly posted: bigint; readonly held: bigint }
  readonly verify: { readonly events: number; readonly openHolds: number; readonly violations: readonly unknown[] }
  readonly log: string
  readonly exitCode: number
}

/** Instead of a free port, which could be assigned to a listener here, one that the kernel assigns to no process. */
const REFUSED_URL = 'http://127.0.0.1:1'
const LATE = { connect: '500ms', first_byte: '1s', idle: '1s' }
/** Where no deadline is tested, a busy machine must not reach one. */
const PATIENT = { first_byte: '60s', idle: '60s', total: '60s' }
/** Faults that only the deadline for the whole answer ends. */
const UNTIL_TOTAL = /^F11|^F29/
const AT_ONCE = 16

/** The retries that a gateway allows before it has seen many exchanges: a limit for simultaneous fallbacks. */
export const MAX_FALLBACKS = 20

/** Whether the provider keeps the gateway waiting until a deadline. */
export function isLate({ expected }: Pick<Cell, 'expected'>): boolean {
  return expected !== null && expected.end !== 'answer' && expected.code === 'upstream_timeout'
}

interface ProviderConnection {
  readonly cell: Cell
  readonly name: string
  readonly url: string
  readonly provider: FakeProvider | null
  readonly spare: FakeProvider | null
  readonly unreachable: Unreachable | null
}

/** All cells of a batch have a spare target, or none has. */
export async function runBatch(cells: readonly Cell[], client: ChatClient): Promise<BatchResult> {
  const providerConnections = await Promise.all(cells.map(open))
  const attempts = cells[0]!.spare ? 2 : 1
  const steps = FIVE_STEPS.map(step =>
    (step as { use: string }).use === 'route' ? { use: 'route', with: { order: 'listed', attempts } } : step,
  )
  const gateway = await startInProcess({ credit: '100', steps, yaml: await configuration(providerConnections) })
  const credit = gateway.balance().posted
  const seen = new Map<Cell, CellResult>()
  const runCells = (some: ProviderConnection[]) =>
    forAll(
      some,
      async providerConnection =>
        void seen.set(providerConnection.cell, await runCell(gateway, providerConnection, client)),
    )
  // Cells with deadlines run separately: creating a gzip bomb must not delay their clock.
  await runCells(providerConnections.filter(({ cell }) => isLate(cell)))
  await runCells(providerConnections.filter(({ cell }) => !isLate(cell)))
  const { store } = gateway.running
  const result = { balance: gateway.balance(), verify: store.reads.verify(), log: JSON.stringify(gateway.log) }
  const exitCode = await gateway.stop()
  await connectionsEnded(providerConnections)
  for (const { provider, spare, unreachable } of providerConnections) {
    await Promise.all([provider?.close(), spare?.close(), unreachable?.close()])
  }
  return {
    cells: seen,
    requests: cells.length + [...seen.values()].filter(({ next }) => next !== null).length,
    credit,
    ...result,
    exitCode,
  }
}

async function open(cell: Cell, index: number): Promise<ProviderConnection> {
  const { fault, mode, voice } = cell
  const unreachable = fault.open && !fault.title.startsWith('F01') ? await fault.open() : null
  const script = fault.make && [fault.make(mode, voice), speak(voice, mode, { tokens: ['again'] })]
  const provider = script ? await startFakeProvider({ script }) : null
  const fine = cell.spare && speak(cell.spare, mode, { tokens: ['fine'] })
  return {
    cell,
    name: `m${index}`,
    url: provider?.url ?? unreachable?.url ?? REFUSED_URL,
    provider,
    spare: fine ? await startFakeProvider({ script: () => fine }) : null,
    unreachable,
  }
}

/** A provider and a model for each cell, and a second provider if needed. */
async function configuration(providerConnections: readonly ProviderConnection[]): Promise<Record<string, unknown>> {
  const keyFile = join(await temporaryDirectory(), 'key')
  await writeFile(keyFile, CANARY)
  const key = `\${file:${keyFile}}`
  const provider = ({ dialect }: Voice, url: string, timeouts: object) => ({
    dialect,
    // Ollama has its API at the root of the server.
    base_url: dialect === 'ollama' ? url : `${url}/v1`,
    allow_insecure: true,
    // A key pair signs each request; other methods send the key itself.
    ...(dialect === 'bedrock'
      ? { aws: { access_key_id: key, secret_access_key: key, region: 'eu-central-1' } }
      : { api_key: key }),
    timeouts,
  })
  const late = (cell: Cell) => ({ ...LATE, total: UNTIL_TOTAL.test(cell.title) ? '1s' : '60s' })
  const target = (name: string) => ({ provider: name, model: 'claude-upstream-model' })
  return {
    providers: Object.fromEntries(
      providerConnections.flatMap(({ cell, name, url, spare }) => [
        [name, provider(cell.voice, url, isLate(cell) ? late(cell) : PATIENT)],
        ...(spare && cell.spare ? [[`${name}-spare`, provider(cell.spare, spare.url, PATIENT)]] : []),
      ]),
    ),
    models: Object.fromEntries(
      providerConnections.map(({ name, spare }) => [
        name,
        {
          targets: [target(name), ...(spare ? [target(`${name}-spare`)] : [])],
          price: PRICE,
          context: 8192,
          max_output: CAP,
        },
      ]),
    ),
  }
}

/** Sends one request, and if no other target could answer, a second one. */
async function runCell(
  gateway: InProcess,
  { cell, name, provider, spare }: ProviderConnection,
  client: ChatClient,
): Promise<CellResult> {
  const startedAt = performance.now()
  let wire: Wire | undefined
  const result = await client(gateway, name, cell.mode, seen => {
    wire = seen
  })
  if (!wire) throw new Error(`${name} got no answer`)
  const ms = performance.now() - startedAt
  const [first] = provider?.requests ?? []
  const how = first && provider ? (await provider.waitForClose(first)).how : null
  const asked = provider?.requests.length ?? 0
  const again = provider && !spare ? await client(gateway, name, cell.mode) : null
  return {
    ...wire,
    ms,
    promptMost: Buffer.byteLength(wire.sent) + 16,
    client: result,
    receipt: gateway.running.store.reads.findReceipt(wire.headers.get('x-request-id') ?? ''),
    how,
    asked,
    next: again && ('content' in again ? again.content : String(again.raised)),
    isSameConnection: first !== undefined && first.connection === provider?.requests[1]?.connection,
    keyShown: first !== undefined && JSON.stringify(first.headers).includes(CANARY),
    spareAsked: spare?.requests.length ?? 0,
  }
}

/** Resolves when a gateway that has ended has left no connection to a provider. */
async function connectionsEnded(providerConnections: readonly ProviderConnection[]): Promise<void> {
  const providers = providerConnections.flatMap(({ provider, spare }) => [provider ?? [], spare ?? []]).flat()
  const open = () => providers.reduce((sum, provider) => sum + provider.openConnections, 0)
  await until(() => expect(open()).toBe(0))
}

async function forAll(
  some: ProviderConnection[],
  visit: (providerConnection: ProviderConnection) => Promise<void>,
): Promise<void> {
  const work = async () => {
    for (let providerConnection = some.shift(); providerConnection; providerConnection = some.shift())
      await visit(providerConnection)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
}
