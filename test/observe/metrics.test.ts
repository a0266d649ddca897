import { describe, expect, it, onTestFinished } from 'vitest'
import type { MeteredUsage } from '#contract'
import { MAX_LABEL_SETS } from '../../src/observe/label-sets.ts'
import { METRICS } from '../../src/observe/metric-list.ts'
import {
  createMetrics,
  type MainSources,
  type Metrics,
  type OwnSources,
  type ServingFigures,
} from '../../src/observe/metrics.ts'
import { summary } from './summary.ts'

const ATTEMPT = { status: null, ms: 1 } as const
const OTHER = { route: 'other', model: 'other', provider: 'other' } as const
const at = (route: string, model = 'none', provider = 'none') => ({ route, model, provider })

describe('hostile input', () => {
  it.each(['"} 1\nforged_total 9', 'back\\slash', '\\n', 'a"b', 'line\nfeed', '\r', '😀', '', '{le="1"}'])(
    'a label value cannot break out of its quotes: %j',
    value => {
      const metrics = create()
      metrics.stepFailed({ policy: value, step: 'x' })
      const page = parse(metrics.render())
      expect(page.names()).not.toContain('forged_total')
      expect(page.value('tollgate_steps_failed_total', { policy: value, step: 'x' })).toBe('1')
    },
  )

  it('label sets above the limit are counted as `other`, and no exchange is lost', () => {
    const metrics = create()
    const total = MAX_LABEL_SETS + 250
    for (let round = 0; round < 2; round++) {
      for (let index = 0; index < total; index++) {
        metrics.exchange(summary({ route: `/r/${index}`, outcome: 'answered', ms: 5 }))
      }
    }
    const page = parse(metrics.render())
    const samples = page.samples('tollgate_exchanges_total')
    expect(samples).toHaveLength(MAX_LABEL_SETS + 1)
    expect(samples.reduce((sum, { value }) => sum + Number(value), 0)).toBe(2 * total)
    expect(page.value('tollgate_exchanges_total', { ...OTHER, outcome: 'other', code: 'other' })).toBe('500')
    expect(page.value('tollgate_exchanges_total', { ...at('/r/0'), outcome: 'answered', code: 'none' })).toBe('2')
    expect(page.value('tollgate_exchange_duration_seconds_count', { ...OTHER, outcome: 'other' })).toBe('500')
  })

  it('every configured target has a series, without a limit', () => {
    const one = { provider: 'p', state: 'well', inflight: 0, ejections: 0 }
    const targets = Array.from({ length: 300 }, (_, index) => ({ ...one, target: `p/${index}` }))
    const serving = () => ({ isOverloaded: false, held: 0n, targets, credentialsOut: [] })
    const page = parse(create({}, { serving }).render())
    expect(page.value('tollgate_target_state', { provider: 'p', target: 'p/299', state: 'well' })).toBe('1')
    expect(page.samples('tollgate_target_state')).toHaveLength(4 * 300)
  })

  it('an exemplar is the newest sampled trace of all threads, in OpenMetrics only', () => {
    const [main, thread] = [create(), create()]
    const traceId = 'ab'.repeat(16)
    main.exchange(summary({ route: '/r', ms: 7, at: 1000, traceId, isSampled: false }))
    main.exchange(summary({ route: '/r', ms: 7, at: 1000, traceId: 'cd'.repeat(16), isSampled: true }))
    main.exchange(summary({ route: '/r', ms: 1e9, at: 1000, traceId: 'ef'.repeat(16), isSampled: true }))
    thread.exchange(summary({ route: '/r', ms: 6, at: 2000, traceId, isSampled: true }))
    const page = main.render([thread.values()], 'openmetrics')
    const exemplars = page.split('\n').filter(line => line.includes(' # '))
    expect(exemplars).toEqual([
      expect.stringMatching(
        /^tollgate_exchange_duration_seconds_bucket\{.*le="[\d.]+"\} 3 # \{trace_id="(ab){16}"\} 0.006 2.006$/,
      ),
      expect.stringMatching(
        /^tollgate_exchange_duration_seconds_bucket\{.*le="\+Inf"\} 4 # \{trace_id="(ef){16}"\} 1000000 /,
      ),
    ])
    expect(main.render([thread.values()])).not.toContain(' # ')
  })

  it('label values are cut to a maximum length', () => {
    const metrics = create()
    metrics.exchange(summary({ attempts: [{ ...ATTEMPT, target: 'x'.repeat(1_000_000), code: null }] }))
    expect(metrics.render().length).toBeLessThan(40_000)
  })

  it.each([Number.NaN, -5, Number.POSITIVE_INFINITY, 1e300])('the number %d does not corrupt a sum', bad => {
    const metrics = create()
    const usage = usageOf({ input: bad, output: bad })
    metrics.exchange(
      summary({
        route: '/r',
        outcome: 'answered',
        model: 'm',
        ms: bad,
        firstTokenMs: bad,
        perTokenMs: bad,
        usage,
      }),
    )
    metrics.exchange(
      summary({
        route: '/r',
        outcome: 'answered',
        model: 'm',
        ms: 2000,
        usage: usageOf({ output: 7 }),
      }),
    )
    const page = parse(metrics.render())
    const answered = { ...at('/r', 'm'), outcome: 'answered' }
    expect(page.value('tollgate_exchange_duration_seconds_sum', answered)).toBe('2')
    expect(page.value('tollgate_exchange_duration_seconds_count', answered)).toBe('2')
    expect(page.value('tollgate_tokens_total', { ...at('/r', 'm'), type: 'output' })).toBe('7')
  })

  it('a gauge that throws is NaN, and the other metrics are still rendered', () => {
    const holdsOpen = () => {
      throw new Error('the store is closed')
    }
    const serving = () => {
      throw new Error('no generation exists yet')
    }
    const page = parse(create({ holdsOpen }, { serving }).render())
    expect(page.value('tollgate_holds_open')).toBe('NaN')
    expect(page.samples('tollgate_target_state')).toEqual([])
    expect(page.value('tollgate_inflight_exchanges')).toBe('3')
  })

  it('money is exact beyond the precision of a float', () => {
    const metrics = create()
    const route = { route: '/r', outcome: 'answered', ms: 1, model: 'm' } as const
    // 2^53 + 1 nano-dollars, then one more at a time.
    metrics.exchange(summary({ ...route, charge: { amount: 9_007_199_254_740_993n, overrun: 1n } }))
    for (let index = 0; index < 10; index++)
      metrics.exchange(summary({ ...route, charge: { amount: 1n, overrun: 100_000_000n } }))
    metrics.exchange(summary({ ...route, charge: { amount: -5n, overrun: 0n } }))
    const page = parse(metrics.render())
    expect(page.value('tollgate_charged_dollars_total', at('/r', 'm'))).toBe('9007199.254741003')
    expect(page.value('tollgate_overrun_dollars_total', at('/r', 'm'))).toBe('1.000000001')
  })
})

