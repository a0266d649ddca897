/** A thread that sets and gets shared texts as often as it can. A text repeats its name, and has its length. */
import { parentPort, workerData } from 'node:worker_threads'
import { SharedTexts, type TextMemory } from '../../src/state/shared-texts.ts'
import { seeded } from '../helpers/seeded.ts'
import { SECRET } from '../store/requests.ts'

const { memory, index, rounds } = workerData as { memory: TextMemory; index: number; rounds: number }
const random = seeded(index)
const texts = new SharedTexts({ memory, clock: { now: () => 1 }, index, secret: SECRET })
const wrong: string[] = []
let found = 0
for (let round = 0; round < rounds; round++) {
  const name = `name ${Math.floor(random() * 50)}`
  const move = random()
  if (move < 0.4) {
    const times = 1 + Math.floor(random() * 40)
    texts.set(name, `${times} ${`${name};`.repeat(times)}`, 1000)
  } else if (move < 0.45) texts.delete(name)
  else {
    const text = texts.get(name)
    if (text === undefined) continue
    found++
    const times = Number(text.slice(0, text.indexOf(' ')))
    if (text !== `${times} ${`${name};`.repeat(times)}`) wrong.push(`${name}: ${text}`)
  }
}
parentPort!.postMessage({ found, wrong })
