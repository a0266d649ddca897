/**
 * The Containerfile. Every run checks its instructions, and a gateway on the files that it copies.
 * `npm run test:full -- clients` also builds the image with buildah on base images of Debian's packages, and runs it with a
 * read-only root.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, symlinkSync } from 'node:fs'
import { chmod, chown, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { onlyFull } from '../helpers/counts.ts'
import { freePort } from '../helpers/free-port.ts'
import { createAccount, startGateway, temporaryDirectory, tollgate } from '../helpers/gateway.ts'
import { describeWith } from '../helpers/missing.ts'
import { ROOT, read } from '../helpers/repository.ts'
import { buildImage, type Image, WITHOUT_IMAGES } from './image.ts'

interface Instruction {
  readonly name: string
  readonly text: string
}

/** Returns the instructions by stage. */
function readStages(): Instruction[][] {
  const lines = read('src/deploy/Containerfile')
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll('\\\n', ' ')
    .split('\n')
  const stages: Instruction[][] = []
  for (const line of lines.filter(Boolean)) {
    const [name, ...rest] = line.split(' ')
    if (name === 'FROM') stages.push([])
    stages.at(-1)!.push({ name: name!, text: rest.join(' ').replaceAll(/ +/g, ' ') })
  }
  return stages
}

const STAGES = readStages()
const [BUILD, FINAL] = STAGES as [Instruction[], Instruction[]]
const textOf = (name: string) => FINAL.find(instruction => instruction.name === name)!.text
const CONFIG = '/etc/tollgate/gateway.yaml'

/** Returns the sources of the `COPY` instructions: paths in the checkout. */
function copied(): string[] {
  const copies = BUILD.filter(({ name }) => name === 'COPY').map(({ text }) => text.split(' ').slice(0, -1))
  return [...new Set(copies.flat())]
}

/** Returns the command of HEALTHCHECK with another port. */
function healthCheck(port: number): string[] {
  const [, words] = /CMD (\[.*\])$/.exec(textOf('HEALTHCHECK'))!
  return (JSON.parse(words!) as string[]).map(word => word.replace(':8080/', `:${port}/`))
}

async function isHealthy(port: number): Promise<boolean> {
  const [, ...args] = healthCheck(port)
  const [code] = await once(spawn(process.execPath, args, { stdio: 'inherit' }), 'exit')
  return code === 0
}

const YAML = parse(read('src/deploy/gateway.yaml'))
const demo = (listen: string) => ({
  version: 1,
  listen,
  drain: '20s',
  providers: YAML.providers,
  models: YAML.models,
  routes: YAML.routes,
})
const POLICIES = { standard: read('src/deploy/policies/standard.yaml') }

test('the image runs as a user without root rights, on base images with a version', () => {
  expect(STAGES).toHaveLength(2)
  for (const [from] of STAGES) expect(from!.text).toMatch(/^docker\.io\/library\/\w+:(?!latest)[\w.-]+( AS build)?$/)
  expect(textOf('USER')).toMatch(/^[1-9]\d+:[1-9]\d+$/)
  expect(textOf('VOLUME')).toBe('/etc/tollgate/.tollgate')
})

test('SIGTERM reaches the gateway, because neither a shell nor npm starts it', () => {
  const command = [...JSON.parse(textOf('ENTRYPOINT')), ...JSON.parse(textOf('CMD'))]
  expect(command).toEqual(['node', '/opt/tollgate/src/cli/tollgate.js', 'serve', '--config', CONFIG])
  expect(textOf('STOPSIGNAL')).toBe('SIGTERM')
})

test('compose.yaml and the chart use this image', () => {
  const { services } = parse(read('src/deploy/compose.yaml'), { merge: true })
  for (const name of ['tollgate-1', 'tollgate-2', 'tollgate-3']) {
    const { build, read_only, tmpfs, cap_drop, stop_grace_period, command } = services[name]
    expect(build).toEqual({ context: '../..', dockerfile: 'src/deploy/Containerfile' })
    expect({ read_only, tmpfs, cap_drop, command }).toEqual({ read_only: true, tmpfs: ['/tmp'], cap_drop: ['ALL'] })
    // src/runtime/shutdown.ts: 15 s for requests that were cut, and 20 s to release the resources of the process.
    expect(Number.parseInt(stop_grace_period, 10)).toBeGreaterThanOrEqual(Number.parseInt(YAML.drain, 10) + 15 + 20)
  }
  const set = read('src/deploy/chart/templates/statefulset.yaml')
  const [user, group] = textOf('USER').split(':')
  for (const line of [`runAsUser: ${user}`, `runAsGroup: ${group}`, `fsGroup: ${group}`]) expect(set).toContain(line)
  for (const path of [CONFIG, textOf('VOLUME')]) expect(set).toContain(`mountPath: ${path}`)
  expect(set).toContain(`containerPort: ${textOf('EXPOSE')}`)
})

describe('the health check', () => {
  test('fails on a closed port and on an error status', async () => {
    expect(await isHealthy(await freePort())).toBe(false)
    const server = createServer((_, response) => response.writeHead(503).end()).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    expect(await isHealthy((server.address() as AddressInfo).port)).toBe(false)
  })

  test('passes while a gateway serves', async () => {
    const gateway = await startGateway({ yaml: demo('127.0.0.1:0'), policies: POLICIES })
    expect(await isHealthy(Number(new URL(gateway.url).port))).toBe(true)
  })
})

