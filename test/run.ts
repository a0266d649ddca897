/**
 * Runs scripts of package.json beside a main one: `node test/run.ts typecheck,lint unit [ARGUMENT …]`. The main script has the
 * terminal and the arguments. What the others print follows when all have ended, so that it is not lost in between.
 */
import { spawn } from 'node:child_process'
import { constants } from 'node:os'

const [beside = '', main = '', ...args] = process.argv.slice(2)

interface Ended {
  readonly code: number
  readonly output: string
}

function run(script: string, args: readonly string[], stdio: 'inherit' | 'pipe'): Promise<Ended> {
  const isAlone = stdio === 'pipe'
  const child = spawn('npm', ['run', '--silent', script, '--', ...args], {
    stdio: [isAlone ? 'ignore' : 'inherit', stdio, stdio],
    // npm passes no signal on before it has started the script, so the others are a group each, which gets it whole.
    detached: isAlone,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', text => (output += text))
  // A terminal sends Ctrl-C to the main one too; a signal to this process alone has to be passed on.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      stopped = signal
      if (isAlone) tryToKill(-child.pid!, signal)
      else child.kill(signal)
    })
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject).once('close', code => resolve({ code: code ?? 1, output }))
  })
}

/** Nobody may be left of a group. */
function tryToKill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {}
}

let stopped: 'SIGINT' | 'SIGTERM' | null = null
const others = beside.split(',').map(async script => ({ script, ...(await run(script, [], 'pipe')) }))
const { code } = await run(main, args, 'inherit')
let failed = code !== 0
for (const { script, code, output } of await Promise.all(others)) {
  if (stopped) break
  failed ||= code !== 0
  process.stdout.write(`${code === 0 ? '✓' : '✗'} ${script}\n${code === 0 ? '' : output}`)
}
process.exitCode = stopped ? 128 + constants.signals[stopped] : Number(failed)
