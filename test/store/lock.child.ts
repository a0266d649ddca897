/** A process that takes the lock of a store, prints `locked`, and keeps the lock until it is killed: node lock.child.ts STORE [serve] */
import { writeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { takeLock } from '../../src/store/files/lock.ts'

// No variable refers to the lock: garbage collection must not release it.
const purpose = process.argv[3] === 'serve' ? 'serve' : 'command'
await takeLock(process.argv[2]!, { now: () => 1_800_000_000_000 }, purpose)
setFlagsFromString('--expose-gc')
for (let round = 0; round < 3; round++) {
  runInNewContext('gc')()
  await new Promise(resolve => setImmediate(resolve))
}
writeSync(1, 'locked\n')
process.stdin.resume()
