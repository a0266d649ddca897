/**
 * A process that opens a store and requests one operation without waiting for it. The process must live until the answer has arrived, and
 * no longer.
 *
 *     node idle.child.ts STORE
 */
import { openStore } from '../../src/store/engine/sqlite.ts'
import { SECRET } from './requests.ts'

const clock = { now: () => Date.now() }
const store = await openStore({ url: `sqlite:${process.argv[2]}`, secret: SECRET, clock })
store.createAccount({ name: 'alice' }).then(({ name }) => console.log(name))
