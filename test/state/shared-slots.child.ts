/** A thread that takes and gives back shared slots as often as it can, and tells the most that it ever saw inside. */
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
/** So many are kept for a while: more than one thread is inside, however few processors there are. */
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
