/** Import of LiteLLM's budgets: which are converted, and which are dropped for which reason. */
import { describe, expect, test } from 'vitest'
import { loadPriceCatalog } from '../../src/catalog/price-catalog.ts'
import { problemsOf } from '../../src/cli/import.ts'
import { importLitellm } from '../../src/cli/import-litellm/index.ts'
import { filesOf } from '../../src/cli/import-litellm/render.ts'

const catalog = await loadPriceCatalog(null, [], new Date('2026-11-28'))
const CHAT = 'model_list:\n  - { model_name: a, litellm_params: { model: openai/gpt-4o } }\n'
const EMBEDDING = '  - { model_name: e, litellm_params: { model: ollama/e }, model_info: { mode: embedding } }\n'

interface Steps {
  readonly steps: readonly { readonly use: string; readonly with?: { readonly budgets?: readonly object[] } }[]
}

async function importText(settings: string, models = CHAT) {
  const text = `${models}${settings}\n`
  const result = importLitellm(text, 'x.yaml', { catalog, list: null, unpriced: 'free' })
  const policies = result.policies as Readonly<Record<string, Steps>>
  const budgetsOf = (name: string) => policies[name]?.steps.find(({ use }) => use === 'credits')?.with?.budgets
  return {
    standard: budgetsOf('standard'),
    raw: budgetsOf('raw'),
    commands: result.commands,
    remarks: result.remarks.map(({ kind, path, what, why, instead }) => ({ kind, path, what, why, instead })),
    problems: await problemsOf(filesOf(result, 'x.yaml', result.commands), result),
  }
}

const ofKeys = (params: string) => `litellm_settings: { default_key_generate_params: { ${params} } }`
const KEY = 'litellm_settings.default_key_generate_params'

describe('a budget that is not converted', () => {
  test.each<[name: string, settings: string, kind: 'lost' | 'yours', path: string, expected: RegExp]>([
    ['zero', ofKeys('max_budget: 0'), 'lost', `${KEY}.max_budget`, /more than \$0/],
    ['a negative amount', ofKeys('max_budget: -1'), 'lost', `${KEY}.max_budget`, /more than \$0/],
    ['not a number', ofKeys('max_budget: much'), 'lost', `${KEY}.max_budget`, /more than \$0/],
    ['more than the maximum', ofKeys('max_budget: 1e10'), 'lost', `${KEY}.max_budget`, /at most \$9 billion/],
    ['a variable', ofKeys('max_budget: os.environ/B'), 'yours', `${KEY}.max_budget`, /a number is a variable/],
    ['a list', ofKeys('max_budget: [1]'), 'lost', `${KEY}.max_budget`, /must be a text/],
    ['a period alone', ofKeys('budget_duration: 1d'), 'lost', `${KEY}.budget_duration`, /needs an amount/],
    ['a mark alone', ofKeys('soft_budget: 1'), 'lost', `${KEY}.soft_budget`, /a mark needs a budget; at:/],
    [
      'a mark above its budget',
      ofKeys('max_budget: 1, soft_budget: 2'),
      'lost',
      `${KEY}.soft_budget`,
      /from 1% to 100%/,
    ],
    [
      'a period that is a variable',
      ofKeys('max_budget: 1, budget_duration: os.environ/D'),
      'yours',
      `${KEY}.budget_duration`,
      /a period is a variable/,
    ],
    [
      'a word',
      ofKeys('max_budget: 1, budget_duration: often'),
      'lost',
      `${KEY}.budget_duration`,
      /not a duration such as 30d/,
    ],
    [
      'a row that is not a map',
      ofKeys('budget_limits: [1]'),
      'lost',
      `${KEY}.budget_limits[0]`,
      /a row of budget_limits is a map/,
    ],
    [
      'of a model',
      ofKeys('model_max_budget: { a: { budget_limit: 1 } }'),
      'lost',
      `${KEY}.model_max_budget`,
      /covers all models; key create --models/,
    ],
    [
      'of a provider',
      'router_settings: { provider_budget_config: { openai: { budget_limit: 1, time_period: 1d } } }',
      'lost',
      'router_settings.provider_budget_config',
      /a provider and its targets have no budget/,
    ],
    [
      'of tags',
      'litellm_settings: { tag_budget_config: { a: { max_budget: 1, budget_duration: 1d } } }',
      'lost',
      'litellm_settings.tag_budget_config',
      /the same amount for all values; the step tags, and per: tag NAME/,
    ],
    [
      'of end users',
      'litellm_settings: { max_end_user_budget: 1 }',
      'lost',
      'litellm_settings.max_end_user_budget',
      /an end user is a tag; the step tags/,
    ],
    [
      'of a key of a team',
      'litellm_settings: { default_internal_user_params: { teams: [{ team_id: t, max_budget_in_team: 1 }] } }',
      'lost',
      'litellm_settings.default_internal_user_params.teams',
      /created by commands/,
    ],
    [
      'alerts',
      'general_settings: { alert_to_webhook_url: { budget_alerts: [a] } }',
      'lost',
      'general_settings.alert_to_webhook_url',
      /; alerts: in gateway\.yaml/,
    ],
  ])('%s', async (_name, settings, kind, path, expected) => {
    const { standard, commands, remarks, problems } = await importText(settings)
    const of = remarks.filter(remark => remark.path === path && remark.kind === kind)
    expect(of.map(({ why, instead }) => `${why}; ${instead}`)).toEqual([expect.stringMatching(expected)])
    // A dropped soft limit does not remove its budget.
    if (!path.endsWith('soft_budget')) expect(standard).toBeUndefined()
    expect(commands.filter(command => command.includes('budget'))).toEqual([])
    expect(problems).toEqual([])
  })

  test('a deployment has no budget', async () => {
    const row = CHAT.replace('gpt-4o', 'gpt-4o, max_budget: 1, budget_duration: 1d')
    const { remarks } = await importText('', row)
    const lost = remarks.filter(({ kind }) => kind === 'lost')
    expect(lost.map(({ why }) => why)).toEqual(Array(2).fill('a provider and its targets have no budget'))
  })

  test('an unknown time zone: days begin in UTC', async () => {
    const { standard, remarks } = await importText(
      'litellm_settings: { max_budget: 1, budget_duration: 1d, timezone: Mars/North }',
    )
    expect(standard).toEqual([{ per: 'account', amount: '$1', every: 'day' }])
    expect(remarks).toContainEqual(
      expect.objectContaining({ kind: 'lost', path: 'litellm_settings.timezone', why: expect.stringMatching(/UTC/) }),
    )
  })
})