describe('the page', () => {
  it('holds exactly the metrics of METRICS, in their order, with type, help and labels', () => {
    const metrics = create()
    metrics.exchange(
      summary({
        route: '/v1/chat/completions',
        outcome: 'answered',
        ms: 1,
        model: 'm',
        firstTokenMs: 1,
        perTokenMs: 1,
        usage: usageOf({ input: 1 }),
        charge: { amount: 1n, overrun: 0n },
        cost: 1n,
        target: 'a/b',
      }),
    )
    const attempts = ['a/b', 'a/b', 'c/d'].map(target => ({ ...ATTEMPT, target, code: null }))
    metrics.exchange(summary({ attempts }))
    metrics.refused('unknown_url')
    metrics.stepFailed({ policy: 'p', step: 's' })
    metrics.shadowRan({ policy: 'p', step: 's', code: 'rate_limit_exceeded' })
    metrics.reload('changed')
    metrics.alertAttempted('ops', 'delivered')
    const page = parse(metrics.render())
    expect(page.families.map(({ name, type, help }) => ({ name, type, help }))).toEqual(
      METRICS.map(({ name, type, help }) => ({ name, type, help })),
    )
    for (const [index, { labels, type }] of METRICS.entries()) {
      const { samples } = page.families[index]!
      // Garbage collection may not have run yet.
      if (page.families[index]!.name !== 'nodejs_gc_duration_seconds') expect(samples.length).toBeGreaterThan(0)
      for (const sample of samples) {
        const allowed = type === 'histogram' && sample.name.endsWith('_bucket') ? [...labels, 'le'] : labels
        expect(Object.keys(sample.labels)).toEqual([...allowed])
      }
    }
  })

  it('names follow the conventions: counters end in _total, times in seconds', () => {
    for (const { name, type, labels } of METRICS) {
      expect(name).toMatch(/^(tollgate|process|nodejs)_[a-z_]+$/)
      if (type === 'counter') expect(name).toMatch(/_total$/)
      if (type === 'histogram') expect(name).toMatch(/_(seconds|operations)$/)
      expect(labels).not.toContain('key')
      expect(labels).not.toContain('account')
    }
  })

  it('a step in shadow mode has counters of its runs and of its would-be refusals', () => {
    const metrics = create()
    const run = { policy: 'p', step: 'burst' }
    for (const code of [null, 'rate_limit_exceeded', null, 'answered']) metrics.shadowRan({ ...run, code })
    const page = parse(metrics.render())
    expect(page.value('tollgate_shadow_runs_total', run)).toBe('4')
    expect(page.value('tollgate_shadow_refusals_total', { ...run, code: 'rate_limit_exceeded' })).toBe('1')
    expect(page.value('tollgate_shadow_refusals_total', { ...run, code: 'answered' })).toBe('1')
    expect(page.samples('tollgate_shadow_refusals_total')).toHaveLength(2)
  })

  it('a counter without labels starts at 0', () => {
    expect(parse(create().render()).value('tollgate_unhandled_rejections_total')).toBe('0')
  })

  it('a money counter exists before its first dollar, so that increase() sees it', () => {
    const metrics = create()
    metrics.exchange(summary({ route: '/r', model: 'm', charge: { amount: 1n, overrun: 0n } }))
    expect(parse(metrics.render()).value('tollgate_overrun_dollars_total', at('/r', 'm'))).toBe('0.000000000')
  })

  it('gauges are read when the page is rendered', () => {
    let inflight = 1
    let healthy = true
    const metrics = create({ inflight: () => inflight, ledgerHealthy: () => healthy })
    metrics.render()
    inflight = 17
    healthy = false
    const page = parse(metrics.render())
    expect(page.value('tollgate_inflight_exchanges')).toBe('17')
    expect(page.value('tollgate_ledger_healthy')).toBe('0')
    expect(page.value('tollgate_settles_spooled')).toBe('5')
    expect(page.value('tollgate_settles_waiting')).toBe('4')
    expect(page.value('tollgate_build_info', { version: '1.2.3' })).toBe('1')
    expect(page.value('tollgate_config_info', { hash: '0123456789ab' })).toBe('1')
    expect(Number(page.value('process_resident_memory_bytes'))).toBeGreaterThan(1e6)
    expect(Number(page.value('process_cpu_seconds_total'))).toBeGreaterThan(0)
    expect(Math.abs(Number(page.value('process_start_time_seconds')) - Date.now() / 1000)).toBeLessThan(86_400)
  })
})

