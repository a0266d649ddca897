/**
 * The Helm chart: its output is valid by the schemas of Kubernetes, and gateways run with its files, ports and probes. The
 * tests need no Kubernetes.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { METRICS } from '../../src/observe/metric-list.ts'
import { runCommand } from '../helpers/command.ts'
import { createAccount, startGateway, temporaryDirectory } from '../helpers/gateway.ts'
import { describeWith, testWith } from '../helpers/missing.ts'
import { testDatabase, WITHOUT_POSTGRES } from '../helpers/postgres.ts'
import { findProgram, TOOLS } from '../helpers/programs.ts'
import { ROOT, read } from '../helpers/repository.ts'
import { SERVICE_MONITOR_SCHEMA } from './service-monitor-schema.ts'

const CHART = join(ROOT, 'src/deploy/chart')
const EXAMPLE = join(ROOT, 'src/deploy/example-values.yaml')
/** The version whose schemas are used; the chart states the oldest supported version. */
const KUBERNETES = '1.37'
const SCHEMAS = join(TOOLS, `kubernetes_validate/kubernetes-json-schema/v${KUBERNETES}.0-local-strict`)

const helm = findProgram('helm')
const kubeconform = findProgram('kubeconform')
const missing = [
  ...(helm ? [] : [`GOBIN=${TOOLS}/bin go install helm.sh/helm/v3/cmd/helm@latest`]),
  ...(kubeconform ? [] : [`GOBIN=${TOOLS}/bin go install github.com/yannh/kubeconform/cmd/kubeconform@latest`]),
  ...(existsSync(SCHEMAS) ? [] : [`pip install --target ${TOOLS} --no-deps kubernetes-validate==${KUBERNETES}.0`]),
]

type Values = Readonly<Record<string, unknown>>
// biome-ignore lint/suspicious/noExplicitAny: a test reads deep into objects of many kinds
type KubernetesObject = any

function run(program: string, args: readonly string[]): { code: number | null; out: string } {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
  return { code: status, out: `${stdout}${stderr}` }
}

/** Renders the example with changed values; null removes a value. */
async function render(values: Values = {}, release?: string): Promise<{ code: number | null; out: string }> {
  return renderOnly(changed(parse(await readFile(EXAMPLE, 'utf8')), values), release)
}

async function renderOnly(values: Values, release = 'gate'): Promise<{ code: number | null; out: string }> {
  const file = join(await temporaryDirectory(), 'values.yaml')
  await writeFile(file, JSON.stringify(values))
  return run(helm!, ['template', release, CHART, '--kube-version', KUBERNETES, '--values', file])
}

function changed(values: Values, changes: Values): Values {
  const result: Record<string, unknown> = { ...values }
  for (const [name, change] of Object.entries(changes)) {
    const old = result[name]
    if (change === null) delete result[name]
    else result[name] = isMap(old) && isMap(change) ? changed(old, change) : change
  }
  return result
}

const isMap = (value: unknown): value is Values => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the rendered objects by `KIND/NAME`. */
async function objects(values: Values = {}, release?: string): Promise<Readonly<Record<string, KubernetesObject>>> {
  const { code, out } = await render(values, release)
  if (code !== 0) throw new Error(out)
  const all = parseAllDocuments(out).map(document => document.toJSON() as KubernetesObject)
  return Object.fromEntries(all.map(object => [`${object.kind}/${object.metadata.name}`, object]))
}

/**
 * Writes self-contained schemas and returns their folder. Those of the package refer to their definitions by a URL, which
 * kubeconform would fetch.
 */
async function standaloneSchemas(all: readonly KubernetesObject[]): Promise<string> {
  const folder = await temporaryDirectory()
  const definitions = (await readFile(join(SCHEMAS, '_definitions.json'), 'utf8')).replaceAll(
    '/api/_definitions.json',
    '',
  )
  for (const { apiVersion, kind } of all) {
    const name = `${kind}-${apiVersion.replace('.k8s.io', '').replace('/', '-')}.json`.toLowerCase()
    if (!existsSync(join(SCHEMAS, name))) continue
    const schema = JSON.parse((await readFile(join(SCHEMAS, name), 'utf8')).replaceAll('/api/_definitions.json', ''))
    delete schema.$id
    await writeFile(join(folder, name), JSON.stringify({ ...schema, $defs: JSON.parse(definitions).$defs }))
  }
  await writeFile(join(folder, 'servicemonitor-monitoring-v1.json'), JSON.stringify(SERVICE_MONITOR_SCHEMA))
  return join(folder, '{{ .ResourceKind }}{{ .KindSuffix }}.json')
}

