/** Formats an exposure as text. */

import type { Exposure, ModelExposure } from './exposure-figures.ts'
import type { Figure, PolicyExposure } from './exposure-policies.ts'
import { pairs, showNano, table } from './format.ts'

/** The tables with a legend, and with `explain` the formula of each figure. */
export function exposureText(exposure: Exposure, explain: boolean): string {
  const { models, policies } = exposure
  const remarks = [
    ...policies.flatMap(policy => [...policy.unbounded, ...policy.remarks]),
    ...models.flatMap(model => model.remarks),
  ]
  const parts = [
    modelTable(models),
    MEANING,
    policyTable(policies),
    totals(exposure),
    ...(remarks.length > 0 ? [`Remarks\n${[...new Set(remarks)].map(remark => `  ${remark}\n`).join('')}`] : []),
    ...(explain ? [explanations(exposure)] : ['--explain shows the formula of each figure.\n']),
  ]
  return parts.join('\n')
}

const MEANING = `What the operator can lose on one exchange:
  MARGIN    an answer of the target whose cost exceeds the price the most
  OVERRUN   one attempt: the provider ignores the cap and bills up to the whole context for each choice
  UNPAID    failed attempts or a disconnect: the provider may bill more, within the cap, than the customer is charged
  WORST     all attempts with all of these losses, or with those in --losses; --max-house-loss limits it
  UNPRICED  features under "allow" with other prices at the provider: no bound
`

function modelTable(models: readonly ModelExposure[]): string {
  return table(
    [
      { title: 'MODEL' },
      { title: 'LARGEST HOLD', right: true },
      { title: 'MARGIN', right: true },
      { title: 'OVERRUN', right: true },
      { title: 'UNPAID', right: true },
      { title: 'WORST', right: true },
      { title: 'UNPRICED' },
    ],
    models.map(({ id, largestHold, margin, overrun, unpaid, worstExchange, unpriced }) => [
      id,
      ...[largestHold, margin, overrun, unpaid, worstExchange].map(({ amount }) => showNano(amount)),
      unpriced.join(', '),
    ]),
  )
}

function policyTable(policies: readonly PolicyExposure[]): string {
  return table(
    [
      { title: 'POLICY' },
      { title: 'CHARGED' },
      { title: 'KEY AT ONCE', right: true },
      { title: 'ACCOUNT AT ONCE', right: true },
      { title: 'HOLDS OF A KEY', right: true },
      { title: 'HOLDS OF AN ACCOUNT', right: true },
      { title: 'ROUTES' },
    ],
    policies.map(({ name, charged, key, account, routes }) => [
      name,
      charged ? 'yes' : 'no',
      String(key.atOnce),
      String(account.atOnce),
      showNano(key.openHolds.amount),
      showNano(account.openHolds.amount),
      routes.join(' '),
    ]),
  )
}

function totals({ largestHold, openHolds, overdraft }: Exposure): string {
  return pairs([
    ['largest single hold', `${showNano(largestHold.amount)} (${largestHold.of})`],
    ['all open holds at once', `${showNano(openHolds.amount)} at most, and never more than the credit of the accounts`],
    ['worst overdraft of an account', `${showNano(overdraft.amount)}: ${overdraft.formula}`],
  ])
}

function explanations({ models, policies, largestHold, openHolds }: Exposure): string {
  const line = (name: string, { amount, formula }: Figure) => `  ${name}: ${showNano(amount)} = ${formula}\n`
  const ofModels = models.map(
    model =>
      `${model.id}\n${line('largest hold', model.largestHold)}${line('  of that, reasoning outside the cap', model.outsideCap)}${line('margin', model.margin)}${line('overrun', model.overrun)}${line('unpaid', model.unpaid)}${line('worst exchange', model.worstExchange)}`,
  )
  const ofPolicies = policies.map(({ name, key, account, raw }) => {
    const crowds = [['a key', key] as const, ['an account', account] as const].map(
      ([owner, crowd]) =>
        `  ${owner}: ${crowd.atOnce} at once = ${crowd.formula}\n${line(`holds of ${owner}`, crowd.openHolds)}`,
    )
    return `policy ${name}\n${crowds.join('')}${raw.map(({ path, hold }) => (hold ? line(path, hold) : '')).join('')}`
  })
  const all = `all together\n${line('largest single hold', largestHold)}${line('all open holds', openHolds)}`
  return `The formulas of the figures (rounded up once, to a nano-dollar)\n\n${[...ofModels, ...ofPolicies, all].join('\n')}`
}
