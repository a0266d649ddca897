/** Policies and plugins of the gateway in which the cost of a step is measured. */
import { TIMES } from './step-costs.ts'

/** A route with `times` steps of one kind between the steps that every route has. */
export interface StepRoute {
  /** The name of the policy, and the first part of the route's path. */
  readonly name: string
  readonly title: string
  readonly times: number
  readonly step: object | null
}

/** The route that the others are compared to. */
export const PLAIN: StepRoute = { name: 'plain', title: '', times: 0, step: null }

const empty = { use: '../plugins/empty.ts' }

/** Measured with whole answers of 1 kB. */
export const STEP_ROUTES: readonly StepRoute[] = [
  { name: 'empty', title: 'an empty step', times: TIMES, step: empty },
  {
    name: 'when-true',
    title: 'with a `when` that is true',
    times: TIMES,
    step: { ...empty, when: 'account.plan == "default"' },
  },
  {
    name: 'when-false',
    title: 'left out: a `when` that is false',
    times: TIMES,
    step: { ...empty, when: 'account.plan == "pro"' },
  },
  { name: 'note', title: 'with a note in the trail', times: TIMES, step: { use: '../plugins/note.ts' } },
  { name: 'shadow', title: 'an empty step in shadow', times: TIMES, step: { ...empty, mode: 'shadow' } },
]

/** Measured with streams. */
export const STREAM_ROUTES: readonly StepRoute[] = [
  { name: 'watch', title: 'a `watch`', times: TIMES, step: { use: '../plugins/watch.ts' } },
  { name: 'edit', title: 'the first `edit`: the chunk is written anew', times: 1, step: { use: '../plugins/edit.ts' } },
  { name: 'edits', title: `${TIMES} edits`, times: TIMES, step: { use: '../plugins/edit.ts' } },
]

export function steppingPath(policy: string): string {
  return `/${policy}/v1/chat/completions`
}

/** Returns the steps of each policy and the code of each plugin, by name. */
export function steppingFiles(): {
  readonly policies: Readonly<Record<string, readonly object[]>>
  readonly plugins: Readonly<Record<string, string>>
} {
  const policies = [PLAIN, ...STEP_ROUTES, ...STREAM_ROUTES].map(({ name, times, step }) => {
    const steps = step === null ? [] : Array.from({ length: times }, (_, index) => ({ id: `step-${index}`, ...step }))
    return [name, steps] as const
  })
  const plugins = {
    empty: pluginOf('empty', ''),
    note: pluginOf('note', "ctx.exchange.note('1 of 20 left')"),
    watch: pluginOf('watch', 'ctx.exchange.watch(() => {})'),
    edit: pluginOf('edit', 'ctx.exchange.edit(chunk => chunk)'),
  }
  return { policies: Object.fromEntries(policies), plugins }
}

function pluginOf(name: string, line: string): string {
  return `import { definePlugin } from 'tollgate/plugin'

export default definePlugin({
  name: '${name}',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async (ctx, next) => {
    ${line}
    await next()
  },
})
`
}