const EVERYTHING = {
  dashboardUrl: 'https://dash.example.com',
  config: { trust_proxy: 1 },
  autoscaling: { enabled: true },
  serviceMonitor: { enabled: true, labels: { release: 'prometheus' }, tokenSecret: { name: 'scrape' } },
  networkPolicy: {
    enabled: true,
    clients: [{ namespaceSelector: {} }],
    operators: [{ podSelector: { matchLabels: { app: 'prometheus' } } }],
    dashboard: [{ ipBlock: { cidr: '10.0.0.0/8' } }],
  },
  imagePullSecrets: [{ name: 'pull' }],
  service: { type: 'LoadBalancer', annotations: { a: 'b' } },
  state: { storageClass: 'fast', size: '10Gi' },
  podAnnotations: { a: 'b' },
  podLabels: { team: 'ml' },
  nodeSelector: { disk: 'ssd' },
  tolerations: [{ key: 'gate', operator: 'Exists' }],
  priorityClassName: 'high',
}
/** Strings that YAML reads as another type unless they are quoted. */
const NUMBERS = {
  ...EVERYTHING,
  existingSecret: '123',
  priorityClassName: '1000',
  state: { storageClass: '1' },
  serviceMonitor: { enabled: true, tokenSecret: { name: '1', key: 'true' } },
  podLabels: { team: '7' },
  nodeSelector: { ssd: 'yes' },
}
/** One replica with its own store file, without a pause before shutdown. */
const ALONE = { replicas: 1, leaveSeconds: 0, metrics: 'open', resources: {}, config: { store: null, secret: null } }

test('the chart and the package have the same version', () => {
  const { version, appVersion } = parse(read('src/deploy/chart/Chart.yaml'))
  const ours = JSON.parse(read('package.json')).version
  expect({ version, appVersion }).toEqual({ version: ours, appVersion: ours })
  // The README pushes the image under the tag that the chart uses.
  expect(read('src/deploy/README.md')).toContain(`docker push registry.example.com/tollgate:${ours}\n`)
})

