/** A thread that takes from shared buckets as often as it can, and sends the number of grants; or dies with a lock. */
import { parentPort, workerData } from 'node:worker_threads'
import { type BucketMemory, SharedBuckets } from '../../src/state/shared-buckets.ts'
import { SECRET } from '../store/requests.ts'

const { memory, index, takes, names, dies } = workerData as {
  memory: BucketMemory
  index: number
  takes: number
  names: readonly string[]
  dies: boolean
}
let isDying = false
const clock = {
  now() {
    // Ends the thread in the middle of a change.
    if (isDying) process.exit(3)
    return 1
  },
}
const buckets = new SharedBuckets({ memory, clock, index, secret: SECRET })
const granted = names.map(() => 0)
for (let count = 0; count < takes; count++) {
  const name = count % names.length
  if (buckets.take(names[name]!, { capacity: 1000, refillPerMs: 0 }, 1).taken) granted[name]!++
}
isDying = dies
if (dies) buckets.take(names[0]!, { capacity: 1000, refillPerMs: 0 }, 1)
parentPort!.postMessage(granted)
