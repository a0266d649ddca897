/** Each broken configuration has the expected problem at the expected position. The README has every rule, and every rule is used. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { Problem } from '../../src/config/yaml/problem.ts'
import { RULES, type Rule } from '../../src/config/yaml/rules.ts'
import { ROOT, read, tableOf } from '../helpers/repository.ts'
import { GATEWAY_ROWS } from './gateway-rows.ts'
import { POLICY_ROWS } from './policy-rows.ts'
import { expectProblems, openWorkshop } from './workshop.ts'

const workshop = openWorkshop()
afterAll(() => workshop.close())

test('src/config/README.md has a row for every rule, with the text of the code', () => {
  const rows = Object.entries(RULES).map(([rule, words]) => [`\`${rule}\``, words])
  expect(tableOf(read('src/config/README.md'), 'rule')).toEqual(rows)
})

test('every rule is used somewhere', () => {
  const code = readdirSync(join(ROOT, 'src/config'), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts') && !name.endsWith('rules.ts'))
    .map(name => read(`src/config/${name}`))
  const ofLoad = Object.keys(RULES).filter(rule => !REPORTED_LATER.includes(rule as Rule))
  const unused = ofLoad.filter(rule => !code.some(text => text.includes(`'${rule}'`)))
  expect(unused).toEqual([])
})

/** Rules that a load cannot check, because they concern two configurations or another machine. */
const REPORTED_LATER: readonly Rule[] = ['needs-restart', 'lost-server']

/** Tested in test/cli/warnings.test.ts and in auto-values.test.ts. */
const WARNINGS: readonly Rule[] = [
  'unknown-plan',
  'odd-price',
  'other-dialect',
  'no-credential',
  'late-limit',
  'no-effect',
  'missing-finish',
  'old-prices',
  'model-ends',
]

/** Rules without a row here; other tests have them. */
const ELSEWHERE: readonly Rule[] = [
  'unreadable-file',
  'unreachable-step',
  'constant-when',
  ...WARNINGS,
  ...REPORTED_LATER,
]

const seen = new Set<Rule>(ELSEWHERE)
function see(problems: readonly Problem[]) {
  for (const { rule } of problems) seen.add(rule)
}

test.each(GATEWAY_ROWS)('%s', async (_, [, gateway, says, more = {}]) => {
  see(await expectProblems(workshop, { ...more, gateway }, says))
})

test.each(POLICY_ROWS)('%s', async (_, [, given, says]) => {
  see(await expectProblems(workshop, typeof given === 'string' ? { standard: given } : given, says))
})

test('every rule has a broken file', () => {
  expect(Object.keys(RULES).filter(rule => !seen.has(rule as Rule))).toEqual([])
})