describeWith(missing.length > 0 ? missing.join(' && ') : null, 'the chart', () => {
  test.each<[string, Values, string]>([
    ['no routes', { config: { routes: null } }, 'routes'],
    ['a misspelt value', { replica: 3 }, "'replica' not allowed"],
    ['a misspelt value inside', { autoscaling: { enable: true } }, "'enable' not allowed"],
    ['a key that the chart sets', { config: { drain: '10m' } }, 'drain'],
    ['a duration as text', { drainSeconds: '10m' }, '/drainSeconds'],
    ['no Secret', { existingSecret: '' }, '/existingSecret'],
    [
      'a mode that Helm reads as false',
      { policies: { standard: { steps: [{ use: 'route', mode: false }] } } },
      '/mode',
    ],
    ['a label that the chart sets', { podLabels: { 'app.kubernetes.io/name': 'x' } }, 'app.kubernetes.io/name'],
    ['a policy name that is a path', { policies: { '../x': { steps: [] } } }, '../x'],
    ['a store in memory', { config: { store: 'memory' } }, '/config/store'],
    ['replicas with a store in a file', { config: { store: null } }, '3 replicas need config.store in PostgreSQL'],
    [
      'replicas with a store in a file, by autoscaling',
      { ...ALONE, autoscaling: { enabled: true } },
      '10 replicas need config.store',
    ],
    ['replicas with a secret each', { config: { secret: null } }, '3 replicas need config.secret'],
    ['a minimum above the maximum', { autoscaling: { enabled: true, minReplicas: 5, maxReplicas: 2 } }, 'is above'],
    ['a scrape without a token', { serviceMonitor: { enabled: true } }, 'needs serviceMonitor.tokenSecret.name'],
  ])('refuses %s', async (_what, values, sentence) => {
    const { code, out } = await render(values)
    expect({ code, out }).toEqual({ code: 1, out: expect.stringContaining(sentence) })
  })

  test('refuses its default values alone: the operator must configure providers, models and routes', async () => {
    expect(await renderOnly({})).toEqual({ code: 1, out: expect.stringContaining("missing property 'routes'") })
  })

  test('passes helm lint', () => {
    const { code, out } = run(helm!, ['lint', '--strict', '--values', EXAMPLE, CHART])
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('0 chart(s) failed') })
  })

  test.each<[string, Values, number, release?: string]>([
    ['by default', {}, 5],
    ['with everything', EVERYTHING, 9],
    ['with one replica', ALONE, 5],
    ['with strings that YAML would read as numbers', NUMBERS, 9, '123'],
    ['with a release name of maximum length', EVERYTHING, 9, 'x'.repeat(53)],
  ])('%s its objects are valid by the schemas of Kubernetes', async (_what, values, count, release = 'gate') => {
    const all = Object.values(await objects(values, release))
    expect(all).toHaveLength(count)
    for (const { kind, metadata } of all) {
      // Kubernetes appends 11 characters to a StatefulSet's name in a label.
      expect(metadata.name.length, metadata.name).toBeLessThanOrEqual(kind === 'StatefulSet' ? 52 : 63)
    }
    const file = join(await temporaryDirectory(), 'all.yaml')
    await writeFile(file, (await render(values, release)).out)
    const location = await standaloneSchemas(all)
    const args = ['-strict', '-summary', '-output', 'json', '-schema-location', location, file]
    const { out } = run(kubeconform!, args)
    expect(JSON.parse(out)).toEqual({ resources: [], summary: { valid: count, invalid: 0, errors: 0, skipped: 0 } })
  })

  test.each([
    ['StatefulSet', ({ template }: KubernetesObject) => template.spec, 'terminationGracePeriod'],
    ['ServiceMonitor', ({ endpoints }: KubernetesObject) => endpoints[0], 'bearerToken'],
  ])('kubeconform finds a misspelt field of a %s with these schemas', async (kind, place, name) => {
    const { [`${kind}/gate-tollgate`]: object } = await objects(EVERYTHING)
    place(object.spec)[name] = 60
    const file = join(await temporaryDirectory(), 'object.yaml')
    await writeFile(file, JSON.stringify(object))
    const { code, out } = run(kubeconform!, ['-strict', '-schema-location', await standaloneSchemas([object]), file])
    expect({ code, out }).toEqual({ code: 1, out: expect.stringContaining(name) })
  })

  test('the grace period of a replica exceeds its longest shutdown, and its volume is retained', async () => {
    for (const drainSeconds of [1, 30, 3600]) {
      const { 'StatefulSet/gate-tollgate': set, 'ConfigMap/gate-tollgate': files } = await objects({ drainSeconds })
      const { terminationGracePeriodSeconds: grace, containers } = set.spec.template.spec
      const pause = containers[0].lifecycle.preStop.sleep.seconds
      expect(parse(files.data['gateway.yaml']).drain).toBe(`${drainSeconds}s`)
      // src/runtime/shutdown.ts: 15 s for requests that were cut, and 20 s to release the resources of the process.
      expect(grace).toBeGreaterThanOrEqual(pause + drainSeconds + 15 + 20)
    }
    const { 'StatefulSet/gate-tollgate': set } = await objects()
    const { volumeClaimTemplates, persistentVolumeClaimRetentionPolicy: kept, template } = set.spec
    expect(kept).toEqual({ whenScaled: 'Retain', whenDeleted: 'Retain' })
    const mounts = template.spec.containers[0].volumeMounts
    expect(mounts).toContainEqual({ name: volumeClaimTemplates[0].metadata.name, mountPath: '/etc/tollgate/.tollgate' })
  })

  test('a node drain evicts one replica at a time, and none while PostgreSQL is down and no replica is ready', async () => {
    const { 'PodDisruptionBudget/gate-tollgate': budget } = await objects()
    expect(budget.spec).toMatchObject({ maxUnavailable: 1, unhealthyPodEvictionPolicy: 'IfHealthyBudget' })
  })

  test('objects refer to each other by matching names', async () => {
    const all = await objects(EVERYTHING)
    const set = all['StatefulSet/gate-tollgate']
    const { labels } = set.spec.template.metadata
    const ports: readonly string[] = set.spec.template.spec.containers[0].ports.map(
      ({ name }: { name: string }) => name,
    )
    for (const service of Object.values(all).filter(({ kind }) => kind === 'Service')) {
      expect(labels).toMatchObject(service.spec.selector)
      for (const { targetPort } of service.spec.ports) expect(ports).toContain(targetPort)
    }
    const replicas = all[`Service/${set.spec.serviceName}`]
    expect(replicas.spec.clusterIP).toBe('None')
    const { selector, endpoints } = all['ServiceMonitor/gate-tollgate'].spec
    const scraped = Object.values(all).filter(
      ({ kind, metadata }) =>
        kind === 'Service' &&
        Object.entries(selector.matchLabels).every(([name, value]) => metadata.labels[name] === value),
    )
    expect(scraped).toEqual([replicas])
    expect(replicas.spec.ports.map(({ name }: { name: string }) => name)).toContain(endpoints[0].port)
    expect(endpoints[0].authorization.credentials).toEqual({ name: 'scrape', key: 'token' })
    for (const kind of ['PodDisruptionBudget', 'NetworkPolicy']) {
      const { spec } = all[`${kind}/gate-tollgate`]
      expect(labels).toMatchObject((spec.selector ?? spec.podSelector).matchLabels)
    }
    for (const rule of all['NetworkPolicy/gate-tollgate'].spec.ingress) expect(ports).toContain(rule.ports[0].port)
    const scaler = all['HorizontalPodAutoscaler/gate-tollgate'].spec
    expect(all).toHaveProperty([`${scaler.scaleTargetRef.kind}/${scaler.scaleTargetRef.name}`])
    expect(set.spec).not.toHaveProperty('replicas')
    const { name } = scaler.metrics[0].pods.metric
    expect(METRICS).toContainEqual(expect.objectContaining({ name, type: 'gauge' }))
  })

  test('a changed policy restarts the replicas, and a changed number of replicas does not', async () => {
    const sumOf = async (values: Values) =>
      (await objects(values))['StatefulSet/gate-tollgate'].spec.template.metadata.annotations['checksum/config']
    const first = await sumOf({})
    expect(await sumOf({ replicas: 5 })).toBe(first)
    expect(await sumOf({ policies: { standard: { steps: [{ use: 'route' }] } } })).not.toBe(first)
  })

  test.each<[string, Values]>([
    ['by default', {}],
    ['with everything', EVERYTHING],
    ['with one replica', ALONE],
  ])('%s its files are a configuration that passes tollgate check', async (_what, values) => {
    const { config } = await writeFiles(await objects(values))
    const { code, err, out } = await runCommand(ROOT, ['check', config])
    expect({ code, text: err + out }).toEqual({ code: 0, text: expect.any(String) })
  })

  testWith(WITHOUT_POSTGRES, 'a gateway runs with its files and answers its probes', async () => {
    const all = await objects()
    const { config, secrets } = await writeFiles(all)
    await writeFile(join(secrets, 'database-url'), (await testDatabase()).url)
    const yaml = (await readFile(config, 'utf8'))
      .replace(/0\.0\.0\.0:\d+/g, '127.0.0.1:0')
      .replace('600s', '20s')
      // This model takes seconds to answer.
      .replace('- model: demo-small', '- model: demo-reasoning')
    const policies = { standard: await readFile(join(config, '../policies/standard.yaml'), 'utf8') }
    const gateway = await startGateway({ yaml, policies })
    const [{ startupProbe, livenessProbe, readinessProbe }] =
      all['StatefulSet/gate-tollgate'].spec.template.spec.containers
    const probes = [startupProbe, livenessProbe, readinessProbe]
    expect(probes.map(({ httpGet }) => httpGet.port)).toEqual(['admin', 'admin', 'admin'])
    for (const { httpGet } of probes) {
      expect((await fetch(`${gateway.adminUrl}${httpGet.path}`)).status).toBe(200)
    }
    // An open stream delays the drain; meanwhile the replica is alive and not ready.
    const { key } = await createAccount(gateway, { credit: '10' })
    const stream = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'demo-small', stream: true, messages: [{ role: 'user', content: 'hello' }] }),
    })
    const ended = gateway.stop()
    await expect.poll(() => statusOf(gateway.adminUrl + readinessProbe.httpGet.path)).toBe(503)
    expect(await statusOf(gateway.adminUrl + livenessProbe.httpGet.path)).toBe(200)
    expect(await stream.text()).toContain('data: ')
    expect(await ended).toBe(0)
  })
})

