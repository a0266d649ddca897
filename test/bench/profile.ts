/** Reads the profiles of `node --cpu-prof`: the time of each function of a thread, without its callees. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** V8's format. */
interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number }
    readonly children?: readonly number[]
  }[]
  readonly samples: readonly number[]
  /** Microseconds since the previous sample. */
  readonly timeDeltas: readonly number[]
  /** Microseconds, like `endTime`. */
  readonly startTime: number
  readonly endTime: number
}

export interface TimeShare {
  readonly name: string
  /** Share of the thread's busy time: 0 to 1. */
  readonly share: number
}

export interface ThreadProfile {
  /** Most expensive first. */
  readonly functions: readonly TimeShare[]
  /** By part of the program. Functions of the runtime count for their nearest caller that has a part. */
  readonly parts: readonly TimeShare[]
  /** Share of the main thread's time: sending operations to the writer thread and receiving its answers. */
  readonly messaging: number
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const ROOT_URL = pathToFileURL(ROOT).href

/** Whether a file sends operations to the ledger's thread, or receives its answers. */
const isMessaging = (file: string) => file.startsWith('src/store/thread/')

/**
 * Reads the profiles of the main thread and, if there is one, of the ledger's, from the folder of a single process.
 * @param lastMs the part before the end of the process to read: before it, the process starts and its code is not compiled yet
 */
export function readProfiles(folder: string, lastMs: number): { main: ThreadProfile; ledger: ThreadProfile | null } {
  // CPU.DATE.TIME.PID.THREAD.NUMBER.cpuprofile; thread 0 is the main thread.
  const files = readdirSync(folder).filter(name => name.endsWith('.cpuprofile'))
  const fileOf = (isMain: boolean) => files.find(name => (name.split('.')[4] === '0') === isMain)
  const read = (name: string) => profileOf(JSON.parse(readFileSync(join(folder, name), 'utf8')) as CpuProfile, lastMs)
  const main = fileOf(true)
  if (main === undefined) throw new Error(`${folder} has no profile of a main thread`)
  const ledger = fileOf(false)
  return { main: read(main), ledger: ledger === undefined ? null : read(ledger) }
}

function profileOf({ nodes, samples, timeDeltas, startTime, endTime }: CpuProfile, lastMs: number): ThreadProfile {
  const parents = new Map(nodes.flatMap(node => (node.children ?? []).map(child => [child, node.id] as const)))
  const frames = new Map(nodes.map(node => [node.id, node.callFrame]))
  const partOfNode = new Map<number, string>()
  const functions = new Map<string, number>()
  const parts = new Map<string, number>()
  let [all, messaging, at] = [0, 0, startTime]
  for (const [index, id] of samples.entries()) {
    const { functionName, url, lineNumber } = frames.get(id)!
    const spent = timeDeltas[index]!
    const file = fileOf(url)
    at += spent
    if (at < endTime - lastMs * 1000 || functionName === '(idle)' || isWaiting(functionName, file)) continue
    all += spent
    add(functions, `${functionName || '(anonymous)'} ${file === '' ? '' : `${file}:${lineNumber + 1}`}`.trim(), spent)
    add(parts, partOf(id), spent)
    if (isMessaging(ownerOf(id))) messaging += spent
  }

  /** Returns the file of the nearest caller outside the runtime. */
  function ownerOf(id: number): string {
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
      const file = fileOf(frames.get(at)!.url)
      if (file !== '' && !file.startsWith('node:')) return file
    }
    return ''
  }

  function partOf(id: number): string {
    let part = partOfNode.get(id)
    if (part === undefined) {
      const { functionName, url } = frames.get(id)!
      const file = fileOf(url)
      const parent = parents.get(id)
      if (file !== '') part = nameOfPart(file)
      else if (functionName.startsWith('(')) part = functionName
      else part = SYSTEM_CALLS.test(functionName) || parent === undefined ? functionName : partOf(parent)
      partOfNode.set(id, part)
    }
    return part
  }

  const sorted = (spent: Map<string, number>) =>
    [...spent].map(([name, time]) => ({ name, share: time / all })).sort((a, b) => b.share - a.share)
  return { functions: sorted(functions), parts: sorted(parts), messaging: messaging / all }
}

/** The ledger's thread has no event loop, so the profiler does not see that it is idle while it waits in its `sleep`. */
function isWaiting(functionName: string, file: string): boolean {
  return functionName === 'sleep' && file === 'src/store/thread/writer-thread.ts'
}

/** Functions of the runtime that make a system call; they have their own row. */
export const SYSTEM_CALLS = /^(writev|writeUtf8String|writeLatin1String|writeBuffer|writeAsciiString)$/

function nameOfPart(file: string): string {
  const module = /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1]
  if (module !== undefined) return module
  if (file.startsWith('node:')) return file.replace(/^node:internal\//, 'node:').split('/')[0]!
  if (isMessaging(file)) return 'src/store: mailboxes of the ledger'
  return dirname(file).split('/').slice(0, 3).join('/')
}

/** Returns the path relative to the repository; empty for C++ functions of V8 and Node. */
function fileOf(url: string): string {
  return url.startsWith(ROOT_URL) ? relative(ROOT, fileURLToPath(url)) : url
}

function add(map: Map<string, number>, key: string, value: number): void {
  map.set(key, (map.get(key) ?? 0) + value)
}