test('a gateway needs only the copied files', async () => {
  const folder = await temporaryDirectory()
  for (const file of copied()) {
    mkdirSync(join(folder, file, '..'), { recursive: true })
    cpSync(join(ROOT, file), join(folder, file), { recursive: true })
  }
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  expect(existsSync(join(folder, 'test'))).toBe(false)
  const [, removed] = /rm -rf (.*)$/.exec(BUILD.find(({ text }) => text.includes('rm -rf'))!.text)!
  const deleted = removed!.split(' ').filter(path => path.startsWith('src/'))
  expect(deleted).toEqual(['src/deploy'])
  spawnSync('rm', ['-rf', ...deleted], { cwd: folder })
  const entry = join(folder, 'src/cli/tollgate.js')
  const gateway = await startGateway({ yaml: demo('127.0.0.1:0'), policies: POLICIES, entry })
  const { key } = await createAccount(gateway, { credit: '10', entry })
  expect(await stream(gateway.url, key)).toMatch(/data: \[DONE\]\n\n$/)
  expect(await gateway.stop()).toBe(0)
  const mine = await temporaryDirectory()
  expect(await tollgate(['init', mine], { cwd: mine, entry })).toMatchObject({ code: 0, stderr: '' })
})

async function stream(url: string, key: string): Promise<string> {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo-small', stream: true, messages: [{ role: 'user', content: 'hello' }] }),
  })
  return answer.text()
}

describeWith(onlyFull('clients') ?? WITHOUT_IMAGES, 'the image', () => {
  let image: Image
  beforeAll(async () => {
    image = await buildImage()
  })
  afterAll(() => image?.remove())

  test('serves as an unprivileged user on a read-only root, and completes a stream after SIGTERM', async () => {
    const [configuration, state, port] = [await temporaryDirectory(), await temporaryDirectory(), await freePort()]
    await chmod(configuration, 0o755)
    mkdirSync(join(configuration, 'policies'))
    const dashboard = `http://127.0.0.1:${await freePort()}`
    const yaml = { ...demo(`127.0.0.1:${port}`), dashboard: new URL(dashboard).host }
    await writeFile(join(configuration, 'gateway.yaml'), JSON.stringify(yaml))
    await writeFile(join(configuration, 'policies/standard.yaml'), POLICIES.standard)
    await chown(state, 10_001, 10_001)
    const container = image.run({ configuration, state })

    const output = await container.waitFor(/OPENAI_API_KEY=\S+/)
    const [key] = /(?<=OPENAI_API_KEY=)\S+/.exec(output)!
    expect(container.status()).toMatchObject({
      Uid: '10001',
      Gid: '10001',
      NoNewPrivs: '1',
      CapEff: '0000000000000000',
    })
    // Node itself receives the signals.
    expect(container.status()['Name']).toMatch(/^(node|MainThread|tollgate)/)

    for (const path of ['/x', '/opt/tollgate/x', '/etc/tollgate/x', '/opt/tollgate/node_modules/.cache']) {
      expect(container.execute('mkdir', path)).toMatchObject({ code: 1 })
    }
    expect(container.execute('tollgate', 'account', 'create', 'acme', '--credit', '10')).toMatchObject({ code: 0 })
    const [program, ...args] = healthCheck(port)
    expect(container.execute(program!, ...args)).toMatchObject({ code: 0 })

    expect(await (await fetch(dashboard)).text()).toContain('<!doctype html>')
    const answer = stream(`http://127.0.0.1:${port}`, key!)
    await container.waitFor(/"msg":"listening"/)
    await new Promise(resolve => setTimeout(resolve, 500))
    expect(await container.stop()).toBe(0)
    expect(await answer).toMatch(/data: \[DONE\]\n\n$/)
    expect(await container.waitFor(/"msg":"ended"/)).toContain('"outcome":"answered"')
  })

  test('lists its packages in the SBOM and contains no others', () => {
    const bill = JSON.parse(image.read('/opt/tollgate/sbom.cdx.json'))
    expect(bill).toMatchObject({ bomFormat: 'CycloneDX', metadata: { component: { name: 'tollgate' } } })
    const named = bill.components.map(({ name }: { name: string }) => name)
    const { packages } = JSON.parse(read('package-lock.json'))
    const installed = Object.entries<Record<string, boolean>>(packages).filter(
      ([path, { link, optional, devOptional }]) =>
        path.startsWith('node_modules/') && !link && !optional && !devOptional,
    )
    const nameOf = (path: string) => path.split('node_modules/').at(-1)!
    const wrong = installed.filter(([path, { dev }]) => image.has(`/opt/tollgate/${path}`) === (dev === true))
    const unnamed = installed.filter(([path, { dev }]) => !dev && !named.includes(nameOf(path)))
    expect({ wrong, unnamed }).toEqual({ wrong: [], unnamed: [] })
    expect(named).toContain(`node-linux-${process.arch}`)
    expect(image.has('/opt/tollgate/src/dashboard/dist/index.html')).toBe(true)
    for (const path of ['/opt/tollgate/test', '/opt/tollgate/src/deploy', '/opt/tollgate/.git', '/usr/local/bin/npm']) {
      expect({ path, is: image.has(path) }).toEqual({ path, is: false })
    }
    expect(image.writable()).toEqual(['/etc/tollgate/.tollgate'])
  })
})