const statusOf = (url: string) => fetch(url).then(({ status }) => status)

/** Writes the files of the ConfigMap to their mount paths below a temporary root, with invented secrets. */
async function writeFiles(
  all: Readonly<Record<string, KubernetesObject>>,
): Promise<{ config: string; secrets: string }> {
  const root = await temporaryDirectory()
  const { containers, volumes } = all['StatefulSet/gate-tollgate'].spec.template.spec
  const { items } = volumes.find(({ name }: { name: string }) => name === 'config').configMap
  const mounts: readonly { mountPath: string; subPath?: string; name: string }[] = containers[0].volumeMounts
  const secrets = join(root, mounts.find(({ name }) => name === 'secret')!.mountPath)
  await mkdir(secrets, { recursive: true })
  await writeFile(join(secrets, 'database-url'), 'postgres://tollgate@127.0.0.1:1/tollgate')
  await writeFile(join(secrets, 'secret'), 'a secret for tests that all replicas share')
  const { data } = all['ConfigMap/gate-tollgate']
  expect(items.map(({ key }: { key: string }) => key).sort()).toEqual(Object.keys(data).sort())
  for (const { key, path } of items as readonly { key: string; path: string }[]) {
    const mount = mounts.find(({ name, subPath }) => name === 'config' && `${path}/`.startsWith(`${subPath}/`))!
    const file = join(root, mount.mountPath, path.slice(mount.subPath!.length))
    await mkdir(join(file, '..'), { recursive: true })
    await writeFile(file, data[key].replaceAll('${file:/', `\${file:${root}/`))
  }
  return { config: join(root, 'etc/tollgate/gateway.yaml'), secrets }
}
