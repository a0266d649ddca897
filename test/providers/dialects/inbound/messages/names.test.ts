/** Names of tools that are too long for most providers. */
import { expect, test } from 'vitest'
import { answer, bodyOf, chunk, completion, folded, streamed } from './support.ts'

const toolOf = (name: string) => ({ name, input_schema: { type: 'object' } })
const LONG = `mcp__${'records_of_the_company'.repeat(3)}__find`
const OTHER = `mcp__${'records_of_the_company'.repeat(3)}__drop`
const FITS = 'x'.repeat(64)
const tools = [LONG, OTHER, FITS].map(toolOf)

const namesIn = (body: ReturnType<typeof bodyOf>) =>
  (body as unknown as { tools: { function: { name: string } }[] }).tools.map(tool => tool.function.name)

test('are shortened, each in its own way, wherever they stand', () => {
  const body = bodyOf({
    tools,
    tool_choice: { type: 'tool', name: LONG },
    messages: [
      { role: 'user', content: 'Find it.' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: LONG, input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'Found.' }] },
    ],
  })
  const [long, other, fits] = namesIn(body)
  expect(long).toMatch(/^mcp__records_of_the_company\w{28}_[0-9a-f]{8}$/)
  expect([long!.length, other!.length, fits]).toEqual([64, 64, FITS])
  expect(other).not.toBe(long)
  expect(body['tool_choice']).toEqual({ type: 'function', function: { name: long } })
  expect(body.messages[1]).toMatchObject({ tool_calls: [{ id: 'a', function: { name: long } }] })
})

test('are whole again in the answer', async () => {
  const called = [...namesIn(bodyOf({ tools })), 'unheard_of'].map((name, index) => ({
    index,
    id: `c${index}`,
    type: 'function',
    function: { name, arguments: '{}' },
  }))
  const uses = [LONG, OTHER, FITS, 'unheard_of'].map((name, index) => ({
    type: 'tool_use',
    id: `c${index}`,
    name,
    input: {},
  }))
  expect(answer(completion({ tool_calls: called }), { tools }).content).toEqual(uses)
  const chunks = called.map(call => chunk({ tool_calls: [call] }))
  expect((await folded(streamed(chunks, { tools }))).content).toEqual(uses)
})