describe('several threads', () => {
  it('counts of all threads are added, and process metrics come from the main thread alone', () => {
    const [main, one, two] = [create(), createInThread(), createInThread()]
    one.exchange(summary({ route: '/a', ms: 10 }))
    two.exchange(summary({ route: '/a', ms: 20 }))
    two.exchange(summary({ route: '/b', ms: 20 }))
    const page = parse(main.render([one.values(), two.values()]))
    const answered = { outcome: 'answered', code: 'none' }
    expect(page.value('tollgate_exchanges_total', { ...at('/a'), ...answered })).toBe('2')
    expect(page.value('tollgate_exchanges_total', { ...at('/b'), ...answered })).toBe('1')
    const target = { provider: 'a', target: 'a/b' }
    expect(page.value('tollgate_target_state', { ...target, state: 'ejected' })).toBe('3')
    expect(page.value('tollgate_target_state', { ...target, state: 'well' })).toBe('0')
    expect(page.value('tollgate_provider_credentials_out', { provider: 'a' })).toBe('1')
    expect(page.value('tollgate_held_dollars')).toBe('4.5')
    expect(page.value('tollgate_store_mailbox_fill_ratio')).toBe('0.25')
    expect(page.value('tollgate_store_mailbox_full_total')).toBe('24')
    // Per process.
    expect(page.value('tollgate_store_commit_duration_seconds_count')).toBe('9')
    expect(page.value('tollgate_lease_takeovers_total')).toBe('2')
    expect(page.samples('tollgate_config_info')).toHaveLength(1)
    expect(page.samples('process_open_fds').length).toBeLessThanOrEqual(1)
    expect(page.value('nodejs_eventloop_delay_seconds_count', { thread: 'serving' })).toBe('4')
  })

  it('when a thread ends, its counts stay in the counters and its gauges are dropped', () => {
    const [main, one] = [create(), createInThread()]
    one.exchange(summary({ route: '/a', ms: 10, charge: { amount: 1_000_000_000n, overrun: 0n } }))
    const last = one.values()
    const before = parse(main.render([last]))
    main.retire(last)
    const after = parse(main.render())
    const answered = { ...at('/a'), outcome: 'answered' }
    for (const [name, labels] of [
      ['tollgate_exchanges_total', { ...answered, code: 'none' }],
      ['tollgate_exchange_duration_seconds_count', answered],
      ['tollgate_charged_dollars_total', at('/a')],
      ['tollgate_target_ejections_total', { provider: 'a', target: 'a/b' }],
      ['tollgate_store_mailbox_full_total', {}],
    ] as const) {
      expect(after.value(name, labels), name).toBe(before.value(name, labels))
      expect(Number(after.value(name, labels)), name).toBeGreaterThan(0)
    }
    expect([before, after].map(page => page.value('tollgate_held_dollars'))).toEqual(['3', '1.5'])
    main.retire(last)
    const again = parse(main.render([last])).value('tollgate_exchanges_total', { ...answered, code: 'none' })
    expect(again).toBe('3')
  })
})

