/** Prints one line for each file that has ended. Then prints the slow files, the skipped tests with their reasons, and the failures. */
import { DefaultReporter, type TestCase, type TestModule } from 'vitest/node'

/** The most slow files that are shown. */
const SLOW_SHOWN = 8
/** The least time of a slow file. */
const SLOW_MS = 5_000

interface FileResult {
  readonly name: string
  readonly ms: number
}

export default class LineReporter extends DefaultReporter {
  constructor() {
    super({ summary: false })
  }

  readonly #slow: FileResult[] = []
  /** The files with skipped tests, by reason. */
  readonly #leftOut = new Map<string, Set<string>>()

  override onTestModuleEnd(module: TestModule): void {
    const cases = [...module.children.allTests()]
    const count = (state: string) => cases.filter(each => each.result().state === state).length
    const [failed, skipped] = [count('failed'), count('skipped')]
    const name = module.relativeModuleId
    const { duration } = module.diagnostic()
    const parts = [
      `${cases.length - failed - skipped} passed`,
      ...(failed > 0 ? [`${failed} FAILED`] : []),
      ...(skipped > 0 ? [`${skipped} left out`] : []),
    ]
    this.log(`${module.ok() ? '✓' : '✗'} ${name}  ${parts.join(', ')}  ${(duration / 1000).toFixed(1)} s`)
    if (duration >= SLOW_MS) this.#slow.push({ name, ms: duration })
    for (const each of cases) this.#noteSkipped(each, name)
  }

  #noteSkipped(each: TestCase, name: string): void {
    const result = each.result()
    if (result.state !== 'skipped') return
    // A test without a note was skipped by a filter of the command line.
    const { note } = result
    if (note !== undefined) this.#leftOut.set(note, (this.#leftOut.get(note) ?? new Set()).add(name))
  }

  override reportSummary(...args: Parameters<DefaultReporter['reportSummary']>): void {
    const slowest = this.#slow.toSorted((one, other) => other.ms - one.ms).slice(0, SLOW_SHOWN)
    if (slowest.length > 0) this.log('\nSlow:')
    for (const { name, ms } of slowest) this.log(`  ${(ms / 1000).toFixed(1).padStart(6)} s  ${name}`)
    if (this.#leftOut.size > 0) this.log('\nLeft out:')
    for (const [reason, names] of this.#leftOut) this.log(`  ${reason}: ${[...names].join(', ')}`)
    super.reportSummary(...args)
  }
}
