/** Processes that tests have started and not ended: those of the run's process group, and those with the run's mark. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'

interface TestRun {
  readonly pid: number
  readonly isGroup: boolean
}

/** Servers of a run end by themselves when they see that it is over (test/helpers/postgres.ts). */
const OWN_END_MS = 10_000

/**
 * Waits for the servers of a run to end, ends all that is left, and returns their command lines. Returns none where there is
 * no /proc.
 * @param run the first process of the tests; its group counts where it has one of its own, and the mark always
 * @param ownEndMs how long it waits, in milliseconds
 */
export async function endLeftovers(run: TestRun, ownEndMs = OWN_END_MS): Promise<string[]> {
  for (let waited = 0; waited < ownEndMs && leftovers(run).length > 0; waited += 100) await wait(100)
  const left = leftovers(run)
  for (const { pid } of left) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended meanwhile.
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
      // It has ended meanwhile, or it is another user's.
      return []
    }
  })
}
