/** A thread that takes and gives back shared slots as often as it can, and sends the largest number inside. */
import { parentPort, workerData } from 'node:worker_threads'
import { SharedSlots, type SlotMemory } from '../../src/state/shared-slots.ts'
import { SECRET } from '../store/requests.ts'

const { memory, index, names, inside, limit, rounds } = workerData as {
  memory: SlotMemory
  index: number
  names: readonly string[]
  inside: Int32Array<SharedArrayBuffer>
  limit: number
  rounds: number
}
const slots = new SharedSlots({ memory, index, secret: SECRET })
let most = 0
let entered = 0
/** The number of slots that are kept for a while, so that several threads are inside with any number of processors. */
const KEPT = 6
const kept: number[] = []
const leave = (place: number) => {
  Atomics.sub(inside, place, 1)
  slots.leave(names[place]!)
}
for (let round = 0; entered < rounds; round++) {
  const place = round % names.length
  if (slots.enter(names[place]!, limit) === 0) {
    if (kept.length > 0) leave(kept.shift()!)
    continue
  }
  entered++
  most = Math.max(most, Atomics.add(inside, place, 1) + 1)
  kept.push(place)
  if (kept.length > KEPT) leave(kept.shift()!)
}
for (const place of kept) leave(place)
parentPort!.postMessage(most)
