import { expect, test } from 'vitest'
import type { Layer } from './parts.ts'
import { ROOT } from './repository.ts'
import { wrongFiles } from './right-command.ts'

const HERE = 'test/helpers/right-command.test.ts'
const SYSTEM = 'test/helpers/leftovers.system.test.ts'

test.each<[layer: Layer, part: string | undefined, args: string[], says: string | null]>([
  ['unit', undefined, [HERE, `${ROOT}${HERE}`], null],
  ['unit', undefined, [`./${HERE}`, '-t', 'a-name.ts', '--update'], null],
  ['unit', undefined, [HERE, SYSTEM], `npm run test:system -- ${SYSTEM}`],
  ['system', undefined, [SYSTEM], null],
  ['system', undefined, ['test/helpers', HERE], `npm test -- ${HERE}`],
  ['system', undefined, ['store/money/ledger.engines.test.ts'], null],
  ['unit', undefined, ['store/money/ledger.engines.test.ts'], null],
  ['full', 'ledger', ['test/store/log-cut.test.ts'], null],
  ['full', 'kills', ['test/store/log-cut.test.ts'], 'npm run test:full -- ledger test/store/log-cut.test.ts'],
  ['unit', undefined, ['test/helpers/nothing.test.ts'], 'no test file has this path: test/helpers/nothing.test.ts'],
])('%s %s: %j', (layer, part, args, says) => {
  const found = wrongFiles(args, layer, part)
  if (says === null) expect(found).toEqual([])
  else expect(found).toEqual([expect.stringContaining(says)])
})
