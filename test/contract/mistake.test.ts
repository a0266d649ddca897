import { describe, expect, test } from 'vitest'
import { mistakeText, placeOfMistake, shownPlace } from '#contract'

const thrown = (stack: string, cause?: unknown) => Object.assign(new Error('boom', { cause }), { stack })
const frames = (...lines: readonly string[]) => `Error: boom\n${lines.map(line => `    at ${line}`).join('\n')}`
const OWN = new URL('../../src/request/exchange.ts', import.meta.url).href

describe('the place of a mistake', () => {
  test.each<[string, string, string | null]>([
    ['a function', frames('f (file:///p/policies/mine.ts?content=0fa2:3:37)'), 'policies/mine.ts:3:37'],
    ['the top of a module', frames('file:///p/policies/mine.ts?content=0fa2:4:1'), 'policies/mine.ts:4:1'],
    ['after an await', frames('async handle (file:///p/policies/mine.ts:4:1)'), 'policies/mine.ts:4:1'],
    ['the top of a module, after an await', frames('async file:///p/policies/mine.ts:4:1'), 'policies/mine.ts:4:1'],
    ['CommonJS', frames('Object.<anonymous> (/p/policies/mine.cjs:2:7)'), 'policies/mine.cjs:2:7'],
    ['outside of the folder of gateway.yaml', frames('f (/q/mine.js:2:7)'), '/q/mine.js:2:7'],
    ['blanks', frames('new Mine (file:///p/our%20own/mine.ts:3:7)'), 'our own/mine.ts:3:7'],
    ['parentheses', frames('/p/own (2)/mine.js:3:7'), 'own (2)/mine.js:3:7'],
    [
      'a function called by the plugin',
      frames('read (node:fs:1:2)', `json (${OWN}:9:9)`, 'f (/p/a.js:2:7)'),
      'a.js:2:7',
    ],
    ['a package called by the plugin', frames('g (/p/node_modules/x/i.js:1:1)', 'f (/p/a.js:2:7)'), 'a.js:2:7'],
    ['a package', frames('g (/p/node_modules/x/i.js:1:1)'), 'node_modules/x/i.js:1:1'],
    [
      'a package in a test',
      frames('g (/p/node_modules/x/i.js:1:1)', `run (${OWN}:9:9)`, '/p/x.test.js:5:1'),
      'node_modules/x/i.js:1:1',
    ],
    ['nowhere', frames('read (node:fs:1:2)', 'Promise.all (index 0)', 'new Promise (<anonymous>)'), null],
    ['the gateway', frames(`json (${OWN}:9:9)`), null],
    [
      'syntax',
      'file:///p/mine.ts?content=0f:2\nexport {\n  a: "b",,\n         ^\n}\n\nSyntaxError: boom',
      'mine.ts:2:10',
    ],
    ['syntax without a mark', '/p/mine.cjs:2\nSyntaxError: boom', 'mine.cjs:2'],
  ])('%s', (_name, stack, place) => {
    expect(shownPlace(placeOfMistake(thrown(stack)), '/p/policies/main.yaml')).toBe(place)
  })

  test('the place of the cause, if the error itself has none', () => {
    const cause = thrown(frames('f (/p/a.js:2:7)'))
    expect(placeOfMistake(thrown(frames('node:fs:1:2'), cause))).toEqual({ file: '/p/a.js', line: 2, column: 7 })
    const circle = thrown('')
    circle.cause = circle
    expect(placeOfMistake(circle)).toBe(null)
  })
})

test.each<[string, unknown, string]>([
  ['an error', thrown(frames('f (/p/a.js:2:7)')), 'boom (a.js:2:7)'],
  [
    'an error with a place in its message',
    Object.assign(thrown(frames('f (/p/a.js:2:7)')), { message: 'x (a.js:2:7)' }),
    'x (a.js:2:7)',
  ],
  ['several lines', Object.assign(new Error('one\ntwo'), { stack: '' }), 'one'],
  ['no message', Object.assign(new TypeError(), { stack: '' }), 'TypeError'],
  ['a text', 'nothing', 'nothing'],
  ['null', null, 'null'],
  ['an object with a message', { message: 'well' }, 'well'],
])('a thrown value, in one line: %s', (_name, error, text) => {
  expect(mistakeText(error, '/p/policies/main.yaml')).toBe(text)
})
