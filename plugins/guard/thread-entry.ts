/** The guard's thread: it reads long requests. Started by thread.ts. */
import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { atOnce } from '#contract'
import { type Guarded, guardTexts } from './request.ts'
import { Findings, type Rule, type RuleText, readRules } from './rules.ts'
import type { Answer, Question } from './thread.ts'

/** Reading patterns takes tens of milliseconds. There are as many entries as steps, until reloads have changed them often. */
const known = new Map<string, readonly Rule[]>()
const MAX_KNOWN = 64
/** Of 19, the lowest. */
const LOWER_PRIORITY = 10

// It has time, and on a small machine the event loop needs its core. Linux knows a thread's own priority; elsewhere it is the process's.
if (process.platform === 'linux') setPriority(0, LOWER_PRIORITY)

parentPort!.on('message', (question: Question) => parentPort!.postMessage(answerTo(question)))

function answerTo({ texts, rules }: Question): Answer {
  const findings = new Findings()
  let guarded: Guarded = null
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
    // The step has checked that their matches fit its window.
    rules = readRules(texts, Number.POSITIVE_INFINITY)
    known.set(name, rules)
  }
  return rules
}
