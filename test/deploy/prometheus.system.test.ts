/** The files for Prometheus and Grafana in src/deploy: their queries use existing metrics and return what is intended. */
import { spawn, spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import { describe, expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { ERRORS, type Outcome } from '#contract'
import { METRICS } from '../../src/observe/metric-list.ts'
import type { MetricDefinition } from '../../src/observe/metric-registry.ts'
import { freePort } from '../helpers/free-port.ts'
import {
  createAccount,
  type Gateway,
  type GatewayOptions,
  startGateway,
  temporaryDirectory,
} from '../helpers/gateway.ts'
import { describeWith } from '../helpers/missing.ts'
import { findProgram, without } from '../helpers/programs.ts'
import { ROOT, read } from '../helpers/repository.ts'
import { DASHBOARD_SCHEMA } from './dashboard-schema.ts'

const FOLDER = 'src/deploy/prometheus'
const PROMETHEUS = findProgram('prometheus')

interface Rule {
  readonly record?: string
  readonly alert?: string
  readonly expr: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

interface Query {
  readonly refId: string
  readonly expr: string
}

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly gridPos: Readonly<Record<'h' | 'w' | 'x' | 'y', number>>
  readonly targets?: readonly Query[]
}

interface Variable {
  readonly name: string
  readonly query: string | { readonly query: string }
  readonly definition?: string
  readonly allValue?: string
}

interface Dashboard {
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly Variable[] }
  readonly annotations: { readonly list: readonly { readonly name: string; readonly expr: string }[] }
}

const rules: readonly Rule[] = parse(read(`${FOLDER}/rules.yaml`)).groups.flatMap(
  (group: { readonly rules: readonly Rule[] }) => group.rules,
)
const alerts = rules.filter(({ alert }) => alert !== undefined)
const records = rules.flatMap(({ record }) => (record === undefined ? [] : [record]))
const dashboard: Dashboard = JSON.parse(read('src/deploy/grafana/tollgate.json'))

/** Replaces Grafana's variables in a query: plain PromQL. */
const plain = (query: string) => query.replaceAll('$__rate_interval', '5m').replace(/\$(?!labels|value)\w+/g, '.*')
const queries: readonly (readonly [place: string, expr: string])[] = [
  ...rules.map(({ record, alert, expr }) => [record ?? alert!, expr] as const),
  ...dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => [`panel ${title}`, plain(expr)] as const),
  ),
  ...dashboard.annotations.list.map(({ name, expr }) => [`annotation ${name}`, plain(expr)] as const),
]

/** Metrics that Prometheus adds. */
const ITS_OWN: readonly MetricDefinition[] = [
  { name: 'up', type: 'gauge', labels: [], help: '' },
  { name: 'ALERTS', type: 'gauge', labels: ['alertname', 'alertstate'], help: '' },
]
/** Labels that every series has. */
const ANY = ['job', 'instance']
const WORDS = new Set([
  'and',
  'or',
  'unless',
  'by',
  'on',
  'without',
  'ignoring',
  'group_left',
  'group_right',
  'offset',
  'bool',
])

interface Selector {
  readonly name: string
  readonly matchers: readonly (readonly [label: string, value: string])[]
}

