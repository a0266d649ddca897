/** The part of Grafana's dashboard schema that ours uses. Grafana silently ignores unknown names; this schema refuses them. */

const text = { type: 'string' } as const
const whole = { type: 'integer', minimum: 0 } as const
const flag = { type: 'boolean' } as const

/** Builds a schema of an object with exactly these properties; those in `optional` may be omitted. */
function exactly(properties: Readonly<Record<string, object>>, optional: readonly string[] = []) {
  const required = Object.keys(properties).filter(name => !optional.includes(name))
  return { type: 'object', additionalProperties: false, properties, required } as const
}

const list = (items: object) => ({ type: 'array', items, minItems: 1 }) as const
const oneOf = (...values: readonly unknown[]) => ({ enum: values }) as const

const source = exactly({ type: { const: 'prometheus' }, uid: { const: '${datasource}' } })
const gridPos = exactly({
  h: { type: 'integer', minimum: 1, maximum: 20 },
  w: { type: 'integer', minimum: 1, maximum: 24 },
  x: { type: 'integer', minimum: 0, maximum: 23 },
  y: whole,
})
const query = exactly({
  refId: { type: 'string', pattern: '^[A-Z]$' },
  datasource: source,
  expr: text,
  legendFormat: text,
})
/** The Grafana units in use. */
const unit = oneOf('none', 's', 'reqps', 'percentunit', 'currencyUSD', 'bytes')
const head = { id: whole, title: { type: 'string', minLength: 3 }, gridPos }
const shown = { ...head, description: text, datasource: source, targets: list(query) }
const fieldConfig = (defaults: object) => exactly({ defaults, overrides: { type: 'array', maxItems: 0 } })
const calcs = list(oneOf('lastNotNull', 'max', 'mean'))

const row = exactly({ ...head, type: { const: 'row' }, collapsed: flag, panels: { type: 'array', maxItems: 0 } })
const series = exactly({
  ...shown,
  type: { const: 'timeseries' },
  fieldConfig: fieldConfig(
    exactly(
      {
        unit,
        min: { type: 'number' },
        max: { type: 'number' },
        custom: exactly({
          lineWidth: whole,
          fillOpacity: { type: 'integer', minimum: 0, maximum: 100 },
          showPoints: oneOf('never', 'auto', 'always'),
          stacking: exactly({ mode: oneOf('none', 'normal', 'percent') }),
        }),
      },
      ['max'],
    ),
  ),
  options: exactly({
    legend: exactly({ displayMode: oneOf('list', 'table'), placement: oneOf('bottom', 'right'), calcs }),
    tooltip: exactly({ mode: oneOf('single', 'multi', 'none'), sort: oneOf('none', 'asc', 'desc') }),
  }),
})
const color = oneOf('green', 'orange', 'red')
const stat = exactly({
  ...shown,
  type: { const: 'stat' },
  fieldConfig: fieldConfig(
    exactly({
      unit,
      thresholds: exactly({
        mode: { const: 'absolute' },
        steps: list(exactly({ color, value: { type: 'number', nullable: true } })),
      }),
      mappings: {
        type: 'array',
        items: exactly({
          type: { const: 'value' },
          options: { type: 'object', additionalProperties: exactly({ text, color }) },
        }),
      },
    }),
  ),
  options: exactly({
    reduceOptions: exactly({ calcs, fields: text, values: flag }),
    colorMode: oneOf('background', 'value', 'none'),
    graphMode: oneOf('none', 'area'),
    textMode: oneOf('auto', 'value', 'name'),
  }),
})

const sourceVariable = exactly({
  name: text,
  label: text,
  type: { const: 'datasource' },
  query: { const: 'prometheus' },
  current: exactly({}),
})
const queryVariable = exactly(
  {
    name: text,
    label: text,
    type: { const: 'query' },
    datasource: source,
    query: exactly({ query: text, refId: text }),
    definition: text,
    /** Also when the time range changes. */
    refresh: { const: 2 },
    sort: whole,
    includeAll: flag,
    allValue: text,
    multi: flag,
    current: exactly({ text, value: text }),
  },
  ['allValue'],
)
const annotation = exactly({
  name: text,
  datasource: source,
  enable: flag,
  iconColor: text,
  expr: text,
  titleFormat: text,
  textFormat: text,
})

export const DASHBOARD_SCHEMA = exactly({
  title: text,
  uid: { type: 'string', pattern: '^[a-z-]{1,40}$' },
  tags: list(text),
  description: text,
  schemaVersion: { const: 39 },
  version: whole,
  editable: flag,
  graphTooltip: oneOf(0, 1, 2),
  refresh: { type: 'string', pattern: '^\\d+[sm]$' },
  timezone: oneOf('browser', 'utc'),
  time: exactly({ from: { type: 'string', pattern: '^now-' }, to: { const: 'now' } }),
  templating: exactly({ list: list({ oneOf: [sourceVariable, queryVariable] }) }),
  annotations: exactly({ list: list(annotation) }),
  panels: list({ oneOf: [row, series, stat] }),
})
