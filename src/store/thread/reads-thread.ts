/** A thread with a read-only connection. It serves threads that must not block on reads. Started by remote-reads.ts. */
import { parentPort, workerData } from 'node:worker_threads'
import { loadConnector } from '../engine/database.ts'
import { createReplicaReads } from '../engine/replicas-service.ts'
import { createRecoveryReads } from '../money/recovery.ts'
import { createSecretFinder } from '../people/keys.ts'
import { createResponseReads } from '../responses/responses-service.ts'
import { createReads } from '../store-reads.ts'
import type { AllReads, ReadRequest, ReadsParts, Shape } from './remote-reads.ts'

const { place, connector, hmacKey, isQuick } = workerData as ReadsParts
const port = parentPort!
const connect = await loadConnector(connector)
const database = connect(place, { readOnly: true, isQuick })
// Each request has the time, so that only the serving thread's clock counts.
let nowMs = 0
const reads: AllReads = {
  store: createReads({ database, hmacKey, clock: { now: () => nowMs }, path: null }),
  secrets: { find: createSecretFinder(database, hmacKey) },
  responses: createResponseReads(database),
  recovery: createRecoveryReads(database),
  replicas: createReplicaReads(database),
}

port.on('message', ({ id, path, values, nowMs: at }: ReadRequest) => {
  nowMs = at
  const read = path.reduce<unknown>((part, name) => (part as Record<string, unknown>)[name], reads) as Read
  const onProgress = (...progress: unknown[]) => port.postMessage({ id, progress })
  try {
    port.postMessage({ id, value: read(...values.map(value => (value === CALLBACK_MARKER ? onProgress : value))) })
  } catch (error) {
    const { name, message, code } = error as Error & { code?: unknown }
    port.postMessage({ id, error: { name: (error as Error).constructor.name || name, message, code: code ?? null } })
  }
})
port.postMessage({ id: 0, value: shapeOf(reads) })

function shapeOf(part: object): Shape {
  const names = Object.entries(part)
  return Object.fromEntries(names.map(([name, inner]) => [name, typeof inner === 'function' ? null : shapeOf(inner)]))
}

type Read = (...values: unknown[]) => unknown
/** Replaces a function, which cannot be sent. As in remote-reads.ts. */
const CALLBACK_MARKER = '\0callback'