/** Returns the series that an expression selects. Names in parentheses after `by` and `on` are labels, not series. */
function selectorsOf(expr: string): Selector[] {
  const text = expr.replace(/\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)/g, ' ')
  return [...text.matchAll(/([a-zA-Z_:][\w:]*)\s*(\{[^}]*\}|\(|\[)?/g)].flatMap(([, name, behind = ''], at, all) => {
    const isDuration = /\d$/.test(text.slice(0, all[at]!.index))
    if (behind === '(' || WORDS.has(name!) || isDuration) return []
    const matchers = behind.startsWith('{') ? [...behind.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"/g)] : []
    return [{ name: name!, matchers: matchers.map(([, label, value]) => [label!, value!] as const) }]
  })
}

/** Returns the metric that has series of this name. */
function metricOf(name: string): { readonly labels: readonly string[] } | undefined {
  for (const metric of [...METRICS, ...ITS_OWN] as readonly MetricDefinition[]) {
    if (metric.type !== 'histogram') {
      if (metric.name === name) return metric
    } else if (name === `${metric.name}_bucket`) return { labels: [...metric.labels, 'le'] }
    else if (name === `${metric.name}_sum` || name === `${metric.name}_count`) return metric
  }
  return undefined
}

const OUTCOMES: Readonly<Record<Outcome, true>> = {
  answered: true,
  refused: true,
  failed: true,
  client_left: true,
  cut: true,
}
/** All values of the labels with a fixed set of values. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  outcome: [...Object.keys(OUTCOMES), 'none'],
  code: [...Object.keys(ERRORS), 'none'],
  state: ['well', 'half_open', 'limited', 'ejected', 'answering', 'silent', 'active', 'idle'],
  type: ['input', 'cached_input', 'cache_write', 'output'],
  thread: ['main', 'serving'],
}

function promtool(args: readonly string[], input?: string) {
  const { status, stdout, stderr } = spawnSync('promtool', args, {
    cwd: join(ROOT, FOLDER),
    encoding: 'utf8',
    ...(input === undefined ? {} : { input }),
  })
  return { status, output: stdout + stderr }
}

describe('queries', () => {
  test('the parser of expressions finds series names only', () => {
    const selectors = selectorsOf(
      'sum by (job, le) (rate(a_bucket{b=~"x|y",c!="z"}[5m])) / on (job) (d:e:f > bool 0.5) or g offset 1h unless h_sum * 3e2',
    )
    expect(selectors.map(({ name }) => name)).toEqual(['a_bucket', 'd:e:f', 'g', 'h_sum'])
    expect(selectors[0]!.matchers).toEqual([
      ['b', 'x|y'],
      ['c', 'z'],
    ])
    expect(metricOf('tollgate_exchange_duration_seconds')).toBeUndefined()
    expect(metricOf('tollgate_exchanges_total_bucket')).toBeUndefined()
  })

  test.each(queries)('%s: uses existing metrics, labels and values only', (_place, expr) => {
    const selectors = selectorsOf(expr)
    expect(selectors.length).toBeGreaterThan(0)
    for (const { name, matchers } of selectors) {
      if (records.includes(name)) continue
      const metric = metricOf(name)
      expect(metric, `the metric ${name} does not exist`).toBeDefined()
      for (const [label, value] of matchers) {
        expect([...metric!.labels, ...ANY], name).toContain(label)
        const allowed = VALUES[label]
        if (allowed) for (const each of value.split('|')) expect(allowed, `${name} ${label}`).toContain(each)
      }
    }
  })

  test('every metric is on the dashboard or in a rule', () => {
    const used = new Set(queries.flatMap(([, expr]) => selectorsOf(expr).map(({ name }) => metricOf(name))))
    const names = queries.flatMap(([, expr]) =>
      selectorsOf(expr).map(({ name }) => name.replace(/_(bucket|sum|count)$/, '')),
    )
    expect(used.size).toBeGreaterThan(50)
    expect(METRICS.map(({ name }) => name).filter(name => !names.includes(name))).toEqual([])
  })
})

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 }

test.each(queries)('%s: ranges are long enough for one scrape a minute', (_place, expr) => {
  for (const [range, number, unit] of expr.matchAll(/\[(\d+)([smhd])\]/g)) {
    // A rate needs two samples even if one scrape fails; an extreme needs one.
    const isExtreme = /(min|max|last)_over_time\([^[]*$/.test(expr.slice(0, expr.indexOf(range)))
    expect(Number(number) * SECONDS[unit!]!, range).toBeGreaterThanOrEqual(isExtreme ? 120 : 180)
  }
})

describe('alerts', () => {
  test.each(alerts.map(rule => [rule.alert!, rule] as const))('%s states the problem and what to do', (name, rule) => {
    expect(name).toMatch(/^Tollgate[A-Z]/)
    expect(Object.keys(rule.annotations ?? {})).toEqual(['summary', 'runbook'])
    const { summary, runbook } = rule.annotations!
    expect(summary!.length).toBeLessThan(120)
    expect(runbook!.length).toBeGreaterThan(80)
    for (const [, other] of runbook!.matchAll(/\b(Tollgate[A-Z]\w+)/g)) {
      expect(alerts.map(({ alert }) => alert)).toContain(other)
    }
    expect(['critical', 'warning']).toContain(rule.labels?.['severity'])
  })

  test('each exists once and fires in a test', () => {
    const names = alerts.map(({ alert }) => alert!)
    expect(new Set(names).size).toBe(names.length)
    const tested = read(`${FOLDER}/rules.test.yaml`)
    expect(names.filter(name => !tested.includes(`alertname="${name}"`))).toEqual([])
  })
})

describe('the dashboard', () => {
  test('has the structure that Grafana expects', () => {
    const validate = new Ajv({ allErrors: true, strict: true }).compile(DASHBOARD_SCHEMA)
    validate(dashboard)
    expect(validate.errors ?? []).toEqual([])
  })

  test('panels do not overlap and have unique ids', () => {
    const { panels } = dashboard
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    const cells = new Map<string, string>()
    for (const { title, gridPos } of panels) {
      expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24)
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(cells.get(`${x}/${y}`), title).toBeUndefined()
          cells.set(`${x}/${y}`, title)
        }
      }
    }
    // No gaps: Grafana would move panels up.
    expect(cells.size).toBe(24 * Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h)))
  })

  test('uses all its variables and no others', () => {
    const names = dashboard.templating.list.map(({ name }) => name)
    const text = JSON.stringify([
      dashboard.panels,
      dashboard.annotations,
      dashboard.templating.list.map(({ definition }) => definition),
    ])
    const used = new Set([...text.matchAll(/\$\{?(\w+)/g)].map(([, name]) => name!))
    expect([...used].filter(name => name !== '__rate_interval').sort()).toEqual([...names].sort())
  })

  test('shows nodejs_* and process_* of Tollgate only', () => {
    for (const name of ['job', 'instance']) {
      const { query, definition, allValue } = dashboard.templating.list.find(each => each.name === name)!
      expect(definition).toMatch(/^label_values\(tollgate_build_info\b/)
      expect(query).toMatchObject({ query: definition })
      // Without `allValue`, "All" means the values that the query returned.
      expect(allValue, name).toBeUndefined()
    }
    for (const { title, targets = [] } of dashboard.panels) {
      for (const { expr } of targets) {
        for (const { name, matchers } of selectorsOf(expr)) {
          if (!/^(nodejs|process)_/.test(name)) continue
          expect(matchers, title).toEqual(
            expect.arrayContaining([
              ['job', '$job'],
              ['instance', '$instance'],
            ]),
          )
        }
      }
    }
  })

  test('queries of a panel have unique names', () => {
    for (const { title, targets = [] } of dashboard.panels) {
      expect(new Set(targets.map(({ refId }) => refId)).size, title).toBe(targets.length)
    }
  })
})

describeWith(without('promtool', 'prometheus'), 'promtool', () => {
  test('accepts the rules, and they fire when they should', () => {
    expect(promtool(['check', 'rules', 'rules.yaml'])).toMatchObject({ status: 0 })
    const { status, output } = promtool(['test', 'rules', 'rules.test.yaml'])
    expect(status, output).toBe(0)
  })

  test('parses every expression of the dashboard', async () => {
    const file = join(await temporaryDirectory(), 'queries.json')
    const recorded = queries.map(([, expr], at) => ({ record: `query:${at}`, expr }))
    await writeFile(file, JSON.stringify({ groups: [{ name: 'queries', rules: recorded }] }))
    const { status, output } = promtool(['check', 'rules', file])
    expect(status, output).toBe(0)
    // An invalid expression does fail the check.
    await writeFile(file, JSON.stringify({ groups: [{ name: 'queries', rules: [{ record: 'a', expr: 'rate(b' }] }] }))
    expect(promtool(['check', 'rules', file]).status).not.toBe(0)
  })

  test('finds no problems in the metrics page of a gateway with two threads after traffic of every kind', async () => {
    const page = await pageAfterTraffic()
    const { status, output } = promtool(['check', 'metrics'], page)
    expect(output).toBe('')
    expect(status).toBe(0)
  })
})

describeWith(without('prometheus'), 'Prometheus', () => {
  test('scrapes the page, and exemplars link a bucket to the trace of an exchange', async () => {
    const options = configuration('1ms')
    // A closed port: the trace has an id even if it is not exported.
    const yaml = { ...(options.yaml as object), telemetry: { endpoint: 'http://127.0.0.1:9', ratio: 1 } }
    const gateway = await startGateway({ ...options, yaml })
    onTestFinished(() => gateway.kill9())
    const { key } = await createAccount(gateway, { credit: 10 })
    await requestWith(gateway, key, { stream: true })
    const url = await startPrometheus(new URL(gateway.adminUrl).host)
    const query = async (path: string) =>
      ((await (await fetch(`${url}/api/v1/${path}`)).json()) as { data: unknown }).data
    const traces = () => query('query_exemplars?query=tollgate_exchange_duration_seconds_bucket&start=0&end=4000000000')
    await expect.poll(async () => JSON.stringify(await traces())).toMatch(/"trace_id":"[0-9a-f]{32}"/)
    expect(await query('targets')).toMatchObject({ activeTargets: [{ health: 'up', lastError: '' }] })
    const { result } = (await query('query?query=tollgate_exchanges_total')) as {
      result: { value: [number, string] }[]
    }
    expect(result.map(({ value }) => value[1])).toEqual(['1'])
  })
})

/** Starts Prometheus, which scrapes one target every second; returns its URL. */
async function startPrometheus(target: string): Promise<string> {
  const [dir, port] = [await temporaryDirectory(), await freePort()]
  const file = join(dir, 'prometheus.yml')
  const scrape = { job_name: 'tollgate', scrape_interval: '1s', static_configs: [{ targets: [target] }] }
  await writeFile(file, JSON.stringify({ scrape_configs: [scrape] }))
  const args = [
    `--config.file=${file}`,
    `--storage.tsdb.path=${join(dir, 'data')}`,
    '--enable-feature=exemplar-storage',
  ]
  const child = spawn(PROMETHEUS!, [...args, `--web.listen-address=127.0.0.1:${port}`], { stdio: 'ignore' })
  onTestFinished(() => void child.kill('SIGKILL'))
  const url = `http://127.0.0.1:${port}`
  await expect
    .poll(() =>
      fetch(`${url}/-/ready`).then(
        ({ status }) => status,
        () => 0,
      ),
    )
    .toBe(200)
  return url
}

test('the metrics of a gateway with two threads match the traffic', async () => {
  const value = valuesOf(await pageAfterTraffic())
  expect(value('tollgate_exchanges_total{', 'outcome="answered"', 'provider="demo"', 'model="m"')).toBe(4)
  expect(value('tollgate_exchanges_total{', 'code="model_not_found"', 'provider="none"')).toBe(1)
  expect(value('tollgate_requests_refused_total{', 'code="unknown_url"')).toBe(1)
  expect(value('tollgate_fallbacks_total{', 'target="down/x"')).toBeGreaterThan(0)
  expect(value('tollgate_attempts_total{', 'target="down/x"', 'code="upstream_unreachable"')).toBeGreaterThan(0)
  expect(value('tollgate_time_to_first_token_seconds_count{', 'model="m"')).toBe(2)
  expect(value('tollgate_time_per_output_token_seconds_count{', 'model="m"')).toBe(2)
  expect(value('tollgate_time_per_output_token_seconds_sum{', 'model="m"')).toBeGreaterThan(0)
  expect(value('tollgate_charged_dollars_total{', 'model="m"')).toBeGreaterThan(0)
  expect(value('tollgate_held_dollars ')).toBe(0)
  expect(value('tollgate_target_state{', 'target="demo/demo-small"', 'state="well"')).toBe(2)
  expect(value('tollgate_serving_threads{', 'answering')).toBe(2)
  expect(value('tollgate_inflight_exchanges_limit ')).toBe(77)
  // At least a hold and a settle for each exchange.
  expect(value('tollgate_store_group_operations_sum ')).toBeGreaterThanOrEqual(8)
  expect(value('tollgate_store_commit_duration_seconds_sum ')).toBeGreaterThan(0)
  expect(value('nodejs_eventloop_delay_seconds_count{', 'thread="serving"')).toBeGreaterThan(0)
  expect(value('nodejs_eventloop_delay_seconds_count{', 'thread="main"')).toBeGreaterThan(0)
  expect(value('nodejs_heap_size_used_bytes{', 'thread="serving"')).toBeGreaterThan(1e6)
  if (process.platform === 'linux') expect(value('process_open_fds ')).toBeGreaterThan(10)
  expect(value('tollgate_config_last_reload_successful ')).toBe(1)
})

test('gauges count exchanges in progress, their holds, their targets and the queue', async () => {
  const gateway = await startGateway(configuration('200ms', { use: 'concurrency', with: ONE_AT_A_TIME }))
  onTestFinished(() => gateway.kill9())
  const { key } = await createAccount(gateway, { credit: 10 })
  const [one, two] = [requestWith(gateway, key, { stream: true }), requestWith(gateway, key, { stream: true })]
  const page = async () => valuesOf(await pageOf(gateway))
  await expect.poll(async () => (await page())('tollgate_queued_exchanges ')).toBe(1)
  await expect.poll(async () => (await page())('tollgate_target_inflight_attempts{', 'demo')).toBe(1)
  const value = await page()
  // The body of the queued request is not read yet.
  expect(value('tollgate_inflight_exchanges ')).toBe(1)
  expect(value('tollgate_holds_open ')).toBe(1)
  // The prompt, and 1,024 output tokens at $2 per million.
  expect(value('tollgate_held_dollars ')).toBeGreaterThan(0.002)
  expect(value('tollgate_held_dollars ')).toBeLessThan(0.01)
  await Promise.all([one, two])
  await expect.poll(async () => (await page())('tollgate_held_dollars ')).toBe(0)
  expect((await page())('tollgate_queued_exchanges ')).toBe(0)
})

const ONE_AT_A_TIME = { per: 'account', limit: 1, queue: { length: 5, wait: '60s' } }

const pageOf = async ({ adminUrl }: Gateway) => (await fetch(`${adminUrl}/metrics`)).text()

/** Returns a function that sums the samples whose line starts with `start` and contains `labels`. */
const valuesOf =
  (page: string) =>
  (start: string, ...labels: readonly string[]) => {
    const lines = page.split('\n').filter(line => line.startsWith(start) && labels.every(label => line.includes(label)))
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
  }

/** Resolves with the status at the end of the answer. */
async function requestWith(
  { url }: Gateway,
  key: string,
  body: object,
  path = '/v1/chat/completions',
): Promise<number> {
  const answer = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }], ...body }),
  })
  await answer.text()
  return answer.status
}

