import { expect, test } from 'vitest'
import { BUILT_IN } from '../../src/loader/builtin.ts'
import { runsDry } from '../../src/simulate/steps.ts'

test('built-in plugins may run dry if they neither query nor notify an outside service', () => {
  const not = BUILT_IN.filter(plugin => !runsDry({ plugin, foreign: false, settings: {} })).map(({ name }) => name)
  expect(not.sort()).toEqual(['jwt', 'usage-log'])
})

test('middleware from npm never runs dry; a plugin may decide by its settings', () => {
  const plugin = { ...BUILT_IN[0]!, dryRun: ({ url }: { url?: string }) => url === undefined }
  expect(runsDry({ plugin, foreign: false, settings: {} })).toBe(true)
  expect(runsDry({ plugin, foreign: false, settings: { url: 'http://127.0.0.1' } })).toBe(false)
  expect(runsDry({ plugin, foreign: true, settings: {} })).toBe(false)
})
