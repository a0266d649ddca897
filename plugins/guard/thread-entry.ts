/** The guard's thread: it reads long requests. Started by thread.ts. */
import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { guardTexts } from './request.ts'
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

function answerTo({ texts, rules, window }: Question): Answer {
  const findings = new Findings()
  const guarded: (string | null)[] = []
  for (const [i, text] of texts.entries()) {
    const work = guardTexts([text], rulesOf(rules, window), findings)
    try {
      let step = work.next()
      while (!step.done) step = work.next()
      guarded.push(step.value?.[0] ?? null)
    } catch (error) {
      const rule = findings.refusedBy
      if (rule === null) throw error
      return { guarded: null, counts: findings.counts, refused: { rule, text: i } }
    }
  }
  return { guarded: guarded.some(text => text !== null) ? guarded : null, counts: findings.counts, refused: null }
}

function rulesOf(texts: readonly RuleText[], window: number): readonly Rule[] {
  const name = JSON.stringify([texts, window])
  let rules = known.get(name)
  if (rules === undefined) {
    if (known.size >= MAX_KNOWN) known.clear()
    rules = readRules(texts, window)
    known.set(name, rules)
  }
  return rules
}
