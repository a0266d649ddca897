/** Trouble in a process: one alert for each episode. */
import { expect, test } from 'vitest'
import { Episodes, type ProviderState } from '../../src/alerts/episodes.ts'

const provider = (states: readonly string[], refused = 0): ProviderState => ({
  name: 'p',
  credentials: { total: 2, refused },
  targets: states.map((state, index) => ({ target: `p/${index}`, state })),
})

test.each<
  [string, rounds: readonly (readonly [ProviderState, string | null])[], begun: readonly (readonly string[])[]]
>([
  ['all is well', [[provider(['well']), null]], [[]]],
  ['a provider without targets', [[provider([]), null]], [[]]],
  [
    'a target that fails, is tried, fails again, and recovers before it fails anew',
    ['ejected', 'half_open', 'ejected', 'limited', 'well', 'ejected'].map(state => [provider([state, 'well']), null]),
    [['breaker_open p/0'], [], [], [], [], ['breaker_open p/0']],
  ],
  ['a limited target', [[provider(['limited']), null]], [[]]],
  [
    'a provider whose targets fail one after the other',
    [
      [provider(['ejected', 'well']), null],
      [provider(['half_open', 'ejected']), null],
      [provider(['half_open', 'well']), null],
      [provider(['ejected', 'ejected']), null],
    ],
    [['breaker_open p/0'], ['breaker_open p/1', 'provider_down p'], [], ['breaker_open p/1', 'provider_down p']],
  ],
  [
    'credentials that are refused one after the other',
    [
      [provider(['well'], 1), null],
      [provider(['well'], 2), null],
      [provider(['well'], 1), null],
      [provider(['well'], 0), null],
      [provider(['well'], 1), null],
    ],
    [['credential_refused p 1'], ['credential_refused p 2'], [], [], ['credential_refused p 1']],
  ],
  [
    'files that are edited while they are invalid',
    [
      [provider(['well']), 'one'],
      [provider(['well']), 'two'],
      [provider(['well']), null],
      [provider(['well']), 'one'],
    ],
    [['reload_invalid '], [], [], ['reload_invalid ']],
  ],
])('%s', (_name, rounds, begun) => {
  const episodes = new Episodes('gate-1')
  const found = rounds.map(([each, problem], at) => episodes.begun({ providers: [each], problem }, at))
  expect(found.map(alerts => alerts.map(({ kind, id }) => `${kind} ${id.split(' ').slice(2, -1).join(' ')}`))).toEqual(
    begun,
  )
  const all = found.flat()
  expect(new Set(all.map(({ id }) => id)).size).toBe(all.length)
  expect(all.every(({ data }) => data['replica'] === 'gate-1')).toBe(true)
})
