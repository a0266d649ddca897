#!/usr/bin/env node
// The command `tollgate`. It is plain JavaScript, because it must load on any Node to report that the Node is too old.
//
// A checkout contains its own Node (src/node-runtime). If the current Node is too old, the same command runs on that one, as a
// child that shares the terminal. From outside, the two behave as one process. Signals are forwarded to the child, and its exit
// code or signal is returned. The child does not outlive the parent.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import * as nodeModule from 'node:module'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'

// Equal to `engines` of package.json. Older versions lack stable type stripping or security fixes.
const MINIMUM = [24, 18, 1]
// Set for the child only: the id of the parent that runs it.
const PARENT = 'TOLLGATE_PARENT'
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2']

// At this signal, Node opens its inspector by default: a port at which all users of the machine can run code in the gateway. A
// listener prevents that, also on a Node that does not know `--disable-sigusr1`. `--inspect` still opens the inspector.
process.on('SIGUSR1', () => {})

// For `serve`: see src/README.md. Node reads it when it creates its heap, so it cannot be set later.
const YOUNG_HEAP = '--max-semi-space-size=16'

const checkoutNode = fileURLToPath(new URL('../../node_modules/.bin/node', import.meta.url))
const isChild = process.env[PARENT] === String(process.ppid)
delete process.env[PARENT]

if (isRecent(process.versions.node)) {
  if (isChild) endWithParent()
  replaceForHeap()
  // Node does not strip types below node_modules, so an installed package runs compiled code.
  const source = new URL('./cli.ts', import.meta.url)
  const compiled = new URL('../../dist/src/cli/cli.js', import.meta.url)
  const isInstalled = source.pathname.includes('/node_modules/')
  const useSource = existsSync(source) && !isInstalled
  // Reading and compiling all files would make help texts slow, so compiled code is cached beside other generated files. (Not in
  // the shared temporary directory, where other users could place their code.)
  const cache = isInstalled ? '../../../.cache/tollgate' : '../../node_modules/.cache/tollgate'
  nodeModule.enableCompileCache(fileURLToPath(new URL(cache, import.meta.url)))
  const { main } = await import((useSource ? source : compiled).href)
  await main()
} else if (!isChild && existsSync(checkoutNode)) {
  runOn(checkoutNode)
} else {
  process.stderr.write(
    `tollgate needs Node.js ${MINIMUM.join('.')} or newer; this is ${process.versions.node}.\n` +
      '  In a checkout: run npm ci, which installs a suitable Node, then run the command again.\n' +
      '  Otherwise: install a newer Node from https://nodejs.org\n',
  )
  process.exitCode = 1
}

// Without `semver`, which takes 8 ms to load, because every command starts here.
function isRecent(version) {
  const parts = version.split('.').map(part => Number.parseInt(part, 10))
  for (const [place, least] of MINIMUM.entries()) {
    if (parts[place] !== least) return parts[place] > least
  }
  return true
}

function runOn(node) {
  const child = spawn(node, [...heapFlags(), ...process.execArgv, process.argv[1], ...process.argv.slice(2)], {
    // The channel carries no messages. Its end shows the child that this process was killed.
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
    // If the signal cannot end this process: the exit code that a shell would show for it.
    setTimeout(() => process.exit(128 + constants.signals[signal]), 1000)
  })
}

// A size on the command line or in NODE_OPTIONS has precedence.
function heapFlags() {
  const options = [...process.execArgv, process.env.NODE_OPTIONS ?? '']
  const isSet = options.some(option => /semi[-_]space/.test(option))
  return isSet || !process.argv.includes('serve', 2) ? [] : [YOUNG_HEAP]
}

// Restarts Node in the same process with another heap size, without a second process. A channel to a parent would be lost.
function replaceForHeap() {
  const flags = heapFlags()
  if (flags.length === 0 || process.channel || process.platform === 'win32') return
  process.execve(
    process.execPath,
    [process.execPath, ...flags, ...process.execArgv, ...process.argv.slice(1)],
    process.env,
  )
}

// kill -9 reaches the parent only. An orphan would keep the port and the lock on the store, so the child is killed at once
// too. The store recovers at the next start.
function endWithParent() {
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  process.channel?.unref()
}
