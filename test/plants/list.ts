/**
 * For each promise a fault that breaks it, and the files of `npm test` that find the fault. Promises are I1 to I13 of src/store/README.md
 * and the rows of "What it promises" in README.md. test/README.md has this list as a table.
 */
import type { Change } from '../simulation/plant.ts'
import { PLANTED } from '../simulation/planted.ts'

export interface Plant {
  /** `I1`, or the first words of a row in README.md. */
  readonly promise: string
  readonly fault: string
  readonly changes: readonly Change[]
  /** Files of `npm test`; at least one fails. */
  readonly tests: readonly string[]
}

const LEDGER = 'src/store/money/ledger.ts'
const CHARGE = 'plugins/credits/charge.ts'

const plant = (
  promise: string,
  fault: string,
  [file, old, planted]: readonly [file: string, old: string, planted: string],
  ...tests: readonly string[]
): Plant => ({ promise, fault, changes: [{ file, old, new: planted }], tests })

/** The change of a bug that the simulation finds too. */
function changeOf(name: string): readonly [string, string, string] {
  const [change] = PLANTED.find(each => each.name === name)!.changes
  return [change!.file, change!.old, change!.new]
}

const LEDGER_TESTS = 'test/store/money/ledger.engines.test.ts'
const CREDITS_TESTS = 'plugins/credits/index.test.ts'
const CHARGE_TESTS = 'plugins/credits/charge.test.ts'
const MATRIX = 'test/gateway/matrix.test.ts'

export const PLANTS: readonly Plant[] = [
  plant('I1', 'a hold is written without enough credit', changeOf('no-credit-check'), LEDGER_TESTS),
  plant('I2', 'a settle does not release its hold', changeOf('refund-forgotten'), LEDGER_TESTS),
  plant(
    'I3',
    'a credit is posted twice',
    [LEDGER, 'SET posted = posted + ?1 WHERE', 'SET posted = posted + 2 * ?1 WHERE'],
    'test/store/people/accounts.engines.test.ts',
  ),
  plant('I4', 'the second settle of an exchange posts again', changeOf('settled-twice'), LEDGER_TESTS),
  plant(
    'I5',
    'a charge may exceed its hold',
    [CHARGE, 'const amount = full > hold ? hold : full', 'const amount = full'],
    CHARGE_TESTS,
  ),
  plant(
    'I6',
    'a settle takes twice its charge from the balance',
    [LEDGER, 'balance.posted -= amount\n    balances', 'balance.posted -= 2n * amount\n    balances'],
    LEDGER_TESTS,
  ),
  plant('I7', 'the request is sent while its hold is being written', changeOf('dispatch-before-hold'), CREDITS_TESTS),
  plant(
    'I8',
    'recovery forgets holds without a checkpoint',
    changeOf('recovery-forgets-holds-without-checkpoints'),
    'test/store/money/recovery.engines.test.ts',
  ),
  plant('I9', 'a client that disconnects is not charged', changeOf('no-settle-on-leaving'), CREDITS_TESTS),
  plant(
    'I10',
    'an error before the answer is charged',
    [CHARGE, "if (!delivered) return nothing('released')", ''],
    CHARGE_TESTS,
  ),
  plant(
    'I11',
    'usage counts half of each charge',
    ['src/store/money/usage.ts', 'sum.charged += more.charged', 'sum.charged += more.charged / 2n'],
    LEDGER_TESTS,
    'test/store/money/reports.engines.test.ts',
  ),
  plant(
    'I12',
    'the cap of a key ignores the holds of the key',
    ['src/store/money/budgets.ts', 'used.spent + used.held + more > used.amount', 'used.spent + more > used.amount'],
    'test/store/caps.engines.test.ts',
  ),
  plant(
    'I12',
    'a settle does not release its hold in the budgets',
    ['src/store/money/budgets.ts', 'charge(use, held, charged)', 'charge(use, 0n, charged)'],
    'test/store/budgets.engines.test.ts',
  ),
  plant(
    'I13',
    'lost commits go unnoticed at a start',
    [
      'src/store/money/commit-count.ts',
      'if (noted.commits <= count) return null',
      'if (noted.commits < 1e9) return null',
    ],
    'test/store/money/commit-count.test.ts',
  ),
  plant(
    'Exact money',
    'an amount is computed as a floating-point number',
    changeOf('price-as-float'),
    'test/contract/units.test.ts',
  ),
  plant(
    'Exact money',
    'the end of an answer is sent before its charge is on disk',
    changeOf('finish-before-settle'),
    'test/gateway/stream-manners.test.ts',
  ),
  plant(
    'Nothing is silently ignored',
    'the configuration may have unknown keys',
    ['src/config/schema-parts.ts', 'additionalProperties: false', 'additionalProperties: true'],
    'test/config/load.test.ts',
  ),
  plant(
    'The order in the file is the order of execution',
    'steps run in the reverse order',
    ['src/loader/plan.ts', 'const planned = steps.map((step)', 'const planned = steps.toReversed().map((step)'],
    'test/request/pipeline/runner.test.ts',
  ),
  plant('Honest streams', 'a failed stream ends with [DONE]', changeOf('done-behind-error'), MATRIX),
  plant('Honest streams', 'a broken stream ends cleanly', changeOf('broken-stream-ends-cleanly'), MATRIX),
  plant(
    'Honest streams',
    'the request to the provider continues after a disconnect',
    changeOf('abort-not-passed'),
    'test/gateway/leaving.test.ts',
  ),
  plant(
    'Errors that SDKs understand',
    'an error that cannot be retried does not say so',
    ['src/contract/errors.ts', "headers['x-should-retry'] = 'false'", ''],
    MATRIX,
  ),
  plant(
    'Secrets stay secret',
    'error texts of a provider are not searched for credentials',
    [
      'src/providers/dialects/failure.ts',
      "redact(beginning(text, MAX_READ)).replace(SIGNATURE, '[secret]')",
      'beginning(text, MAX_READ)',
    ],
    'test/providers/dialects/failure.test.ts',
    'test/gateway/secrets-dialects.test.ts',
  ),
  plant(
    'Secrets stay secret',
    'keys are stored in plain text',
    [
      'src/store/people/token.ts',
      "return createHmac('sha256', key).update(token).digest()",
      'return Buffer.from(token)',
    ],
    'test/store/people/keys.engines.test.ts',
    'test/store/people/token.test.ts',
  ),
]
