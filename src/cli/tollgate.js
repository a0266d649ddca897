#!/usr/bin/env node
// The command `tollgate`. Plain JavaScript on purpose: it must load on any Node, so that it can say what is wrong with it.
//
// A checkout brings its own Node (src/node-runtime): where the one that runs this is too old, the same command runs again
// on that one, as a child that shares the terminal. For everybody outside the two are one process: signals go down, the
// exit code or the signal comes up, and the child does not outlive the parent.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import * as nodeModule from 'node:module'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'

// Equal to `engines` of package.json: older ones lack stable type stripping or security fixes.
const MINIMUM = [24, 18, 1]
// Set for the child only: the id of the parent that runs it.
const PARENT = 'TOLLGATE_PARENT'
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2']

// By default Node opens its inspector at this signal: a port on which everybody on the machine can run code in the gateway.
// A listener takes the place of that, also where `--disable-sigusr1` is unknown. Whoever wants the inspector says `--inspect`.
process.on('SIGUSR1', () => {})

// For `serve`: src/README.md says why. Node reads it when it makes its heap, so it cannot be set later.
const YOUNG_HEAP = '--max-semi-space-size=16'

const checkoutNode = fileURLToPath(new URL('../../node_modules/.bin/node', import.meta.url))
const isChild = process.env[PARENT] === String(process.ppid)
delete process.env[PARENT]

if (isRecent(process.versions.node)) {
  if (isChild) endWithParent()
  replaceForHeap()
  // Node does not strip types below node_modules, so an installed package runs what was compiled.
  const source = new URL('./cli.ts', import.meta.url)
  const compiled = new URL('../../dist/src/cli/cli.js', import.meta.url)
  const isInstalled = source.pathname.includes('/node_modules/')
  const useSource = existsSync(source) && !isInstalled
  // Reading and compiling all files takes longer than a help text should; what was compiled is kept from one run to the next
  // beside the other generated things, where that can be written. (Not in the shared temporary directory: whoever can write
  // there could put code of his own.)
  const cache = isInstalled ? '../../../.cache/tollgate' : '../../node_modules/.cache/tollgate'
  nodeModule.enableCompileCache(fileURLToPath(new URL(cache, import.meta.url)))
  const { main } = await import((useSource ? source : compiled).href)
  await main()
} else if (!isChild && existsSync(checkoutNode)) {
  runOn(checkoutNode)
} else {
  process.stderr.write(
    `tollgate needs Node.js ${MINIMUM.join('.')} or newer; this is ${process.versions.node}.\n` +
      '  In a checkout: npm ci brings a fitting Node along, then run the command again.\n' +
      '  Anywhere else: install a newer Node from https://nodejs.org\n',
  )
  process.exitCode = 1
}

// Without `semver`: every command starts here, and that package takes 8 ms to load.
function isRecent(version) {
  const parts = version.split('.').map(part => Number.parseInt(part, 10))
  for (const [place, least] of MINIMUM.entries()) {
    if (parts[place] !== least) return parts[place] > least
  }
  return true
}

function runOn(node) {
  const child = spawn(node, [...heapFlags(), ...process.execArgv, process.argv[1], ...process.argv.slice(2)], {
    // The channel carries no messages: its end is how the child learns that this process was killed.
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, [PARENT]: String(process.pid) },
  })
  for (const signal of FORWARDED) process.on(signal, () => child.kill(signal))
  child.on('error', error => {
    process.stderr.write(`tollgate could not start ${node}: ${error.message}\n`)
    process.exitCode = 1
  })
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code)
    for (const forwarded of FORWARDED) process.removeAllListeners(forwarded)
    process.kill(process.pid, signal)
    // Only where the signal cannot end this process: the code a shell would show for it.
    setTimeout(() => process.exit(128 + constants.signals[signal]), 1000)
  })
}

// Whoever has said a size, on the command line or in NODE_OPTIONS, keeps it.
function heapFlags() {
  const options = [...process.execArgv, process.env.NODE_OPTIONS ?? '']
  const isSaid = options.some(option => /semi[-_]space/.test(option))
  return isSaid || !process.argv.includes('serve', 2) ? [] : [YOUNG_HEAP]
}

// Runs the same command in the same process on a heap of another size: a start of Node, and no second process. A channel to
// a parent would not survive it.
function replaceForHeap() {
  const flags = heapFlags()
  if (flags.length === 0 || process.channel || process.platform === 'win32') return
  process.execve(
    process.execPath,
    [process.execPath, ...flags, ...process.execArgv, ...process.argv.slice(1)],
    process.env,
  )
}

// kill -9 reaches the parent only. An orphan would keep the port and the lock on the store, so it goes the same way:
// at once, as whoever killed the parent wanted. The store recovers from that at the next start.
function endWithParent() {
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  process.channel?.unref()
}