describe('counts', () => {
  it('the delay of the event loop', () => {
    const page = parse(create().render())
    const bucket = (le: string) => page.value('nodejs_eventloop_delay_seconds_bucket', { thread: 'main', le })
    expect([bucket('0.001'), bucket('0.025'), bucket('0.05'), bucket('+Inf')]).toEqual(['1', '1', '2', '2'])
    expect(page.value('nodejs_eventloop_delay_seconds_sum', { thread: 'main' })).toBe('0.03')
  })

  it("histograms of the store, with the store's buckets", () => {
    const page = parse(create().render())
    const bucket = (le: string) => page.value('tollgate_store_group_operations_bucket', { le })
    expect([bucket('1'), bucket('2'), bucket('+Inf')]).toEqual(['3', '7', '9'])
    expect(page.value('tollgate_store_group_operations_sum')).toBe('12')
    const without = parse(create({ lease: () => null }).render())
    expect(without.samples('tollgate_lease_renewed_timestamp_seconds')).toEqual([])
  })

  it('exchanges by route, outcome and code', () => {
    const metrics = create()
    metrics.exchange(summary({ route: '/a', outcome: 'refused', code: 'rate_limit_exceeded', ms: 1 }))
    metrics.exchange(summary({ route: '/a', outcome: 'refused', code: 'rate_limit_exceeded', ms: 1 }))
    metrics.exchange(summary({ route: '/a', outcome: 'client_left', code: null, ms: 1 }))
    metrics.exchange(summary({ route: '/a', outcome: null, ms: 1 }))
    metrics.exchange(summary({ route: '/a', outcome: 'failed', model: 'm', target: 'p/x/y', ms: 1 }))
    const page = parse(metrics.render())
    const count = (outcome: string, code: string, where = at('/a')) =>
      page.value('tollgate_exchanges_total', { ...where, outcome, code })
    expect(count('failed', 'none', at('/a', 'm', 'p'))).toBe('1')
    expect(count('refused', 'rate_limit_exceeded')).toBe('2')
    expect(count('client_left', 'none')).toBe('1')
    expect(count('none', 'none')).toBe('1')
  })

  it('tokens by price category, without overlap', () => {
    const metrics = create()
    const usage = usageOf({
      input: 100,
      cached_input: 30,
      cache_write: 20,
      output: 9,
      reasoning: 5,
    })
    metrics.exchange(summary({ route: '/a', outcome: 'answered', ms: 1, model: 'm', usage }))
    const page = parse(metrics.render())
    const tokens = Object.fromEntries(
      page.samples('tollgate_tokens_total').map(({ labels, value }) => [labels['type'], value]),
    )
    expect(tokens).toEqual({ input: '50', cached_input: '30', cache_write: '20', output: '9' })
  })

  it('attempts by target and code, and failed steps by policy and step', () => {
    const metrics = create()
    const failed = { ...ATTEMPT, target: 'openai/x', code: 'upstream_timeout' } as const
    const good = { ...ATTEMPT, target: 'azure/y', code: null } as const
    metrics.exchange(summary({ attempts: [good] }))
    metrics.exchange(summary({ attempts: [failed, failed, failed, good] }))
    metrics.stepFailed({ policy: 'standard', step: 'burst' })
    const page = parse(metrics.render())
    const x = { provider: 'openai', target: 'openai/x' }
    const y = { provider: 'azure', target: 'azure/y' }
    expect(page.value('tollgate_attempts_total', { ...x, code: 'upstream_timeout' })).toBe('3')
    expect(page.value('tollgate_attempts_total', { ...y, code: 'none' })).toBe('2')
    expect(page.value('tollgate_attempt_duration_seconds_count', x)).toBe('3')
    // The same label set twice more, then another.
    expect(page.samples('tollgate_retries_total').map(({ labels, value }) => [labels, value])).toEqual([[x, '2']])
    expect(page.samples('tollgate_fallbacks_total').map(({ labels, value }) => [labels, value])).toEqual([[x, '1']])
    expect(page.value('tollgate_steps_failed_total', { policy: 'standard', step: 'burst' })).toBe('1')
  })

  it('durations in cumulative buckets with inclusive upper bounds', () => {
    const metrics = create()
    for (const ms of [1, 10, 11, 50, 900_000, 900_001])
      metrics.exchange(summary({ route: '/a', outcome: 'answered', ms }))
    const page = parse(metrics.render())
    const bucket = (le: string) =>
      page.value('tollgate_exchange_duration_seconds_bucket', { ...at('/a'), outcome: 'answered', le })
    expect([bucket('0.01'), bucket('0.05'), bucket('60'), bucket('900'), bucket('+Inf')]).toEqual([
      '2',
      '4',
      '4',
      '5',
      '6',
    ])
    const sum = page.value('tollgate_exchange_duration_seconds_sum', { ...at('/a'), outcome: 'answered' })
    expect(Number(sum)).toBeCloseTo(1800.073, 6)
    for (const { values } of histograms(page, 'tollgate_exchange_duration_seconds')) {
      expect(values).toEqual([...values].sort((one, other) => one - other))
    }
  })

  it('no tokens without a model', () => {
    const metrics = create()
    metrics.exchange(
      summary({
        route: '/a',
        outcome: 'refused',
        ms: 1,
        usage: usageOf({}),
        charge: { amount: 5n, overrun: 0n },
        target: 'openai',
      }),
    )
    const page = parse(metrics.render())
    expect(page.samples('tollgate_tokens_total')).toEqual([])
    // Charges of a raw route have its path as the route and a provider as the target.
    expect(page.samples('tollgate_charged_dollars_total')).toMatchObject([{ labels: at('/a', 'none', 'openai') }])
  })
})

