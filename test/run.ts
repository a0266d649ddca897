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
  // A group of its own gets a signal whole: npm passes none on before it has started the script. Only what reads from a
  // terminal has to stay in the terminal's group.
  const isGroup = stdio === 'pipe' || !process.stdin.isTTY
  const child = spawn('npm', ['run', '--silent', script, '--', ...args], {
    stdio: [stdio === 'pipe' ? 'ignore' : 'inherit', stdio, stdio],
    detached: isGroup,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', text => (output += text))
  let repeating: NodeJS.Timeout | undefined
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      stopped = signal
      const pass = () => tryToKill(isGroup ? -child.pid! : child.pid!, signal)
      pass()
      // One that comes while npm starts the script may be lost.
      if (isGroup) repeating ??= setInterval(pass, REPEAT_MS)
    })
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject).once('close', code => {
      clearInterval(repeating)
      resolve({ code: code ?? 1, output })
    })
  })
}

/** Nobody may be left. */
function tryToKill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {}
}

const REPEAT_MS = 250
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
