/** The entry of the guard's thread, which reads long requests. Started by thread.ts. */
import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { atOnce } from '#contract'
import { guardTexts, type NewTexts } from './request.ts'
import { Findings, type Rule, type RuleText, readRules } from './rules.ts'
import type { ThreadRequest, ThreadResult } from './thread.ts'

/** Compiled rules by their text: compiling takes tens of milliseconds. One entry per step; reloads add more. */
const known = new Map<string, readonly Rule[]>()
const MAX_KNOWN = 64
/** A nice value; 19 is the lowest priority. */
const LOWER_PRIORITY = 10

// On a small machine the event loop needs the core. On Linux the priority is the thread's own; elsewhere it is that of the process.
if (process.platform === 'linux') setPriority(0, LOWER_PRIORITY)

parentPort!.on('message', (question: ThreadRequest) => parentPort!.postMessage(answerTo(question)))

function answerTo({ texts, rules }: ThreadRequest): ThreadResult {
  const findings = new Findings()
  let guarded: NewTexts = null
  try {
    guarded = atOnce(guardTexts(texts, rulesOf(rules), findings))
  } catch (error) {
    if (findings.refused === null) throw error
  }
  return { guarded, counts: findings.counts, refused: findings.refused }
}

function rulesOf(texts: readonly RuleText[]): readonly Rule[] {
  const name = JSON.stringify(texts)
  let rules = known.get(name)
  if (rules === undefined) {
    if (known.size >= MAX_KNOWN) known.clear()
    // The step has already checked the window.
    rules = readRules(texts, Number.POSITIVE_INFINITY)
    known.set(name, rules)
  }
  return rules
}