const SERVING: ServingFigures = {
  isOverloaded: true,
  held: 1_500_000_000n,
  targets: [{ provider: 'a', target: 'a/b', state: 'ejected', inflight: 2, ejections: 3 }],
  credentialsOut: [['a', 1]],
}

const LIMITED = { limits: [1, 2], counts: [3, 4], count: 9, sum: 12 }

const MAIN: MainSources = {
  version: '1.2.3',
  configHash: () => '0123456789ab',
  inflight: () => 3,
  inflightLimit: () => 100,
  queued: () => 6,
  threads: () => ({ answering: 1, silent: 1, deaths: 2 }),
  configuration: () => ({ isCurrent: false, atMs: 5000 }),
  holdsOpen: () => 2,
  ledgerHealthy: () => true,
  lease: () => ({ renewedAtMs: 7000, failures: 1, takeovers: 2 }),
  stateServer: () => ({ isUp: true, lost: 0 }),
  alerts: () => ({ kinds: new Map([['budget', 4]]), waiting: new Map([['ops', 2]]) }),
}

const OWN: OwnSources = {
  serving: () => SERVING,
  unwritten: () => ({ spooled: 5, waiting: 4, corrected: 3 }),
  writing: () => ({
    commits: { seconds: LIMITED, operations: LIMITED, refused: 1 },
    waiting: 7,
    mailboxFill: 0.25,
    mailboxFull: 8,
  }),
  node: {
    thread: 'main',
    roundMs: 50,
    watch(round) {
      // One iteration on time, one 30 ms late.
      for (const atMs of [0, 50, 130]) round(atMs)
      return () => {}
    },
  },
}

function create(main: Partial<MainSources> = {}, own: Partial<OwnSources> = {}): Metrics {
  return measured(createMetrics({ ...OWN, ...own }, { ...MAIN, ...main }))
}

