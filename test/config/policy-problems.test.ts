/** Each policy that cannot work has its problem, at its place and with its words. */
import { afterAll, expect, test } from 'vitest'
import { sentence } from '../../src/config/yaml/problem.ts'
import { POLICY_ROWS } from './policy-rows.ts'
import { markIn, openWorkshop } from './workshop.ts'

const workshop = openWorkshop()
afterAll(() => workshop.close())

test.each(POLICY_ROWS)('%s', async (name, [, given, says]) => {
  const files = typeof given === 'string' ? { standard: given } : given
  const problems = await workshop.problems(files)
  const found = problems.map(each => `${each.file}:${each.line}:${each.column}: ${sentence(each)}`)
  const short = found.map(line => line.replaceAll(/\(\/[^)]*\/policies/g, '(policies'))
  const at = markIn(files)
  expect(at, 'the row has a mark').not.toBeNull()
  const matching = short.filter(line => line.startsWith(`${at}: `) && line.includes(says))
  expect(matching, `wanted ${at}: …${says}…\nfound\n${short.join('\n')}`).toHaveLength(1)
  // An order that cannot work may also not fit the route, which is one more thing to know.
  if (!/^(ORDER|FIT)/.test(name)) expect(short, short.join('\n')).toHaveLength(1)
})
