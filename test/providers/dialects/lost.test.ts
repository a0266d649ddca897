/** Requests with dropped parts, under each value of `on_dropped`. */
import { expect, test } from 'vitest'
import { refusalOfLost } from '../../../src/providers/dialects/lost.ts'

interface Row {
  /** Parts dropped while decoding into the canonical format. */
  readonly before?: readonly string[]
  /** Parts dropped for the target. */
  readonly dropped?: readonly string[]
  /** The parameter that the refusal names, by `on_dropped`. */
  readonly tools: string | null
  readonly all: string | null
}

test.each<Row>([
  { tools: null, all: null },
  { dropped: ['seed'], tools: null, all: 'seed' },
  { before: ['reasoning_effort'], tools: null, all: null },
  { dropped: ['tools.function.strict'], tools: null, all: 'tools.function.strict' },
  { before: ['reasoning_effort', 'tools.web_search'], tools: null, all: 'tools.web_search' },
  { before: ['tools.web_search'], dropped: ['tools.custom'], tools: 'tools.custom', all: 'tools.web_search' },
  { dropped: ['seed', 'tools.custom'], tools: 'tools.custom', all: 'tools.custom' },
  { dropped: ['tools'], tools: 'tools', all: 'tools' },
  { dropped: ['functions'], tools: 'functions', all: 'functions' },
  { dropped: ['tool_choice'], tools: null, all: 'tool_choice' },
])('$before and $dropped', ({ before, dropped = [], tools, all }) => {
  const chat = before === undefined ? {} : { dropped: before }
  const named = (['tell', 'refuse_tools', 'refuse'] as const).map(
    onDropped => refusalOfLost(chat, { dropped }, onDropped)?.param ?? null,
  )
  expect(named).toEqual([null, tools, all])
})