/** Two threads; the first target is down. */
function configuration(pace: string, ...steps: readonly object[]): GatewayOptions {
  return {
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      admin: '127.0.0.1:0',
      threads: 2,
      store: 'sqlite:./tollgate.db',
      limits: { max_inflight: 77 },
      providers: {
        // A closed port.
        down: { dialect: 'openai', base_url: 'http://127.0.0.1:9/v1' },
        demo: { dialect: 'demo', pace },
      },
      models: {
        m: {
          context: '128k',
          max_output: 1024,
          price: { per: '1M tokens', input: '$1', output: '$2' },
          targets: [
            { provider: 'down', model: 'x' },
            { provider: 'demo', model: 'demo-small' },
          ],
        },
      },
      routes: [{ path: '/v1/chat/completions', policy: 'standard' }],
    },
    policies: {
      standard: {
        steps: [
          { use: 'api-key' },
          ...steps,
          { use: 'schema' },
          { use: 'credits' },
          { use: 'route', with: { order: 'listed' } },
        ],
      },
    },
  }
}

let afterTraffic: Promise<string> | undefined

/** The page of one gateway, which the first caller starts. */
function pageAfterTraffic(): Promise<string> {
  afterTraffic ??= makePage()
  return afterTraffic
}

/** Sends streams, whole answers and refusals, with a target that is down; returns the page. */
async function makePage(): Promise<string> {
  const gateway = await startGateway(configuration('5ms'))
  onTestFinished(() => gateway.kill9())
  const { key } = await createAccount(gateway, { credit: 10 })
  const ask = (body: object, path?: string) => requestWith(gateway, key, body, path)
  const statuses = [await ask({}), await ask({}), await ask({ stream: true }), await ask({ stream: true })]
  expect(statuses).toEqual([200, 200, 200, 200])
  expect([await ask({ model: 'unknown' }), await ask({}, '/v1/nothing')]).toEqual([404, 404])
  const page = () => pageOf(gateway)
  // An exchange is counted once its connection is closed.
  await expect.poll(async () => /^tollgate_exchanges_total\{.*"model_not_found"\} 1$/m.test(await page())).toBe(true)
  return page()
}