test.each<[duration: string, every: string]>([
  ['1s', 'hour'],
  ['30m', 'hour'],
  ['2h', 'hour'],
  ['12h', 'day'],
  ['2d', 'day'],
  ['14d', 'week'],
  ['90d', 'month'],
  ['2mo', 'month'],
])('a period of %s is not converted, and %s is the nearest', async (duration, every) => {
  const { standard, remarks } = await importText(ofKeys(`max_budget: 1, budget_duration: ${duration}`))
  expect(standard).toBeUndefined()
  expect(remarks).toContainEqual(
    expect.objectContaining({ kind: 'lost', path: `${KEY}.budget_duration`, what: `every: ${every}` }),
  )
})

test.each<[duration: string, every: string, expected: RegExp | null]>([
  ['3600s', 'hour', /by the clock/],
  ['60m', 'hour', /by the clock/],
  ['1h', 'hour', /by the clock/],
  ['24h', 'day', null],
  ['1d', 'day', null],
  ['7d', 'week', null],
  ['1w', 'week', null],
  ['30d', 'month', /old versions of LiteLLM count 30 days/],
  ['1mo', 'month', null],
])('a period of %s becomes one of an %s', async (duration, every, expected) => {
  const { standard, remarks, problems } = await importText(ofKeys(`max_budget: 2.5, budget_duration: ${duration}`))
  expect(standard).toEqual([{ per: 'key', amount: '$2.50', every }])
  const of = remarks.filter(({ path }) => path === `${KEY}.budget_duration`)
  expect(of.map(({ kind, why }) => `${kind}: ${why}`)).toEqual(
    expected === null ? [] : [expect.stringMatching(new RegExp(`^changed: .*${expected.source}`))],
  )
  expect(problems).toEqual([])
})

