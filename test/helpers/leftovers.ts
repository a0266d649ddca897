/** Processes that tests have started and not ended: in the run's process group, or with the run's mark in the environment. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'

interface TestRun {
  readonly pid: number
  readonly isGroup: boolean
}

/** The servers of a run end by themselves after the run (test/helpers/postgres.ts). */
const OWN_END_MS = 10_000

/**
 * Waits for the servers of a run to end, kills all other processes, and returns their command lines. Without /proc, returns none.
 * @param run the first process of the tests. Processes of its group are found if it has a group of its own, and always those with the mark
 * @param ownEndMs how long it waits, in milliseconds
 */
export async function endLeftovers(run: TestRun, ownEndMs = OWN_END_MS): Promise<string[]> {
  for (let waited = 0; waited < ownEndMs && leftovers(run).length > 0; waited += 100) await wait(100)
  const left = leftovers(run)
  for (const { pid } of left) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has already ended.
    }
  }
  return left.map(({ command }) => command)
}

function leftovers(run: TestRun): { readonly pid: number; readonly command: string }[] {
  if (!existsSync('/proc/self/stat')) return []
  const mark = `TOLLGATE_TEST_RUN=${run.pid}\0`
  return readdirSync('/proc').flatMap(name => {
    const pid = Number(name)
    if (!(pid > 0) || pid === process.pid) return []
    try {
      // "pid (name) state parent group …": the name may have spaces.
      const [state, , itsGroup] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
      const isOurs =
        (run.isGroup && Number(itsGroup) === run.pid) || readFileSync(`/proc/${pid}/environ`, 'utf8').includes(mark)
      if (!isOurs || state === 'Z') return []
      return [{ pid, command: readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim() }]
    } catch {
      // It has already ended, or it is another user's.
      return []
    }
  })
}
