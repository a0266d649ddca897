/**
 * Selects the tool calls of the demo and their arguments.
 *
 * `required` and a tool named by the request always lead to a call. With `auto` a tool is called only if the last message is
 * the user's. It must contain the tool's full name, a keyword of its name, or two keywords of its description; the best
 * match is called. Several calls are made only if several full names are mentioned. A keyword has four letters or more
 * and is not one that any tool might have (STOP).
 */
import { letters } from './chance.ts'
import type { DemoRequest, DemoTool } from './request.ts'
import { type Hints, SampleError, sample } from './sample.ts'

export interface ToolCall {
  readonly id: string
  readonly name: string
  /** JSON text. */
  readonly arguments: string
}

const FULL_NAME = 100
const NAME_WORD = 10
const ENOUGH = 2

/** The calls that answer the request; empty if it is answered in text. */
export function chooseCalls(request: DemoRequest, hints: Hints, random: () => number): ToolCall[] {
  const { mode, tools, parallel } = request.tools
  if (mode === 'none' || tools.length === 0) return []
  if (mode === 'auto' && request.toolResults.length > 0) return []
  const words = new Set(wordsOf(request.lastUserText))
  const scored = tools.map(tool => ({ tool, score: score(tool, request.lastUserText, words) }))
  const best = scored.reduce((left, right) => (right.score > left.score ? right : left))
  if (mode === 'auto' && best.score < ENOUGH) return []
  const named = parallel ? scored.filter(({ score }) => score >= FULL_NAME) : []
  const chosen = named.length > 1 ? named : [best]
  return chosen.map(({ tool }) => ({
    id: `call_${letters(24, random)}`,
    name: tool.name,
    arguments: argumentsOf(tool, hints),
  }))
}

function score(tool: DemoTool, message: string, words: ReadonlySet<string>): number {
  const full = message.toLowerCase().includes(tool.name.toLowerCase()) ? FULL_NAME : 0
  const inName = wordsOf(tool.name).filter(word => words.has(word)).length
  const inDescription = new Set(wordsOf(tool.description).filter(word => words.has(word))).size
  return full + NAME_WORD * inName + inDescription
}

/** The keywords of a text in lower case: `getUserOrders` and `get_user_orders` have `user` and `order`. */
function wordsOf(text: string): string[] {
  const words =
    text
      .replace(/(\p{Ll})(\p{Lu})/gu, '$1 $2')
      .toLowerCase()
      .match(/\p{L}{4,}/gu) ?? []
  return words.map(word => word.replace(/s$/, '')).filter(word => !STOP.has(word))
}

const STOP = new Set(
  (
    'about also call check current data fetch find from function give have into list look make name please return search ' +
    'show some tell that their them then there these thing this tool update user using value want what when where which ' +
    'will with would your'
  ).split(' '),
)

/** Arguments by the tool's schema; `{}` if the schema cannot be satisfied, as a real model might send. */
function argumentsOf(tool: DemoTool, hints: Hints): string {
  if (tool.parameters === null) return '{}'
  try {
    return JSON.stringify(sample(tool.parameters, hints, false) ?? {})
  } catch (error) {
    if (error instanceof SampleError) return '{}'
    throw error
  }
}