/** In a serving thread. */
function createInThread(own: Partial<OwnSources> = {}): Metrics {
  const node: OwnSources['node'] = { ...OWN.node, thread: 'serving' }
  return measured(createMetrics({ ...OWN, node, ...own }, null))
}

function measured(metrics: Metrics): Metrics {
  onTestFinished(metrics.close)
  return metrics
}

function usageOf(usage: Partial<MeteredUsage>): MeteredUsage {
  return {
    input: 0,
    output: 0,
    source: 'reported',
    ...usage,
  }
}

interface Sample {
  readonly name: string
  readonly labels: Record<string, string>
  readonly value: string
}

interface Family {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly samples: Sample[]
}

class Page {
  readonly families: Family[] = []

  names(): string[] {
    return this.families.flatMap(family => [family.name, ...family.samples.map(sample => sample.name)])
  }

  samples(name: string): Sample[] {
    return this.families.flatMap(family => family.samples.filter(sample => sample.name === name))
  }

  value(name: string, labels: Record<string, string> = {}): string | undefined {
    const wanted = JSON.stringify(labels)
    const found = this.samples(name).filter(sample => JSON.stringify(sample.labels) === wanted)
    expect(found.length).toBeLessThanOrEqual(1)
    return found[0]?.value
  }
}

const SUFFIXES: Record<string, readonly string[]> = {
  counter: [''],
  gauge: [''],
  histogram: ['_bucket', '_sum', '_count'],
}

/** A strict parser of Prometheus' text format 0.0.4: HELP, TYPE, then the samples of that family; no duplicates. */
function parse(text: string): Page {
  expect(text.endsWith('\n')).toBe(true)
  const page = new Page()
  const seen = new Set<string>()
  const lines = text.slice(0, -1).split('\n')
  for (let index = 0; index < lines.length; ) {
    const help = /^# HELP ([a-z_:][a-z0-9_:]*) (.+)$/.exec(lines[index++]!)
    const type = /^# TYPE ([a-z_:][a-z0-9_:]*) (counter|gauge|histogram)$/.exec(lines[index++] ?? '')
    if (!help || !type || help[1] !== type[1])
      throw new Error(`no HELP and TYPE before line ${index}: ${lines[index - 2]}`)
    const samples: Sample[] = []
    const family = { name: help[1]!, type: type[2]!, help: unescaped(help[2]!), samples }
    for (; index < lines.length && !lines[index]!.startsWith('#'); index++) {
      const sample = parseSample(lines[index]!)
      const identity = `${sample.name}${JSON.stringify(Object.entries(sample.labels).sort())}`
      if (seen.has(identity)) throw new Error(`duplicate sample: ${identity}`)
      seen.add(identity)
      if (!SUFFIXES[family.type]!.some(suffix => family.name + suffix === sample.name)) {
        throw new Error(`${sample.name} is listed under ${family.name}`)
      }
      samples.push(sample)
    }
    page.families.push(family)
  }
  return page
}

function parseSample(line: string): Sample {
  const name = /^[a-z_:][a-z0-9_:]*/.exec(line)?.[0] ?? ''
  let rest = line.slice(name.length)
  const labels: Record<string, string> = {}
  if (rest.startsWith('{')) {
    rest = rest.slice(1)
    for (
      let pair: RegExpExecArray | null;
      (pair = /^([a-z_][a-z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|\})/.exec(rest));
    ) {
      if (pair[1]! in labels) throw new Error(`the label ${pair[1]} is twice in: ${line}`)
      labels[pair[1]!] = unescaped(pair[2]!)
      rest = rest.slice(pair[0].length)
      if (pair[3] === '}') break
    }
  }
  const value = /^ (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|NaN|[+-]Inf)$/.exec(rest)?.[1]
  if (name === '' || value === undefined) throw new Error(`not a sample: ${line}`)
  return { name, labels, value }
}

function unescaped(text: string): string {
  return text.replace(/\\([\\"n])/g, (_, character) => (character === 'n' ? '\n' : character))
}

function histograms(page: Page, name: string): { values: number[] }[] {
  const series = new Map<string, number[]>()
  for (const { labels, value } of page.samples(`${name}_bucket`)) {
    const { le: _le, ...others } = labels
    const key = JSON.stringify(others)
    series.set(key, [...(series.get(key) ?? []), Number(value)])
  }
  expect(series.size).toBeGreaterThan(0)
  return [...series.values()].map(values => ({ values }))
}
