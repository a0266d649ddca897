/** The kinds of problems: the README has each, and each is used. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { RULES, type Rule } from '../../../src/config/yaml/rules.ts'
import { ROOT, read, tableOf } from '../../helpers/repository.ts'
import { GATEWAY_ROWS } from '../gateway-rows.ts'
import { POLICY_ROWS } from '../policy-rows.ts'
import { openWorkshop } from '../workshop.ts'

const workshop = openWorkshop()
afterAll(() => workshop.close())

test('src/config/README.md has a row for every rule, as the code says it', () => {
  const rows = Object.entries(RULES).map(([rule, words]) => [`\`${rule}\``, words])
  expect(tableOf(read('src/config/README.md'), 'rule')).toEqual(rows)
})

test('every rule is used somewhere', () => {
  const code = readdirSync(join(ROOT, 'src/config'), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts') && !name.endsWith('rules.ts'))
    .map(name => read(`src/config/${name}`))
  const told = Object.keys(RULES).filter(rule => rule !== TOLD_BY_RELOADS)
  const unused = told.filter(rule => !code.some(text => text.includes(`'${rule}'`)))
  expect(unused).toEqual([])
})

/** What a load cannot know, because it is about two configurations. */
const TOLD_BY_RELOADS: Rule = 'needs-restart'

/** In warnings.test.ts. */
const WARNINGS: readonly Rule[] = [
  'unknown-plan',
  'odd-price',
  'other-dialect',
  'no-credential',
  'late-limit',
  'no-effect',
  'missing-finish',
]

/** Those that the rows of the other tests do not bring about, and where they are tested. */
const ELSEWHERE: readonly Rule[] = [
  'unreadable-file',
  'unreachable-step',
  'constant-when',
  ...WARNINGS,
  TOLD_BY_RELOADS,
]

test('the broken files of the other tests bring about every rule', { timeout: 30_000 }, async () => {
  const seen = new Set<Rule>(ELSEWHERE)
  const add = async (files: Parameters<typeof workshop.problems>[0]) => {
    for (const { rule } of await workshop.problems(files)) seen.add(rule)
  }
  for (const [, [, gateway, , more = {}]] of GATEWAY_ROWS) await add({ ...more, gateway })
  for (const [, [, files]] of POLICY_ROWS) await add(typeof files === 'string' ? { standard: files } : files)
  expect(Object.keys(RULES).filter(rule => !seen.has(rule as Rule))).toEqual([])
})
