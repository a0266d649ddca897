/** One session of a program: several turns with tools, a resumed conversation, a full context, an interrupt. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { ProviderRequest } from '../../helpers/fake-provider.ts'
import { cleanEnvironment } from '../polyglot/toolchains.ts'
import type { InstalledProgram, Launch, Program } from './programs.ts'
import { FORMATS } from './provider.ts'
import type { AgentRig } from './rig.ts'

export interface Home extends Disposable {
  readonly folder: string
}

/** The output of a program, and its exit code or signal. */
export interface ProgramResult {
  readonly output: string
  readonly code: number | string | null
}

/** An empty home folder of one session. */
export function newHome(): Home {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-agent-'))
  mkdirSync(join(folder, 'work'))
  return {
    folder,
    [Symbol.dispose]() {
      endProcessesOf(folder)
      rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
    },
  }
}

/** Only Linux shows the environment of a process. */
function endProcessesOf(home: string): void {
  if (!existsSync('/proc/self/environ')) return
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
      if (environment.includes(`HOME=${home}`)) process.kill(Number(pid), 'SIGKILL')
    } catch {
      // It has ended meanwhile.
    }
  }
}

/** Starts a program with one prompt; `interrupt` sends it the signal of Ctrl-C. */
export async function start(
  program: Program,
  { command }: InstalledProgram,
  rig: AgentRig,
  { folder }: Home,
  turn: Pick<Launch, 'prompt' | 'resume'>,
) {
  const { url, key, model } = rig
  const { args, env: own, files = {}, before } = program.launch({ ...turn, url, key, model, home: folder })
  for (const [name, text] of Object.entries(files)) {
    const file = join(folder, name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
  const machine = Object.entries(cleanEnvironment()).filter(
    ([name]) => !/_proxy$|^(COPILOT|GITHUB|GH|QWEN|XDG)/i.test(name),
  )
  const cwd = join(folder, 'work')
  // opencode works in the folder that PWD names.
  const options: SpawnOptions = {
    cwd,
    env: { ...Object.fromEntries(machine), HOME: folder, PWD: cwd, TERM: 'dumb', CI: 'true', ...own },
    stdio: ['ignore', 'pipe', 'pipe'],
  }
  if (before && !turn.resume) {
    const first = spawn(command, before.args, { ...options, stdio: 'pipe' })
    first.stdin.end(before.input ?? '')
    await endOf(first, folder)
  }
  const child = spawn(command, args, options)
  return { ended: endOf(child, folder), interrupt: () => child.kill('SIGINT') }
}

/** A daemon that the program leaves behind has its pipes, so it is ended too. */
function endOf(child: ChildProcess, home: string): Promise<ProgramResult> {
  let output = ''
  for (const pipe of [child.stdout!, child.stderr!])
    pipe.setEncoding('utf8').on('data', (text: string) => void (output += text))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', () => endProcessesOf(home))
    child.once('close', (code, signal) => resolve({ output, code: code ?? signal }))
  })
}

/** The place where a request breaks the prefix of the previous one that a provider has in its cache. */
export interface PrefixBreak {
  /** The index of the later request, and of the first message that differs; -1 for the parts before the messages. */
  readonly request: number
  readonly message: number
}

/**
 * Compares each request of the conversation with the previous one. Cache marks move with the conversation and do not belong to
 * its prefix. Programs that change earlier messages themselves (Copilot after a resume) have no prefix to keep.
 */
export function prefixBreaks(rig: AgentRig): PrefixBreak[] {
  const speech = FORMATS[rig.dialect]
  const asked = rig.recorder.requests.filter(
    ({ method, path }) => method === 'POST' && /\/(chat\/completions|messages|responses)(\?|$)/.test(path),
  )
  const isTurn = ({ body }: ProviderRequest) => speech.tools(body!).length > 0
  const turns = rig.provider.requests.flatMap((request, at) =>
    isTurn(request) ? [{ request, own: JSON.parse(asked[at]!.body) as Record<string, unknown> }] : [],
  )
  return turns.slice(1).flatMap(({ request, own }, at) => {
    const before = turns[at]!
    if (firstChange(ownParts(before.own), ownParts(own)) !== -1) return []
    const parts = ({ body }: ProviderRequest) => [speech.prompt(body!), ...speech.messages(body!)]
    const first = firstChange(parts(before.request), parts(request))
    return first === -1 ? [] : [{ request: request.index, message: first - 1 }]
  })
}

/** The same parts of a request in any of the three client formats. */
function ownParts({ tools, system, instructions, messages, input }: Record<string, unknown>): unknown[] {
  return [[tools, system, instructions], ...((messages ?? input) as unknown[])]
}

/** The index of the first part that differs in the later request, or is missing there; -1 if none does. */
function firstChange(before: readonly unknown[], now: readonly unknown[]): number {
  return before.findIndex((part, index) => withoutMarks(part) !== withoutMarks(now[index]))
}

function withoutMarks(part: unknown): string {
  return JSON.stringify(part, (name, value) => {
    if (name === 'cache_control') return undefined
    return Array.isArray(value) ? value.filter(item => item?.cachePoint === undefined) : value
  })
}