describe('a budget that is converted', () => {
  const zone = 'Europe/Berlin'
  test.each<[name: string, settings: string, budgets: object[] | undefined, expected: RegExp]>([
    [
      'of the whole proxy: one for each account',
      'max_budget: 1000, budget_duration: 30d, timezone: Europe/Berlin',
      [{ per: 'account', amount: '$1000', every: 'month', zone }],
      /a budget cannot span accounts/,
    ],
    [
      'of the whole proxy for life',
      'max_budget: 1000, timezone: Europe/Berlin',
      [{ per: 'account', amount: '$1000', every: 'life' }],
      /a budget cannot span accounts/,
    ],
    [
      'of users, by the older names',
      'max_internal_user_budget: 5, internal_user_budget_duration: 1h, timezone: Europe/Berlin',
      [{ per: 'caller', amount: '$5', every: 'hour' }],
      /a key, or the subject of a token/,
    ],
    [
      'of users, by both names',
      'max_internal_user_budget: 5, default_internal_user_params: { max_budget: 6, budget_duration: 1w }',
      [{ per: 'caller', amount: '$6', every: 'week' }],
      /default_internal_user_params has precedence/,
    ],
    [
      'of keys, with several periods',
      'default_key_generate_params: { budget_limits: [{ budget_duration: 1d, max_budget: 1 }, { budget_duration: 30d, max_budget: 10 }] }',
      [
        { per: 'key', amount: '$1', every: 'day' },
        { per: 'key', amount: '$10', every: 'month' },
      ],
      /no key can have more/,
    ],
    [
      'of keys, with a period twice: the lower one counts',
      'default_key_generate_params: { max_budget: 3, budget_duration: 1d, budget_limits: [{ budget_duration: 24h, max_budget: 2 }, { budget_duration: 1d, max_budget: 4 }] }',
      [{ per: 'key', amount: '$2', every: 'day' }],
      /the lower one is used/,
    ],
    [
      'of keys, with a mark',
      'default_key_generate_params: { max_budget: 10, budget_duration: 1d, soft_budget: 8.05 }',
      [{ per: 'key', amount: '$10', every: 'day', at: ['80%', '100%'] }],
      /a mark is a whole percentage/,
    ],
    [
      'of keys, for life and with a mark: a cap has no mark',
      'default_key_generate_params: { max_budget: 10, soft_budget: 10 }',
      [{ per: 'key', amount: '$10', every: 'life', at: ['100%'] }],
      /no key can have more/,
    ],
    [
      'of keys, for life: a cap',
      'default_key_generate_params: { max_budget: 10 }',
      undefined,
      /an option of key create/,
    ],
    [
      'of keys, for life in a list: a cap',
      'default_key_generate_params: { budget_limits: [{ max_budget: 10 }] }',
      undefined,
      /an option of key create/,
    ],
  ])('%s', async (_name, settings, budgets, expected) => {
    const { standard, commands, remarks, problems } = await importText(`litellm_settings: { ${settings} }`)
    expect(standard).toEqual(budgets)
    expect(remarks).toContainEqual(expect.objectContaining({ kind: 'changed', why: expect.stringMatching(expected) }))
    expect(commands.some(command => command.endsWith(' --cap 10'))).toBe(budgets === undefined)
    expect(problems).toEqual([])
  })

  test('of teams: a command for each period', async () => {
    const { standard, commands, remarks } = await importText(`litellm_settings:
  timezone: Europe/Berlin
  default_team_params:
    { max_budget: 100, budget_duration: 1mo, soft_budget: 70, budget_limits: [{ max_budget: 9, budget_duration: 24h }], rpm_limit: 5 }`)
    expect(standard).toBeUndefined()
    expect(commands).toEqual([
      'account create TEAM --credit DOLLARS',
      'account budget TEAM --amount 100 --every month --zone Europe/Berlin --at 70%,100%',
      'account budget TEAM --amount 9 --every day --zone Europe/Berlin',
      'key create --account TEAM --name NAME',
    ])
    const expected = remarks.map(({ kind, path }) => `${kind} ${path}`)
    expect(expected).toContain('yours litellm_settings.default_team_params')
    expect(expected).toContain('lost litellm_settings.default_team_params.rpm_limit')
  })

  test('of keys that also use raw routes: each policy has it, and a remark says so', async () => {
    const { standard, raw, remarks, problems } = await importText(
      ofKeys('max_budget: 1, budget_duration: 1d'),
      CHAT + EMBEDDING,
    )
    expect([standard, raw]).toEqual(Array(2).fill([{ per: 'key', amount: '$1', every: 'day' }]))
    expect(remarks.map(({ why }) => why)).toContain('chats and raw routes have two policies, each with its own budgets')
    expect(problems).toEqual([])
  })
})
