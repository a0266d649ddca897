/** Runs the tools of the corpus: the upstream that replays its answers, and the checker that calls the gateway. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { freePort } from '../helpers/free-port.ts'
import type { ChunkMode } from './corpus.ts'

export interface Replay extends AsyncDisposable {
  /** `http://127.0.0.1:PORT` */
  readonly url: string
}

/** The verdict of the checker on the cases of a set. */
export interface Verdict {
  readonly counts: ReadonlyMap<string, { readonly passed: number; readonly checked: number }>
  /** A line for each failed case: its id, whole or stream, and the error. */
  readonly failures: readonly string[]
}

/** Another process may take a free port before the tool listens on it. */
const ATTEMPTS = 5

/** Starts the replaying upstream on a set of cases; resolves when it listens. */
export async function startReplay(corpusDir: string, set: string, mode: ChunkMode): Promise<Replay> {
  let output = ''
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = await freePort()
    const tool = join(corpusDir, 'tools/replay.mjs')
    const child = spawn(process.execPath, [tool, '--dir', set, '--port', String(port), '--chunk', mode], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    output = await firstWords(child)
    if (output.startsWith('replay:'))
      return { url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: () => end(child) }
    await end(child)
  }
  throw new Error(`the replaying upstream does not start: ${output}`)
}

/** Runs the checker over all cases of a set. Its counts are per provider. */
export async function check(corpusDir: string, set: string, gateway: string): Promise<Verdict> {
  const tool = join(corpusDir, 'tools/check.mjs')
  const args = ['--gateway', `${gateway}/v1`, '--set', set, '--verbose']
  const child = spawn(process.execPath, [tool, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0 || !/^TOTAL /m.test(stdout)) throw new Error(`the checker failed (${code}):\n${stderr}${stdout}`)
  const counts = [...stdout.matchAll(/^(\S+) +(\d+)\/(\d+)$/gm)].map(
    ([, provider, passed, checked]) => [provider!, { passed: Number(passed), checked: Number(checked) }] as const,
  )
  return { counts: new Map(counts), failures: stdout.split('\n').filter(line => line.includes(' | ')) }
}

async function firstWords(child: ChildProcess): Promise<string> {
  const words = once(child.stderr!.setEncoding('utf8'), 'data') as Promise<[string]>
  const closed = once(child, 'close').then(() => ['it ended at once'] as const)
  const [text] = await Promise.race([words, closed])
  // Further output must not fill the pipe.
  child.stderr!.resume()
  return text
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const closed = once(child, 'close')
  child.kill('SIGKILL')
  await closed
}
