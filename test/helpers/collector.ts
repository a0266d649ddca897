/** A real OpenTelemetry collector on a free loopback port, which forwards everything that it receives. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'

const PROGRAM = [process.env.TOLLGATE_OTELCOL ?? '', join(tmpdir(), 'tollgate-otelcol/otelcol')].find(existsSync)

/** The reason why no collector is available; null if one is. */
export const WITHOUT_COLLECTOR =
  PROGRAM === undefined
    ? 'the OpenTelemetry collector is missing (test/helpers/otelcol.sh /tmp/tollgate-otelcol/otelcol builds it)'
    : null

export interface Collector extends AsyncDisposable {
  readonly url: string
}

/** @param to the URL of an `OtlpReceiver`, which gets everything at once and as JSON */
export async function startCollector(to: string): Promise<Collector> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-collector-'))
  const file = join(folder, 'collector.yaml')
  const port = await freePort()
  const pipeline = { receivers: ['otlp'], exporters: ['otlphttp'] }
  const configuration = {
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
    exporters: {
      otlphttp: { endpoint: to, encoding: 'json', compression: 'none', sending_queue: { enabled: false } },
    },
    service: {
      telemetry: { metrics: { level: 'none' } },
      pipelines: { traces: pipeline, metrics: pipeline },
    },
  }
  writeFileSync(file, JSON.stringify(configuration))
  const child = spawn(PROGRAM!, ['--config', file], { stdio: ['ignore', 'ignore', 'pipe'] })
  // The collector must not outlive a test process that is killed.
  const kill = () => void child.kill('SIGKILL')
  process.once('exit', kill)
  child.once('exit', () => process.off('exit', kill))
  const end = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const over = once(child, 'exit')
      child.kill('SIGKILL')
      await over
    }
    rmSync(folder, { recursive: true, force: true })
  }
  let said = ''
  for await (const text of child.stderr!.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    said += text
    if (!said.includes('Everything is ready')) continue
    child.stderr!.resume()
    return { url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: end }
  }
  await end()
  throw new Error(`the collector did not start: ${said}`)
}
