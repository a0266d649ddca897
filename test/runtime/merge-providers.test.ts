/** Combines the providers of several threads or replicas in one view. */
import { expect, test } from 'vitest'
import type { ProviderView } from '../../src/api/views.ts'
import { mergeProviders } from '../../src/runtime/operator-views.ts'

type Target = ProviderView['targets'][number]

const target = (fields: Partial<Target>): Target => ({
  target: 'p/m',
  models: ['m'],
  state: 'well',
  until: null,
  inflight: 1,
  failures_in_a_row: 0,
  attempts: 10,
  failed: 2,
  latency_ms: 100,
  ...fields,
})

const provider = (targets: readonly Target[], name = 'p'): ProviderView => ({
  name,
  dialect: 'openai',
  base_url: 'https://p',
  credentials: { total: 2, good: 2, refused: 0 },
  targets: [...targets],
})

test('figures are summed; latency is weighted by attempts', () => {
  const fields = [{ latency_ms: 100 }, { latency_ms: 100 }, { latency_ms: 400, attempts: 40 }, { latency_ms: null }]
  const [merged] = mergeProviders(fields.map(each => [provider([target(each)])]))
  expect(merged!.targets).toEqual([target({ inflight: 4, attempts: 70, failed: 8, latency_ms: 300 })])
})

test('the worst state is shown, with its latest end', () => {
  const ejected = (until: string) => target({ state: 'ejected', until })
  const all = [target({}), ejected('2026-01-01T00:00:01.000Z'), ejected('2026-01-01T00:00:09.000Z'), target({})]
  const [merged] = mergeProviders(all.map(each => [provider([each])]))
  expect(merged!.targets).toMatchObject([{ state: 'ejected', until: '2026-01-01T00:00:09.000Z', inflight: 4 }])
})

test('a provider or target of only one view is shown too', () => {
  const merged = mergeProviders([
    [provider([target({})])],
    [provider([target({ target: 'p/new' })]), provider([target({})], 'new')],
  ])
  expect(merged.map(({ name, targets }) => [name, targets.map(each => each.target)])).toEqual([
    ['p', ['p/m', 'p/new']],
    ['new', ['p/m']],
  ])
})
