import { expect, test } from 'vitest'
import { BUILT_IN } from '../../src/loader/builtin.ts'
import { runsDry } from '../../src/simulate/steps.ts'

test('of the plugins that come with the gateway those may run dry that ask and tell nobody outside', () => {
  const not = BUILT_IN.filter(plugin => !runsDry({ plugin, foreign: false, settings: {} })).map(({ name }) => name)
  expect(not.sort()).toEqual(['jwt', 'usage-log'])
})

test('a middleware from npm never does; a plugin may decide by its settings', () => {
  const plugin = { ...BUILT_IN[0]!, dryRun: ({ url }: { url?: string }) => url === undefined }
  expect(runsDry({ plugin, foreign: false, settings: {} })).toBe(true)
  expect(runsDry({ plugin, foreign: false, settings: { url: 'http://127.0.0.1' } })).toBe(false)
  expect(runsDry({ plugin, foreign: true, settings: {} })).toBe(false)
})
