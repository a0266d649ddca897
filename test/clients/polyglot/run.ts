/** Runs one client's program against the rig, and collects the results of client, gateway and provider. */
import { spawn } from 'node:child_process'
import type { Line, Run } from './features.ts'
import type { Rig } from './rig.ts'
import { cleanEnvironment, emptyHome, type Program } from './toolchains.ts'

/** For all features, with the waits of some libraries between their attempts. */
export const RUN_MOST_MS = 5 * 60_000

export async function runProgram(program: Program, { gateway, provider, env }: Rig): Promise<Run> {
  const logged = gateway.log.length
  const asked = provider.requests.length
  const lines = await linesOf(program, env)
  // A program may end before the gateway has settled its aborted request.
  while (gateway.balance().held > 0n) await new Promise(resolve => setTimeout(resolve, 50))
  return {
    lines: new Map(lines.map(line => [line.feature, line])),
    exchanges: gateway.log.slice(logged).filter(line => line['msg'] === 'exchange'),
    sent: provider.requests.slice(asked),
  }
}

async function linesOf({ command, args, env: own }: Program, env: Readonly<Record<string, string>>): Promise<Line[]> {
  const home = emptyHome()
  const machine = Object.entries(cleanEnvironment()).filter(([name]) => !/_proxy$/i.test(name))
  const child = spawn(command, args, {
    env: { ...Object.fromEntries(machine), HOME: home, ...env, ...own },
    cwd: home,
    timeout: RUN_MOST_MS,
    killSignal: 'SIGKILL',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => void (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => void (stderr += text))
  const code = await new Promise((resolve, reject) => child.once('close', resolve).once('error', reject))
  if (code !== 0) throw new Error(`the program ended with ${code}:\n${stderr.slice(-3000)}\n${stdout.slice(-3000)}`)
  // Libraries print too: other lines are skipped.
  return stdout.split('\n').flatMap(text => (text.startsWith('{"') ? [JSON.parse(text) as Line] : []))
}
