/** Structured output for compatible providers with fewer forms of `response_format`. */
import type { ChatMessage, ChatRequest } from '#contract'
import { answerSchema } from '../translate/parameters.ts'
import { type Fields, isFields } from '../translate/value.ts'
import type { Quirks } from './profile.ts'

const ANY_OBJECT = { type: 'object' }

/**
 * Converts the format; the same body if nothing changes. For a provider without schemas, the schema becomes an instruction, which no
 * provider enforces. Throws a refusal for JSON of another kind there.
 */
export function withShape(body: ChatRequest, { shapes }: Quirks, dropped: Set<string>): ChatRequest {
  const format = body['response_format']
  if (shapes === undefined || !isFields(format)) return body
  if (format['type'] === 'json_object' && !shapes.has('json_object')) {
    return withFormat(body, { type: 'json_schema', json_schema: { name: 'answer', schema: ANY_OBJECT } })
  }
  const described = format['json_schema']
  if (format['type'] !== 'json_schema' || !isFields(described)) return body
  const { schema } = described
  if (shapes.has('json_schema')) {
    return schema == null ? withFormat(body, { ...format, json_schema: { ...described, schema: ANY_OBJECT } }) : body
  }
  if (isFields(schema)) answerSchema(schema)
  dropped.add('response_format')
  return {
    ...withFormat(body, { type: 'json_object' }),
    messages: afterInstructions(body.messages, { role: 'system', content: instruction(schema) }),
  }
}

const withFormat = (body: ChatRequest, format: Fields): ChatRequest => ({ ...body, response_format: format })

function instruction(schema: unknown): string {
  const words = 'Answer with one JSON object and nothing else: no words around it and no code fence.'
  return schema == null ? words : `${words} It must be valid against this JSON Schema:\n${JSON.stringify(schema)}`
}

function afterInstructions(messages: readonly ChatMessage[], added: ChatMessage): ChatMessage[] {
  const at = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer')
  return messages.toSpliced(at < 0 ? messages.length : at, 0, added)
}
